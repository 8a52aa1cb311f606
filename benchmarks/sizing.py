"""How many workers for how much work: costs of a call, measured, and a queue, simulated.

``make bench-sizing``. Measured here: the processor seconds that a call costs the server, and the bytes
that a session holds, for programs of three sizes. Simulated: sessions that ask, wait for the answer, and
think; each worker has one core, is a first come, first served queue, and keeps its sessions: a tape stays
where it is, so no call goes to whoever is free. Thinking and service are exponential.

The answer is the fewest workers at which the 99th percentile of waiting and service is within
``PATIENCE`` times the median service, and the sessions' bytes fit into a worker's memory.
"""

from __future__ import annotations

import heapq
import math
import os
import random
import statistics
import sys
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[1]))

import numpy as np
from benchmarks.wire.ways import serving
from rich.console import Console
from rich.table import Table

import backhaul as bh

Array = np.ndarray[Any, Any]

PATIENCE: Final = 10.0
WORKER_BYTES: Final = 4 << 30
SESSIONS: Final = (16, 256, 4096)
THINKING: Final = (0.1, 1.0, 10.0)
CALLS: Final = 20_000


@dataclass(frozen=True, slots=True)
class Load:
    """What a session asks for.

    Attributes:
        name: of the program.
        seconds: of the server's processor, a call.
        held: bytes of a session.
    """

    name: str
    seconds: float
    held: int


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of some workers.

    Attributes:
        busy: share of the time that workers compute.
        rate: calls answered a second, by all of them.
        slow: 99th percentile of waiting and service, in seconds.
    """

    busy: float
    rate: float
    slow: float


def simulate(
    sessions: int, workers: int, seconds: float, thinking: float, calls: int, seed: int = 0
) -> Outcome:
    """A closed system: as many customers as sessions, each bound to one worker.

    Args:
        sessions: spread evenly over the workers.
        workers: each one server of a queue.
        seconds: mean service.
        thinking: mean seconds between an answer and the session's next call.
        calls: how many are simulated; the first tenth is not counted.
        seed: of the random numbers.
    """
    chance = random.Random(seed)
    events: list[tuple[float, int, int]] = []  # when, session, 0: asks, 1: is answered
    queues: list[deque[int]] = [deque() for _ in range(workers)]
    asked = [0.0] * sessions
    for session in range(sessions):
        heapq.heappush(events, (chance.expovariate(1.0) * (thinking + seconds), session, 0))
    taken: list[float] = []
    computed, began, now = 0.0, 0.0, 0.0
    answered = 0

    def start(worker: int, at: float) -> None:
        nonlocal computed
        service = chance.expovariate(1.0) * seconds
        computed += service
        heapq.heappush(events, (at + service, queues[worker][0], 1))

    while answered < calls:
        now, session, what = heapq.heappop(events)
        worker = session % workers
        if what == 0:
            asked[session] = now
            queues[worker].append(session)
            if len(queues[worker]) == 1:
                start(worker, now)
            continue
        queues[worker].popleft()
        answered += 1
        if answered == calls // 10:
            computed, began = 0.0, now
        if answered > calls // 10:
            taken.append(now - asked[session])
        pause = chance.expovariate(1.0) * thinking if thinking else 0.0
        heapq.heappush(events, (now + pause, session, 0))
        if queues[worker]:
            start(worker, now)
    span = now - began
    taken.sort()
    return Outcome(computed / span / workers, len(taken) / span, taken[int(0.99 * len(taken))])


def enough(load: Load, sessions: int, thinking: float) -> tuple[int, Outcome]:
    """The fewest workers that do, and how they do; a worker a session is the most that helps."""

    def fits(workers: int) -> Outcome | None:
        outcome = simulate(sessions, workers, load.seconds, thinking, max(CALLS, 20 * sessions))
        alone = load.seconds * math.log(2)
        return outcome if workers >= sessions or outcome.slow <= PATIENCE * alone else None

    low = max(1, math.ceil(sessions * load.held / WORKER_BYTES))
    high = low
    while (found := fits(high)) is None:
        low, high = high + 1, min(2 * high, sessions)
    while low < high:
        middle = (low + high) // 2
        if (outcome := fits(middle)) is None:
            low = middle + 1
        else:
            high, found = middle, outcome
    return high, found


def measured(target: str, size: int, layers: int, pid: int, count: int) -> Load:
    """A chain of products of matrices, its gradient asked for again and again on one tape."""
    rng = np.random.default_rng(0)
    with bh.connect(target, shared_memory=False) as connection, bh.Tape(connection) as tape:
        weights = [
            tape.constant(rng.normal(size=(size, size)) / math.sqrt(size)) for _ in range(layers)
        ]
        x = rng.normal(size=(size, size))

        def ask() -> None:
            leaf = tape.leaf(x)
            y: Any = leaf
            for w in weights:
                y = bh.tanh(w @ y)
            tape.pullback(bh.sum(y), fetch=False)

        for _ in range(5):
            ask()
        costs = []
        for _ in range(5):
            before = _processor_seconds(pid)
            for _ in range(count):
                ask()
            costs.append((_processor_seconds(pid) - before) / count)
        held = next(each.info.bytes for each in connection.sessions())
    return Load(f"{layers} products of {size}×{size}", statistics.median(costs), held)


def _processor_seconds(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def main() -> None:
    console = Console(width=140)
    with serving() as server:
        loads = [
            measured(server.tcp, 2, 3, server.pid, 1000),
            measured(server.tcp, 64, 10, server.pid, 100),
            measured(server.tcp, 512, 10, server.pid, 2),
        ]
    console.print("\n[bold]What a call costs the server[/bold], its gradient included")
    costs = Table("program", "processor ms", "session holds MB", "calls/s of one core", box=None)
    for load in loads:
        costs.add_row(
            load.name,
            f"{load.seconds * 1e3:.3g}",
            f"{load.held / 1e6:.3g}",
            f"{1 / load.seconds:,.0f}",
        )
    console.print(costs)
    console.print(
        f"\n[bold]Workers[/bold] of one core and {WORKER_BYTES >> 30} GiB: the fewest for which the 99th "
        f"percentile is within {PATIENCE:g} × the median call alone"
    )
    table = Table(
        "program", "sessions", "thinking s", "workers", "busy", "calls/s", "99 % ms", box=None
    )
    for load in loads:
        for sessions in SESSIONS:
            for thinking in THINKING:
                workers, outcome = enough(load, sessions, thinking)
                table.add_row(
                    load.name,
                    f"{sessions:,}",
                    f"{thinking:g}",
                    f"{workers:,}",
                    f"{outcome.busy:.0%}",
                    f"{outcome.rate:,.0f}",
                    f"{outcome.slow * 1e3:.3g}",
                )
    console.print(table)


if __name__ == "__main__":
    main()
