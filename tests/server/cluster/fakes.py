"""A cluster without Ray: workers in this process, that die when a test says so."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from backhaul_server.cluster.directory import Directory
from backhaul_server.cluster.facts import (
    Away,
    Died,
    Key,
    Late,
    Link,
    Obituary,
    WorkerFacts,
    WorkerState,
)
from backhaul_server.cluster.session_worker import SessionWorker
from backhaul_server.cluster.store_share import StoreShare
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher


class Asked:
    """What was asked of a worker, on a thread of its own."""

    def __init__(self, work: Callable[[], Any], died: threading.Event) -> None:
        self._work = work
        self._died = died
        self._done = threading.Event()
        self._value: Any = None
        self._error: BaseException | None = None
        threading.Thread(target=self._run, daemon=True).start()

    def _run(self) -> None:
        try:
            self._value = self._work()
        except BaseException as error:
            self._error = error
        self._done.set()

    def result(self, timeout: float | None) -> Any:
        waited = 0.0
        while not self._done.wait(0.005):
            waited += 0.005
            if self._died.is_set():
                raise Died("it was killed")
            if timeout is not None and waited >= timeout:
                raise Late
        if self._died.is_set():
            raise Died("it was killed")
        if self._error is not None:
            raise self._error
        return self._value


class FakeWorker:
    """The way to a worker, and the worker.

    Attributes:
        worker: that.
        died: set: it is dead.
        away: set: it cannot be reached.
        asked: the names of what it was asked.
    """

    def __init__(self, number: int, node: str, **options: Any) -> None:
        epoch = number.to_bytes(8, "big")
        self.facts = WorkerFacts(epoch, node, "cpu", number)
        self.died = threading.Event()
        self.away = threading.Event()
        self.asked: list[str] = []
        dispatcher = Dispatcher(Engine(), epoch=epoch, **options)
        self.dispatcher = dispatcher
        self.worker = SessionWorker(dispatcher, self.facts, StoreShare(1 << 20))

    def ask(self, method: str, *args: Any) -> Asked:
        if self.died.is_set():
            raise Died("it was killed")
        if self.away.is_set():
            raise Away(f"Worker {self.facts.name}")
        self.asked.append(method)
        return Asked(lambda: getattr(self.worker, method)(*args), self.died)


class FakeLauncher:
    """Starts workers on nodes, in turn."""

    def __init__(self, nodes: Sequence[str] = ("one", "two"), **options: Any) -> None:
        self._nodes = nodes
        self._options = options
        self._up: list[Link | str] = []
        self._count = 0
        self.made: list[FakeWorker] = []
        self.ended: list[Link] = []
        self.fails = False

    @property
    def starting(self) -> int:
        return len(self._up)

    def start(self, avoided: Sequence[str]) -> None:
        if self.fails:
            self._up.append("no such resource")
            return
        nodes = [each for each in self._nodes if each not in avoided]
        if not nodes:
            return
        self._count += 1
        made = FakeWorker(self._count, nodes[self._count % len(nodes)], **self._options)
        self.made.append(made)
        self._up.append(made)

    def started(self) -> Iterator[Link | str]:
        up, self._up = self._up, []
        yield from up

    def end(self, link: Link) -> None:
        self.ended.append(link)

    def close(self) -> None:
        for each in self.made:
            each.worker.close()


class FakeCluster:
    """The workers and their directory in this process; see `Cluster`."""

    def __init__(self, directory: Directory, launcher: FakeLauncher) -> None:
        self.directory = directory
        self._launcher = launcher
        self.looked_up = 0

    def place(self, key: Key, dead: bytes = b"") -> bytes | None:
        return self.directory.place(key, dead)

    def find(self, key: Key) -> bytes | None:
        self.looked_up += 1
        return self.directory.find(key)

    def link(self, epoch: bytes) -> Link | None:
        return next((each for each in self._launcher.made if each.facts.epoch == epoch), None)

    def obituary(self, epoch: bytes) -> Obituary | None:
        return self.directory.obituary(epoch)

    def workers(self) -> list[WorkerState]:
        return self.directory.workers()

    def close(self) -> None:
        """Nothing to let go of."""


def ticked(directory: Directory, until: Callable[[], bool]) -> None:
    """Let the directory look until something is so."""
    pause = threading.Event()
    for _ in range(2000):
        directory.tick()
        if until():
            return
        pause.wait(0.005)
    raise AssertionError("it did not come to be")


def reported(directory: Directory, count: int) -> None:
    """Let it look until so many workers have reported."""
    ticked(directory, lambda: len(directory.workers()) == count)
