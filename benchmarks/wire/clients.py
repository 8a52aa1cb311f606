"""Processes of clients that work on sessions of their own, all at once, for a while."""

from __future__ import annotations

import multiprocessing
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
from benchmarks.wire.ways import Target, open_target

import backhaul as bh

_SPAWN: Final = multiprocessing.get_context("spawn")

SMALL_STEPS: Final = 100
_A: Final = np.array([[0.6, 0.8], [-0.8, 0.6]])


class Client:
    """A process that is told an order and gives back its result.

    Args:
        work: what it does: gets its connection to the server and the order; a function of a module.
        target: the server.
    """

    def __init__(self, work: Callable[[bh.Connection, Any], Any], target: Target) -> None:
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, work, target), daemon=True)
        self._process.start()
        theirs.close()
        self._pipe.recv()

    def order(self, order: Any) -> None:
        """Let it begin; `result` waits for it."""
        self._pipe.send(order)

    def result(self) -> Any:
        """What the work returned.

        Raises:
            SystemExit: the process has ended; what it says stands above.
        """
        try:
            return self._pipe.recv()
        except EOFError:
            raise SystemExit("A client's process ended; what it says stands above.") from None

    @property
    def has_result(self) -> bool:
        """Whether `result` would not wait."""
        return self._pipe.poll()

    def end(self) -> None:
        """End the process."""
        self._pipe.close()
        self._process.join(10)
        if self._process.is_alive():
            self._process.kill()


@contextmanager
def clients(
    count: int, work: Callable[[bh.Connection, Any], Any], target: Target
) -> Iterator[list[Client]]:
    """So many of them, ended at the end."""
    found: list[Client] = []
    try:
        for _ in range(count):
            found.append(Client(work, target))
        yield found
    finally:
        for each in found:
            each.end()


def small_block(tape: bh.Tape) -> None:
    """A value and gradient of some 2×2 products."""
    a = tape.leaf(_A)
    y = a
    for _ in range(SMALL_STEPS):
        y = y @ a
    tape.pullback(bh.sum(y))


def small_blocks(connection: bh.Connection, order: tuple[int, float]) -> int:
    """Blocks that so many sessions, each in a thread, got done in so many seconds."""
    sessions, seconds = order
    tapes = [bh.Tape(connection) for _ in range(sessions)]
    for each in tapes:
        small_block(each)
    done = [0] * sessions
    end = time.perf_counter() + seconds

    def ask(i: int) -> None:
        while time.perf_counter() < end:
            small_block(tapes[i])
            done[i] += 1

    threads = [threading.Thread(target=ask, args=(i,)) for i in range(sessions)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for each in tapes:
        each.close()
    return sum(done)


def _serve(pipe: Connection, work: Callable[[bh.Connection, Any], Any], target: Target) -> None:
    with open_target(target) as connection:
        pipe.send(None)
        while True:
            try:
                order = pipe.recv()
            except EOFError:
                return
            pipe.send(work(connection, order))
