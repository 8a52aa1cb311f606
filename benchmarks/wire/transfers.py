"""One large tensor up and down, in GB/s, against a bare gRPC stream, a socket and memcpy."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from typing import Any, Final

import numpy as np
from benchmarks.memory_use import available_memory
from benchmarks.timing import Figure, rounds, timed
from benchmarks.wire.bare_streams import RawSocket, bare_stream, stream_server
from benchmarks.wire.section import Section
from benchmarks.wire.ways import SHARED, connections, serving

import backhaul as bh

Array = np.ndarray[Any, Any]
Job = Callable[[], float]

MEGABYTES: Final = (1, 64, 1000)
_ROUNDS: Final = {1: 25, 64: 7, 1000: 2}
_NEEDED: Final = 8  # copies of the largest array that are in memory at once: both ends, and room
_STREAM, _MEMCPY = 0.9, 0.6
"""Goals: of a bare gRPC stream's rate over sockets, of memcpy's with shared memory."""


def measure(quick: bool) -> list[Section]:
    """A section for each size."""
    sections = []
    with (
        serving() as server,
        connections(server) as ways,
        stream_server() as bare,
        ExitStack() as stack,
    ):
        sockets = {
            name: stack.enter_context(RawSocket(each)) for name, each in bare.sockets.items()
        }
        for megabytes in MEGABYTES[: 2 if quick else None]:
            title = f"A tensor of {megabytes:,} MB"
            needed = _NEEDED * megabytes * 10**6
            if needed > available_memory():
                note = f"Left out: it needs {needed / 1e9:.0f} GB of free memory."
                sections.append(Section(title, [], [note]))
                continue
            array = np.random.default_rng(1).random(megabytes * 10**6 // 8)
            count = min(_ROUNDS[megabytes], 5) if quick else _ROUNDS[megabytes]
            sections.append(_section(title, array, ways, bare.channels, sockets, count))
    return sections


def _section(
    title: str,
    array: Array,
    ways: Mapping[str, bh.Connection],
    channels: Mapping[str, Any],
    sockets: Mapping[str, RawSocket],
    count: int,
) -> Section:
    notes: list[str] = []
    figures: list[Figure] = []
    for direction in ("up", "down"):
        jobs: dict[str, Job] = {"memcpy": _memcpy(array), "fresh": lambda: timed(array.copy)}
        for name, channel in channels.items():
            jobs[f"gRPC {name}"] = bare_stream(channel, array, direction)
            jobs[f"socket {name}"] = sockets[name].job(array, direction)
        for job in jobs.values():
            job()
        measured = []
        for name, connection in ways.items():
            job = _up(connection, array) if direction == "up" else _down(connection, array)
            try:
                job()
            except bh.BackhaulError as refused:
                reason = str(refused).partition(". ")[0]
                notes.append(
                    f"{name}, {direction}: not carried ({type(refused).__name__}: {reason})."
                )
                continue
            measured.append(name)
            jobs[name] = job
        medians = rounds(jobs, count, warm=True)
        rates = {name: array.nbytes / seconds / 1e9 for name, seconds in medians.items()}
        figures += [_figure(name, direction, rates) for name in measured]
        figures.append(_against_memcpy("a copy into new memory", "fresh", rates, None))
    return Section(title, figures, notes)


def _figure(name: str, direction: str, rates: Mapping[str, float]) -> Figure:
    if name in (SHARED, "embedded"):
        goal = _MEMCPY if name == SHARED else None
        return _against_memcpy(f"{name}, {direction}", name, rates, goal)
    bare, socket = rates[f"gRPC {name}"], rates[f"socket {name}"]
    return Figure(
        f"{name}, {direction} / bare gRPC",
        rates[name] / bare,
        _STREAM,
        detail=f"{rates[name]:.2f} against {bare:.2f} GB/s; a bare socket {socket:.2f}",
        more_is_better=True,
    )


def _against_memcpy(
    title: str, name: str, rates: Mapping[str, float], goal: float | None
) -> Figure:
    return Figure(
        f"{title} / memcpy",
        rates[name] / rates["memcpy"],
        goal,
        detail=f"{rates[name]:.2f} against {rates['memcpy']:.2f} GB/s",
        more_is_better=True,
    )


def _up(connection: bh.Connection, array: Array) -> Job:
    """A leaf, and one number of it back, so that it is known to have come."""

    def run() -> float:
        # Closed outside the clock: the next transfer finds the server's memory in use before, by whatever
        # way it comes. Pages touched for the first time would cost the first way several times the rest.
        with bh.Tape(connection) as tape:
            started = time.perf_counter()
            leaf = tape.leaf(array)
            last = leaf[-1].item()
            taken = time.perf_counter() - started
            assert last == array[-1]
        return taken

    return run


def _down(connection: bh.Connection, array: Array) -> Job:
    """The value of an array that is on the server."""

    def run() -> float:
        with bh.Tape(connection) as tape:
            leaf = tape.leaf(array)
            leaf[-1].item()
            started = time.perf_counter()
            value = leaf.numpy()
            taken = time.perf_counter() - started
            assert value[-1] == array[-1]
        return taken

    return run


def _memcpy(array: Array) -> Job:
    target = np.empty_like(array)
    target.fill(0)
    return lambda: timed(lambda: np.copyto(target, array))
