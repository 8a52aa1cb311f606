"""Many sessions: work of all together, a small call beside large ones, and what an idle one takes."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from benchmarks.memory_use import resident
from benchmarks.timing import Figure
from benchmarks.wire.clients import SMALL_STEPS, Client, clients, small_blocks
from benchmarks.wire.section import Section
from benchmarks.wire.ways import Server, Target, open_target, serving

import backhaul as bh

_SESSIONS, _PROCESSES = 64, 4
_SHARE: Final = 0.8
_P99: Final = 30.0  # ms
_IDLE, _QUICK_IDLE, _WARM = 10_000, 2_000, 500
_IDLE_BYTES: Final = 10_000
_BLOCK: Final = 1.0  # seconds that a large block is to take


def measure(quick: bool) -> list[Section]:
    """Three tables."""
    seconds = 1.0 if quick else 3.0
    with serving() as server:
        together = _together(server, seconds)
    with serving() as server:
        beside = _beside(server, 2 * seconds)
    with serving() as server:
        idle = _idle(server, _QUICK_IDLE if quick else _IDLE)
    return [
        Section(f"{_SESSIONS} sessions at once, blocks of {SMALL_STEPS} products of 2×2", together),
        Section("A small value and gradient while another session runs blocks of 1 s", beside),
        Section("Idle sessions", idle),
    ]


def _together(server: Server, seconds: float) -> list[Figure]:
    """Their ops per second against the best of a single session's, one taken before and one after."""
    figures = []
    for name, target in server.targets().items():
        with clients(_PROCESSES, small_blocks, target) as processes:
            single = [_rate(processes[:1], 1, seconds / 2)]
            all_rate = _rate(processes, _SESSIONS // _PROCESSES, seconds)
            single.append(_rate(processes[:1], 1, seconds / 2))
        best = max(single)
        figures.append(
            Figure(
                f"{name}: all / the best single session",
                all_rate / best,
                _SHARE,
                detail=f"{all_rate / 1e3:.0f}k against {best / 1e3:.0f}k ops/s",
                more_is_better=True,
            )
        )
    return figures


def _rate(processes: list[Client], sessions: int, seconds: float) -> float:
    for each in processes:
        each.order((sessions, seconds))
    done: int = sum(each.result() for each in processes)
    return done * SMALL_STEPS / seconds


@dataclass(frozen=True, slots=True)
class _Large:
    """A block that takes a second or so: made of what, for how many steps at first, and its goal."""

    name: str
    record: Callable[[bh.Tape, int], bh.TrackedTensor]
    steps: int
    goal: float | None


def _many_small(tape: bh.Tape, steps: int) -> bh.TrackedTensor:
    """Sums of 50,000 products: some 20 µs each, and a number is all that stays."""
    x = tape.constant(np.ones(50_000))
    kept = [bh.einsum("i,i->", x, x) for _ in range(steps)]
    return kept[-1]


def _medium(tape: bh.Tape, steps: int) -> bh.TrackedTensor:
    """Products of 256×256: about 1 ms each."""
    rotation, _ = np.linalg.qr(np.random.default_rng(2).standard_normal((256, 256)))
    a = y = tape.constant(rotation)
    for _ in range(steps):
        y = y @ a
    return y[0, 0]


def _one_call(tape: bh.Tape, size: int) -> bh.TrackedTensor:
    """One product of large matrices, which nothing interrupts."""
    x = tape.constant(np.ones(size))
    square = bh.einsum("i,j->ij", x, x)
    return (square @ square)[0, 0]


_LARGE: Final = (
    _Large("many small steps", _many_small, 2_000, _P99),
    _Large("many products of 256×256", _medium, 100, _P99),
    _Large("one product of 3000×3000", _one_call, 3_000, None),
)


def large_blocks(connection: bh.Connection, order: tuple[int, int, float]) -> list[float]:
    """Seconds of each block of a kind of `_LARGE`, with so many steps, for so many seconds; at least one."""
    kind, steps, seconds = order
    large = _LARGE[kind]
    end = time.perf_counter() + seconds
    taken: list[float] = []
    while not taken or time.perf_counter() < end:
        with bh.Tape(connection) as tape:
            last = large.record(tape, steps)
            started = time.perf_counter()
            last.item()
            taken.append(time.perf_counter() - started)
    return taken


def _beside(server: Server, seconds: float) -> list[Figure]:
    target = server.targets()["TCP"]
    figures = []
    with open_target(target) as connection, clients(1, large_blocks, target) as (other,):
        ask = _small_call(connection)
        alone = _milliseconds(ask, lambda: True, seconds)
        figures.append(_figure("alone", alone, None, ""))
        for kind, large in enumerate(_LARGE):
            steps = _fitting(other, kind, large.steps)
            other.order((kind, steps, seconds))
            found = _milliseconds(ask, lambda: not other.has_result, 10 * seconds)
            blocks = other.result()
            detail = f"{len(blocks)} blocks of {np.median(blocks):.2f} s"
            figures.append(_figure(f"beside {large.name}", found, large.goal, detail))
    return figures


def _fitting(other: Client, kind: int, steps: int) -> int:
    """So many steps that a block takes about a second; a single call is left as it is."""
    if _LARGE[kind].record is _one_call:
        return steps
    other.order((kind, steps, 0.3))
    blocks: list[float] = other.result()
    return max(1, int(steps * _BLOCK / min(blocks)))


def _small_call(connection: bh.Connection) -> Callable[[], object]:
    tape = bh.Tape(connection)
    x = np.array(2.0)

    def ask() -> object:
        leaf = tape.leaf(x)
        return tape.pullback(leaf * leaf)

    for _ in range(50):
        ask()
    return ask


def _milliseconds(
    ask: Callable[[], object], goes_on: Callable[[], bool], at_most: float
) -> list[float]:
    """What each of these calls took, one after another."""
    taken: list[float] = []
    end = time.perf_counter() + at_most
    while goes_on() and time.perf_counter() < end:
        started = time.perf_counter()
        ask()
        taken.append((time.perf_counter() - started) * 1e3)
    return taken


def _figure(name: str, taken: list[float], goal: float | None, more: str) -> Figure:
    median, high = np.percentile(taken, (50, 99))
    detail = f"median {median:.2f} ms of {len(taken)} calls"
    return Figure(f"{name}: p99", float(high), goal, " ms", f"{detail}; {more}" if more else detail)


def _idle(server: Server, count: int) -> list[Figure]:
    """The server's memory before and after, by the session; some are opened before the first look."""
    tapes: list[Any] = []

    def open_up_to(total: int) -> None:
        while len(tapes) < total:
            tape = bh.Tape(connection)
            (tape.leaf(1.0) * 2.0).item()
            tapes.append(tape)

    target: Target = server.targets()["unix"]
    with open_target(target) as connection:
        open_up_to(_WARM)
        before = resident(server.pid)
        started = time.perf_counter()
        open_up_to(_WARM + count)
        taken = time.perf_counter() - started
        grown = resident(server.pid) - before
    each = grown / count
    detail = f"{grown / 1e6:.1f} MB for {count:,} sessions, opened in {taken:.0f} s"
    return [Figure("memory at the server, each", each / 1e3, _IDLE_BYTES / 1e3, " kB", detail)]
