"""sum((A @ B)²) with its gradients: over every way, against NumPy, JAX and torch in this process."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Final

from benchmarks.peers.job import SIZES, Answer, Array, Ask, agrees, by_hand, operands
from benchmarks.peers.local import LOCAL
from benchmarks.timing import Figure, rounds, timed_often
from benchmarks.wire.section import Section
from benchmarks.wire.ways import connections, serving

import backhaul as bh

_TIMES: Final = {2: 50, 256: 5, 1024: 1}
_REST: Final = 0.03
_ROUNDS: Final = {2: 21, 256: 21, 1024: 9}


def measure(quick: bool) -> list[Section]:
    """A section for each size of the matrices."""
    libraries, notes = _libraries()
    with serving() as server, connections(server) as ways:
        sections = []
        for n in SIZES:
            count = 5 if quick else _ROUNDS[n]
            title = f"sum((A @ B)²), value and both gradients, n = {n}"
            sections.append(Section(title, _figures(n, ways, libraries, count)))
        sections[-1].notes.extend(notes)
        return sections


def remote(connection: bh.Connection) -> Ask:
    """The job on a tape of this connection."""
    tape = bh.Tape(connection)

    def ask(a: Array, b: Array) -> Answer:
        x, y = tape.leaf(a), tape.leaf(b)
        c = x @ y
        gradients = tape.pullback(bh.sum(c * c))
        return gradients.value.item(), gradients[x], gradients[y]

    return ask


def timed_jobs(
    asked: Mapping[str, Ask], a: Array, b: Array, times: int
) -> dict[str, Callable[[], float]]:
    """Each one's job, so often at a time, and timed. All give NumPy's answer, or the program ends."""
    for name, ask in asked.items():
        if not agrees(ask(a, b), by_hand(a, b)):
            raise SystemExit(f"{name} gives another answer than NumPy at n = {len(a)}.")
    return {name: timed_often(partial(ask, a, b), times) for name, ask in asked.items()}


def _libraries() -> tuple[dict[str, Ask], list[str]]:
    found: dict[str, Ask] = {}
    notes = []
    for name, make in LOCAL.items():
        try:
            found[name] = make()
        except ImportError:
            notes.append(f"{name} is not installed here: left out.")
    return found, notes


def _figures(
    n: int,
    ways: Mapping[str, bh.Connection],
    libraries: Mapping[str, Ask],
    count: int,
) -> list[Figure]:
    a, b = operands(n)
    asked = {**libraries, **{name: remote(connection) for name, connection in ways.items()}}
    medians = rounds(timed_jobs(asked, a, b, _TIMES[n]), count, rest=_REST)
    return [
        Figure(
            f"{name} / {library}",
            medians[name] / medians[library],
            None,
            detail=f"{medians[name] * 1e3:.3f} against {medians[library] * 1e3:.3f} ms",
        )
        for name in ways
        for library in libraries
    ]
