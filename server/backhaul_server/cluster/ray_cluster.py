"""A front end's side of a Ray cluster: connecting to it, its directory, and the ways to its workers."""

from __future__ import annotations

import contextlib
import logging
import time
from threading import Lock
from typing import Any, Final

import ray
from ray.exceptions import GetTimeoutError, RayError

from backhaul_proto.errors import make_error
from backhaul_server.cluster.demand import Demand, read_resources, read_workers
from backhaul_server.cluster.facts import Away, Key, Link, Obituary, WorkerState
from backhaul_server.cluster.ray_actors import DIRECTORY, WORKER, DirectoryActor
from backhaul_server.cluster.ray_link import CONTROL, RayLink
from backhaul_server.config import ServerSettings

ASKING: Final = 5.0
"""Seconds for which the directory is waited for; it computes nothing."""
MEETING: Final = 5.0
"""Seconds for which a worker that was not met before is waited for, until it has told who it is."""
FIRST: Final = 60.0
"""Seconds for which a front end that starts waits for a worker."""
OTHERS: Final = 5.0
"""Seconds for which it waits for the others when there is one."""
_LOOK: Final = 0.1
_THREADS: Final = 16

log = logging.getLogger("backhaul.server")


class RayCluster:
    """The workers and their directory; see `Cluster`.

    Args:
        directory: Ray's handle.
    """

    def __init__(self, directory: Any) -> None:
        self._directory = directory
        self._links: dict[bytes, RayLink] = {}
        self._lock = Lock()

    def place(self, key: Key, dead: bytes = b"") -> bytes | None:
        """See `Cluster`."""
        if dead:
            self._links.pop(dead, None)
        found: bytes | None = self._ask("place", key, dead)
        return found

    def find(self, key: Key) -> bytes | None:
        """See `Cluster`."""
        found: bytes | None = self._ask("find", key)
        return found

    def obituary(self, epoch: bytes) -> Obituary | None:
        """See `Cluster`."""
        known = self._links.get(epoch)
        found: Obituary | None = self._ask("obituary", epoch)
        if found is None and known is not None:  # the directory has not noticed yet
            return Obituary(known.facts, "")
        return found

    def workers(self) -> list[WorkerState]:
        """See `Cluster`."""
        found: list[WorkerState] = self._ask("workers")
        return found

    def want(self, workers: int) -> None:
        """Have so many workers from now on."""
        self._ask("want", workers)

    def drain(self, name: str) -> list[str]:
        """Let a worker, or those of a node, have no new sessions. Returns their names."""
        found: list[str] = self._ask("drain", name)
        return found

    def link(self, epoch: bytes) -> Link | None:
        """See `Cluster`: by the worker's name, so that the directory need not be there."""
        known = self._links.get(epoch)
        if known is not None:
            return known
        try:
            handle = ray.get_actor(f"{WORKER}{epoch.hex()}")
        except ValueError:
            return None
        try:
            asked = handle.facts.options(concurrency_group=CONTROL).remote()
            made = RayLink(handle, ray.get(asked, timeout=MEETING))
        except GetTimeoutError:
            raise Away(f"Worker {epoch.hex()}") from None
        except RayError:
            return None
        with self._lock:
            return self._links.setdefault(epoch, made)

    def close(self) -> None:
        """Let go of the cluster; one that was started by this process ends."""
        ray.shutdown()

    def _ask(self, method: str, *args: Any) -> Any:
        try:
            asked = getattr(self._directory, method).remote(*args)
            return ray.get(asked, timeout=ASKING)
        except (GetTimeoutError, RayError):
            raise Away("The cluster's directory") from None


def connect(settings: ServerSettings) -> RayCluster:
    """Join the cluster that the settings name, or start one on this machine, with its directory and workers.

    Raises:
        InvalidArgument: INVALID_VALUE; INVALID_TARGET, there is no such cluster.
    """
    demand = Demand(
        settings.worker_cpus, settings.worker_gpus, read_resources(settings.worker_resources)
    )
    _join(settings.ray_address, settings.ray_namespace)
    count = read_workers(settings.workers) or _as_many_as_fit(demand)
    made: Any = ray.remote(DirectoryActor)
    directory = made.options(
        name=DIRECTORY,
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        max_concurrency=_THREADS,
        num_cpus=0,
    ).remote(settings.model_dump(mode="json"), demand, count)
    cluster = RayCluster(directory)
    _wait_for_workers(cluster, count)
    return cluster


def _wait_for_workers(cluster: RayCluster, count: int) -> None:
    """So that the first calls find them. Where nodes have to be started for all, the first are enough.

    Raises:
        Unavailable: not even the directory could be started.
    """
    until = time.monotonic() + FIRST
    wanted, found = False, 0
    while time.monotonic() < until:
        with contextlib.suppress(Away):  # the directory is being started
            if not wanted:
                cluster.want(count)
                wanted = True
            up = len(cluster.workers())
            if up >= count:
                return
            if up and not found:
                found, until = up, min(until, time.monotonic() + OTHERS)
        time.sleep(_LOOK)
    if found:
        return
    if not wanted:
        raise make_error(
            "UNAVAILABLE",
            f"The directory of the workers did not start within {FIRST:g} s. Ray's own `ray status` and the "
            "logs of its actors say why: has every node the same release of backhaul, Ray and Python?",
        )
    log.warning("no worker yet", extra={"waited": FIRST})


def find(address: str, namespace: str) -> RayCluster:
    """The workers of a cluster that runs.

    Raises:
        InvalidArgument: INVALID_TARGET, there is no such cluster, or it has none.
    """
    _join(address, namespace)
    try:
        return RayCluster(ray.get_actor(DIRECTORY))
    except ValueError:
        raise make_error(
            "INVALID_TARGET",
            f"The Ray cluster at {address} has no workers of backhaul's in the namespace {namespace!r}. They "
            "are started by `backhaul serve --workers ray --ray-address ...`.",
            actual=address,
        ) from None


def _join(address: str | None, namespace: str) -> None:
    """Join a cluster; None: a new one, on this machine alone, that ends with this process."""
    options: dict[str, Any] = {"address": address}
    if address is None:
        # Nobody else is to reach its ports.
        options = {"address": "local", "include_dashboard": False, "_node_ip_address": "127.0.0.1"}
    try:
        ray.init(namespace=namespace, log_to_driver=False, configure_logging=False, **options)
    except (ConnectionError, RayError, RuntimeError, ValueError) as error:
        line = " ".join(str(error).split())
        raise make_error(
            "INVALID_TARGET",
            f"No Ray cluster at {options['address']}: {line:.300} Start one with `ray start --head`, and "
            "name it with --ray-address (auto: the one that this machine is part of).",
            actual=options["address"],
        ) from None


def _as_many_as_fit(demand: Demand) -> int:
    """How many workers the cluster has room for, as it is now; at least one."""
    total = ray.cluster_resources()
    asked = {"CPU": demand.cpus, "GPU": demand.gpus, **dict(demand.resources)}
    counts = [int(total.get(name, 0.0) / amount) for name, amount in asked.items() if amount]
    return max(1, min(counts, default=1))
