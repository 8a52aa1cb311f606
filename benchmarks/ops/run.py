"""Every op of the catalog against NumPy or SciPy, JAX and torch: value, gradient, H·v. ``make bench-ops``.

Ops on each element are measured at 4, 1,000 and 1,000,000 elements, all others on the first sample of
their entry. Ours is the engine in process: the value is a prepared step of a tape, as a block runs it,
or the op by name; gradient and H·v are of the result's sum, with the tape made for each. JAX is compiled
in advance. Ratios are of medians of rounds taken in turns within this run.
"""

from __future__ import annotations

import argparse
import fnmatch
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.ops.operands import draw, first_sample, resized
from benchmarks.ops.peers import installed, jobs
from benchmarks.timing import rounds, timed_often
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from backhaul_proto.catalog.ops import CATALOG, Op, Sample
from backhaul_proto.catalog.pointwise import is_pointwise
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.rules import derivatives
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
Job = Callable[[], object]
Asked = tuple[str, str]  # who, and the question

SIZES: Final = (4, 1_000, 1_000_000)
FACTOR, EXTRA = 1.5, 1.5e-6
"""The goal of a value at 4 elements: at most so many times NumPy's, and so many seconds more."""
_LARGE: Final = 10_000  # elements from which a call is timed alone
_TIMES: Final = {"value": 200, "gradient": 20, "hvp": 10}
_WORST: Final = 10


@dataclass(frozen=True, slots=True)
class Line:
    """An op at a size, and seconds by who and question."""

    op: str
    size: str
    seconds: dict[Asked, float]

    def ratio(self, peer: str, question: str) -> float | None:
        ours, theirs = (self.seconds.get((who, question)) for who in ("ours", peer))
        return ours / theirs if ours and theirs else None

    @property
    def over_goal(self) -> float | None:
        """At 4 elements, where NumPy has the op: how much of what is allowed."""
        theirs = self.seconds.get(("numpy", "value"))
        if theirs is None or self.size != str(SIZES[0]):
            return None
        return self.seconds["ours", "value"] / (FACTOR * theirs + EXTRA)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ops on each element, 4 elements")
    parser.add_argument("--only", default="*", help="ops whose name matches this pattern")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    peers = [name for name in ("numpy", "jax", "torch") if installed(name)]
    lines = [
        measured(op, sample, size, peers, arguments.rounds)
        for op in CATALOG.values()
        if not op.private and op.name != "einsum" and fnmatch.fnmatch(op.name, arguments.only)
        for size, sample in points(op, arguments.quick)
    ]
    _report(Console(width=170), lines)


def points(op: Op, quick: bool) -> Iterator[tuple[str, Sample]]:
    """Sizes that an op is measured at."""
    sample = first_sample(op)
    if is_pointwise(op):
        for size in SIZES[: 1 if quick else None]:
            yield f"{size:,}", resized(sample, (2, 2) if size == SIZES[0] else (size,))
    elif not quick:
        yield "sample", sample


def measured(op: Op, sample: Sample, size: str, peers: Sequence[str], count: int) -> Line:
    arrays = draw(op, sample)
    with np.errstate(all="ignore"):
        ours, expected = _ours(op, sample, arrays)
        asked = {("ours", question): job for question, job in ours.items()}
        for peer in peers:
            found = jobs(peer, op, sample, arrays, expected)
            asked |= {(peer, question): job for question, job in found.items()}
        small = max(x.size for x in arrays) < _LARGE
        seconds: dict[Asked, float] = {}
        for kind, times in _TIMES.items():
            turns = {
                f"{who} {question}": timed_often(job, times if small else 1)
                for (who, question), job in asked.items()
                if question == kind or (question, kind) == ("named", "value")
            }
            medians = rounds(turns, count)
            seconds |= {(n.split()[0], n.split()[1]): taken for n, taken in medians.items()}
    return Line(op.name, size, seconds)


def _ours(op: Op, sample: Sample, arrays: Sequence[Array]) -> tuple[dict[str, Job], dict[str, Any]]:
    """Our jobs by question, and the answers that a peer's are compared with."""
    engine = Engine()
    tape = Tape(engine)
    nodes = _leaves(tape, arrays)
    call = engine.prepare(op.name, sample.attributes, tuple(node.aval for node in nodes))
    ours: dict[str, Job] = {
        "value": lambda: tape.run(call, nodes),
        "named": lambda: tape.apply(op.name, nodes, **sample.attributes),
    }
    results = tape.run(call, nodes)
    expected: dict[str, Any] = {"value": [node.value for node in results]}
    found = derivatives(op)
    if not found.vjp or op.gauge or not results[-1].requires_grad:
        return ours, expected

    def gradient() -> list[Array]:
        loss, leaves = _loss(engine, op, sample, arrays)
        (gradients,) = loss.tape.pullback(loss.node, wrt=leaves)
        return [gradients[leaf] for leaf in leaves]

    def hvp() -> list[Array]:
        loss, leaves = _loss(engine, op, sample, arrays)
        ((_, products),) = loss.tape.hvp(loss.node, wrt=leaves)
        return [products[leaf] for leaf in leaves]

    ours["gradient"], expected["gradient"] = gradient, gradient()
    if found.hvp:
        ours["hvp"], expected["hvp"] = hvp, hvp()
    return ours, expected


@dataclass(frozen=True, slots=True)
class _Loss:
    tape: Tape
    node: Any


def _loss(
    engine: Engine, op: Op, sample: Sample, arrays: Sequence[Array]
) -> tuple[_Loss, list[Any]]:
    """The sum of the last result (its real part), on a new tape, and its leaves; every tangent is ones."""
    tape = Tape(engine)
    nodes = _leaves(tape, arrays)
    result = tape.apply(op.name, nodes, **sample.attributes)
    last = result[-1] if isinstance(result, tuple) else result
    if last.aval.dtype.kind == "c":
        last = tape.apply("real", [last])
    total = tape.apply("sum", [last])
    return _Loss(tape, total), [node for node in nodes if node.requires_grad]


def _leaves(tape: Tape, arrays: Sequence[Array]) -> list[Any]:
    return [
        tape.leaf(x, np.ones_like(x)) if x.dtype.kind == "f" else tape.constant(x) for x in arrays
    ]


_COLUMNS: Final = (
    "op", "elements", "value µs", "÷ numpy", "÷ goal", "÷ jax", "÷ torch", "by name µs",
    "gradient µs", "÷ jax", "÷ torch", "H·v µs", "÷ jax", "÷ torch",
)  # fmt: skip


def _report(console: Console, lines: Sequence[Line]) -> None:
    table = Table(*_COLUMNS, title="Ops", title_justify="left", box=MARKDOWN)
    for each in lines:
        table.add_row(
            each.op,
            each.size,
            _micros(each, "value"),
            _ratio(each.ratio("numpy", "value")),
            _ratio(each.over_goal),
            *_against(each, "value"),
            _micros(each, "named"),
            *(text for q in ("gradient", "hvp") for text in (_micros(each, q), *_against(each, q))),
        )
    console.print(table)
    judged = [(ratio, each) for each in lines if (ratio := each.over_goal) is not None]
    if not judged:
        return
    judged.sort(key=lambda pair: -pair[0])
    reached = sum(ratio <= 1 for ratio, _ in judged)
    goal = f"{FACTOR} × NumPy + {EXTRA * 1e6} µs"
    console.print(f"Values at 4 elements ≤ {goal}: {reached} of {len(judged)} ops")
    worst = Table("op", "value µs", "numpy µs", "÷ goal (≤ 1)", title="Worst", box=MARKDOWN)
    for ratio, each in judged[:_WORST]:
        numpy = f"{each.seconds['numpy', 'value'] * 1e6:.2f}"
        worst.add_row(each.op, _micros(each, "value"), numpy, f"{ratio:.2f}")
    console.print(worst)


def _micros(line: Line, question: str) -> str:
    seconds = line.seconds.get(("ours", question))
    return "" if seconds is None else f"{seconds * 1e6:.2f}"


def _against(line: Line, question: str) -> list[str]:
    return [_ratio(line.ratio(peer, question)) for peer in ("jax", "torch")]


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    main()
