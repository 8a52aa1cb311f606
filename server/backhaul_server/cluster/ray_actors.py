"""What runs in Ray's processes: a session worker, and the directory with the thread that looks after it."""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from backhaul_server.assembly import Part, assemble
from backhaul_server.cluster.demand import Demand
from backhaul_server.cluster.directory import Directory
from backhaul_server.cluster.facts import Away, Died, Key, Link, Obituary, WorkerFacts, WorkerState
from backhaul_server.cluster.ray_link import CONTROL, RayLink, words
from backhaul_server.cluster.session_worker import SessionWorker
from backhaul_server.cluster.store_share import StoreShare
from backhaul_server.config import ServerSettings
from backhaul_server.limits import usable_cores, usable_memory
from backhaul_server.resident import private_bytes

log = logging.getLogger("backhaul.server")

DIRECTORY: Final = "backhaul-directory"
"""The directory's name among actors."""
WORKER: Final = "backhaul-worker-"
"""What a worker's name begins with; its epoch follows."""
CONTROL_THREADS: Final = 4
TICK: Final = 0.5
"""Seconds between looks at the workers."""
RECOVERY: Final = 30.0
"""Seconds that a directory made anew waits for a worker to tell its sessions."""


class WorkerActor(SessionWorker):
    """A session worker that makes its dispatcher itself, as the settings want it.

    Args:
        settings: of the server.
        epoch: its name.
        demand: what of a node it was given.
    """

    def __init__(self, settings: Mapping[str, Any], epoch: bytes, demand: Demand) -> None:
        made = ServerSettings(**settings)
        logging.basicConfig(level=made.log_level.upper())
        context = ray.get_runtime_context()
        node = context.get_node_id()
        gpus = context.get_accelerator_ids().get("GPU", [])
        share = demand.share_of(usable_cores())
        self._assembled = assemble(
            made,
            Part(max(1, int(demand.cpus)), int(usable_memory() * share)),
            epoch,
            private_bytes,
        )
        facts = WorkerFacts(
            epoch,
            f"{ray.util.get_node_ip_address()}/{node[:8]}",
            "gpu:" + ",".join(gpus) if gpus else "cpu",
            os.getpid(),
        )
        store = _store_bytes(node)
        super().__init__(self._assembled.dispatcher, facts, StoreShare(int(store / 2 * share)))
        self._resting = threading.Thread(target=self._rest, name="backhaul-rest", daemon=True)
        self._resting.start()

    def _rest(self) -> None:
        idle = threading.Event()
        while not idle.wait(10.0):
            self._assembled.rest.look(10.0)


def _store_bytes(node: str) -> float:
    """The size of a node's object store."""
    for each in ray.nodes():
        if each["NodeID"] == node:
            return float(each["Resources"].get("object_store_memory", 0.0))
    return 0.0


class RayLauncher:
    """Starts workers as actors; see `Launcher`.

    Args:
        settings: of the server.
        demand: what each worker is given of a node.
    """

    def __init__(self, settings: Mapping[str, Any], demand: Demand) -> None:
        self._settings = settings
        self._demand = demand
        self._starting: dict[Any, Any] = {}  # handles, by the reference to their facts
        self._next_node = 0

    @property
    def starting(self) -> int:
        """How many were started and are not up yet."""
        return len(self._starting)

    def start(self, avoided: Sequence[str]) -> None:
        """Start one more, not on these nodes."""
        epoch = secrets.token_bytes(8)
        strategy: Any = "SPREAD"
        if avoided:
            allowed = [
                each["NodeID"]
                for each in ray.nodes()
                if each["Alive"]
                and f"{each['NodeManagerAddress']}/{each['NodeID'][:8]}" not in avoided
            ]
            if not allowed:
                return
            self._next_node += 1
            strategy = NodeAffinitySchedulingStrategy(
                allowed[self._next_node % len(allowed)], soft=False
            )
        demand = self._demand
        made: Any = ray.remote(concurrency_groups={CONTROL: CONTROL_THREADS})(WorkerActor)
        handle = made.options(
            name=f"{WORKER}{epoch.hex()}",
            lifetime="detached",
            max_restarts=0,  # a life of a worker is an epoch
            # Threads take calls in turn, and each is slow at its first ones: no more than there are calls.
            max_concurrency=int(self._settings["threads"]),
            num_cpus=demand.cpus,
            num_gpus=demand.gpus,
            resources=dict(demand.resources),
            scheduling_strategy=strategy,
        ).remote(self._settings, epoch, demand)
        facts = handle.facts.options(concurrency_group=CONTROL).remote()
        self._starting[facts] = handle

    def started(self) -> Iterator[Link | str]:
        """Those that are up now and were not before; the words of those that could not be started."""
        if not self._starting:
            return
        done, _ = ray.wait(list(self._starting), num_returns=len(self._starting), timeout=0)
        for each in done:
            handle = self._starting.pop(each)
            try:
                yield RayLink(handle, ray.get(each))
            except RayError as error:
                yield words(error)

    def end(self, link: Link) -> None:
        """End one."""
        assert isinstance(link, RayLink)
        ray.kill(link.handle, no_restart=True)


class DirectoryActor:
    """The directory as an actor. Made anew after a failure, it asks the workers that are there.

    Args:
        settings: of the server, for the workers.
        demand: what each worker is given of a node.
        workers: how many there are to be.
    """

    def __init__(self, settings: Mapping[str, Any], demand: Demand, workers: int) -> None:
        logging.basicConfig(level=str(settings["log_level"]).upper())
        self._launcher = RayLauncher(settings, demand)
        self._directory = Directory(self._launcher)
        self._directory.want(workers)
        self._adopt()
        self._thread = threading.Thread(target=self._look, name="backhaul-directory", daemon=True)
        self._thread.start()

    def place(self, key: Key, dead: bytes = b"") -> bytes | None:
        """See `Cluster`."""
        return self._directory.place(key, dead)

    def find(self, key: Key) -> bytes | None:
        """See `Cluster`."""
        return self._directory.find(key)

    def obituary(self, epoch: bytes) -> Obituary | None:
        """See `Cluster`."""
        return self._directory.obituary(epoch)

    def workers(self) -> list[WorkerState]:
        """See `Cluster`."""
        return self._directory.workers()

    def want(self, workers: int) -> None:
        """See `Directory`."""
        self._directory.want(workers)

    def drain(self, name: str) -> list[str]:
        """See `Directory`."""
        return self._directory.drain(name)

    def _adopt(self) -> None:
        """Ask the workers that are there already for their sessions."""
        for name in ray.util.list_named_actors():
            if not name.startswith(WORKER):
                continue
            try:
                handle = ray.get_actor(name)
                asked = handle.facts.options(concurrency_group=CONTROL).remote()
                link = RayLink(handle, ray.get(asked, timeout=RECOVERY))
                self._directory.adopt(link, link.ask("keys").result(RECOVERY))
            except (ValueError, RayError, GetTimeoutError, Away, Died):
                log.warning("a worker did not answer", extra={"worker": name})

    def _look(self) -> None:
        stop = threading.Event()
        while not stop.wait(TICK):
            try:
                self._directory.tick()
            except Exception:
                log.exception("the workers could not be looked at")  # and again, at the next tick
