"""A process for each library: asked in turns, ended when it takes too long."""

from __future__ import annotations

import importlib
import multiprocessing
import os
import resource
import statistics
import time
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, Final

from benchmarks.einsum.networks import read
from benchmarks.einsum.peers import PEERS, Job, fingerprint
from benchmarks.memory_use import available_memory
from benchmarks.timing import timed

from backhaul_server.allocator import keep_memory

_SPAWN: Final = multiprocessing.get_context("spawn")
_START: Final = 60.0  # seconds for a process to start and import
_TURN: Final = 0.02  # seconds that a turn of quick jobs lasts
_LEFT: Final = 2 << 30  # bytes of memory left to others


class Skipped(Exception):
    """A cell of the table that stays empty, and why."""


class Worker:
    """A library in a process of its own, on some cores of the machine or on all (None)."""

    def __init__(self, peer: str, limit: float, cores: int | None) -> None:
        self._limit = limit
        self._pipe, theirs = _SPAWN.Pipe()
        self._process = _SPAWN.Process(target=_serve, args=(theirs, peer), daemon=True)
        # Before it starts: libraries count the cores when they are loaded.
        own = os.sched_getaffinity(0)
        os.sched_setaffinity(0, sorted(own)[-cores:] if cores else own)
        try:
            self._process.start()
        finally:
            os.sched_setaffinity(0, own)
        theirs.close()
        self._receive(_START)

    @property
    def is_alive(self) -> bool:
        """False once it was ended, or ended by itself."""
        return self._process.is_alive()

    def end(self) -> None:
        """End the process."""
        self._process.kill()
        self._process.join()

    def open(self, file: Path) -> None:
        """Take up a network and leave the one before."""
        self._ask("open", str(file))

    def set_up(self, question: str) -> float:
        """Compile or plan; the seconds it took."""
        seconds: float = self._ask("set up", question)
        return seconds

    def first(self, question: str) -> tuple[float, list[float]]:
        """Answer once: the seconds, and the fingerprint."""
        answer: tuple[float, list[float]] = self._ask("first", question)
        return answer

    def turn(self, question: str) -> float:
        """Answer as often as fits in a turn; the median of the seconds."""
        seconds: float = self._ask("turn", question)
        return seconds

    def _ask(self, order: str, question: str) -> Any:
        try:
            self._pipe.send((order, question))
        except OSError:
            raise Skipped("its process has ended") from None
        return self._receive(self._limit)

    def _receive(self, limit: float) -> Any:
        if not self._pipe.poll(limit):
            self.end()
            raise Skipped(f"> {limit:.0f} s")
        try:
            error, answer = self._pipe.recv()
        except (EOFError, OSError):
            raise Skipped("its process ended") from None
        if error is not None:
            raise Skipped(error)
        return answer


def _serve(pipe: Connection, peer: str) -> None:
    """The process: orders come in, (error, answer) goes out."""
    if peer == "ours":
        keep_memory()  # as `backhaul serve` does
    importlib.import_module(peer if peer in ("jax", "torch") else "opt_einsum")
    asked = Asked(peer)
    pipe.send((None, None))
    while True:
        try:
            order, subject = pipe.recv()
        except EOFError:
            return
        try:
            pipe.send((None, asked.answer(order, subject)))
        except Exception as error:
            reason = str(error).strip().partition("\n")[0][:60]
            pipe.send((f"{type(error).__name__}: {reason}", None))


class Asked:
    """What a worker's process has: its library, a network and the jobs made for it."""

    def __init__(self, peer: str) -> None:
        self._peer = peer
        self._jobs: dict[str, Job] = {}

    def answer(self, order: str, subject: str) -> Any:
        match order:
            case "open":
                self._jobs.clear()
                # So it fails by itself when memory is short, and nothing else on the machine does.
                _, hard = resource.getrlimit(resource.RLIMIT_DATA)
                resource.setrlimit(resource.RLIMIT_DATA, (available_memory() - _LEFT, hard))
                self._instance = read(Path(subject))
                return None
            case "set up":
                started = time.perf_counter()
                self._jobs[subject] = PEERS[self._peer](self._instance, subject)
                return time.perf_counter() - started
            case "first":
                started = time.perf_counter()
                found = self._jobs[subject]()
                return time.perf_counter() - started, fingerprint(found)
            case _:
                return _turn(self._jobs[subject])


def _turn(job: Job) -> float:
    taken = [timed(job)]
    while sum(taken) < _TURN:
        taken.append(timed(job))
    return statistics.median(taken)
