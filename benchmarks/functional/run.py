"""What functions cost over plain calls of a tape, in one run. ``make bench-functional``.

What they add is work of the thread that calls, so its own time is what is compared: a machine that does other
things beside does not change that much.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.timing import Figure, report, rounds, timed_often
from benchmarks.wire.ways import connections, serving
from rich.console import Console

import backhaul as bh

Array = np.ndarray[Any, Any]
CALLS = 40
OVER_MS = 1.0
WALKERS = 64


def loss(params: dict[str, Any], x: Array, y: Array) -> bh.TrackedTensor:
    """A network of two layers: 10 steps."""
    hidden = np.tanh(x @ params["w"] + params["b"])
    return bh.mean((hidden @ params["v"] - y) ** 2)


def chain(x: Any) -> Any:
    """200 steps."""
    y = x
    for _ in range(100):
        y = np.sin(y) * 0.9
    return bh.sum(y)


def arguments() -> tuple[dict[str, Any], Array, Array]:
    """Parameters, and 64 rows of data."""
    rng = np.random.default_rng(0)
    params = {"w": rng.normal(size=(8, 16)), "b": rng.normal(size=16), "v": rng.normal(size=16)}
    return params, rng.normal(size=(64, 8)), rng.normal(size=64)


def network_jobs(connection: bh.Connection) -> Mapping[str, Callable[[], object]]:
    """Value and gradient of the network, by plain calls and by functions."""
    params, x, y = arguments()
    tape = bh.Tape(connection)

    def plain() -> object:
        leaves = {name: tape.leaf(each) for name, each in params.items()}
        return tape.pullback(loss(leaves, x, y))

    called = bh.value_and_grad(loss, connection=connection)
    kept = bh.value_and_grad(bh.jit(loss), connection=connection)
    return {
        "plain": plain,
        "called": lambda: called(params, x, y),
        "jit": lambda: kept(params, x, y),
    }


def chain_jobs(connection: bh.Connection) -> Mapping[str, Callable[[], object]]:
    """Value and gradient of 200 steps, in the same ways."""
    x = np.linspace(0.0, 1.0, 8)
    tape = bh.Tape(connection)

    def plain() -> object:
        return tape.pullback(chain(tape.leaf(x)))

    called = bh.value_and_grad(chain, connection=connection)
    kept = bh.value_and_grad(bh.jit(chain), connection=connection)
    return {"plain": plain, "called": lambda: called(x), "jit": lambda: kept(x)}


def walker_jobs(connection: bh.Connection) -> Mapping[str, Callable[[], object]]:
    """Value and gradient at 64 places: one call each, and all in one."""

    def logp(x: Any) -> Any:
        return -0.5 * bh.sum((x - 1.0) ** 2) + bh.sum(np.tanh(x))

    walkers = np.random.default_rng(0).normal(size=(WALKERS, 8))
    one = bh.value_and_grad(bh.jit(logp), connection=connection)
    many = bh.batched(bh.value_and_grad(bh.jit(logp)), connection=connection)
    return {"one by one": lambda: [one(x) for x in walkers], "batched": lambda: many(walkers)}


def own_time(job: Callable[[], object], times: int) -> Callable[[], float]:
    """A job for `rounds`: the seconds of this thread's own work in one of so many calls."""

    def loop() -> float:
        started = time.thread_time()
        for _ in range(times):
            job()
        return (time.thread_time() - started) / times

    return loop


def figures(connection: bh.Connection, count: int) -> list[Figure]:
    """All of them, over one connection."""
    found = []
    for name, jobs in (
        ("network, 10 steps", network_jobs(connection)),
        ("chain, 200 steps", chain_jobs(connection)),
    ):
        taken = rounds({each: timed_often(job, CALLS) for each, job in jobs.items()}, count)
        own = rounds({each: own_time(job, CALLS) for each, job in jobs.items()}, count)
        for way in ("called", "jit"):
            over = (own[way] - own["plain"]) * 1e3
            detail = (
                f"own time {own[way] * 1e3:.2f} ms, plain {own['plain'] * 1e3:.2f} ms; "
                f"by the clock {taken[way] * 1e3:.2f} ms, plain {taken['plain'] * 1e3:.2f} ms"
            )
            found.append(Figure(f"{name}: {way}, over plain", over, OVER_MS, " ms", detail))
    taken = rounds(
        {each: timed_often(job, 4) for each, job in walker_jobs(connection).items()}, count
    )
    each = {way: seconds / WALKERS * 1e6 for way, seconds in taken.items()}
    detail = f"{each['batched']:.0f} µs a walker, one by one {each['one by one']:.0f} µs"
    found.append(
        Figure(
            f"{WALKERS} walkers: batched against one by one",
            each["batched"] / each["one by one"],
            None if connection.target == "embedded" else 1.0,  # there no trips are saved
            detail=detail,
        )
    )
    return found


def main() -> None:
    count = 5 if "--quick" in sys.argv[1:] else 15
    console = Console(width=140)
    with serving() as server, connections(server) as ways:
        for way in ("TCP", "embedded"):
            report(console, f"Functions, {way}", figures(ways[way], count))


if __name__ == "__main__":
    main()
