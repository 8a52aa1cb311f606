"""Einsum on real tensor networks, against what people run in process. ``make bench-einsum``.

Libraries take turns, each in a process of its own; ratios are of medians within this run.
"""

from __future__ import annotations

import argparse
import re
import statistics
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.einsum import small
from benchmarks.einsum.networks import Instance, find, instances_folder
from benchmarks.einsum.peers import installed
from benchmarks.einsum.worker import Skipped, Worker
from benchmarks.memory_use import available_memory
from benchmarks.timing import report
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

Cell = tuple[str, str]  # a library and a question

# What is asked in turns with what. A compiler that takes too long ends its library's process, so what
# takes it longest comes last; our gradient is measured once more, for the ratio to it.
CELLS: Final[tuple[tuple[Cell, ...], ...]] = (
    (
        ("ours", "forward"),
        ("contract", "forward"),
        ("expression", "forward"),
        ("ours", "gradient"),
        ("jax", "gradient"),
        ("torch", "gradient"),
    ),
    (
        ("ours", "hvp"),
        ("jax", "hvp"),
        ("torch", "hvp"),
    ),
)
_AGAIN: Final = ("again", "gradient")  # ours, in turns with H·v
_AGREE: Final = 1e-6
_REST: Final = 0.03  # seconds: threads of the library before wait for more work by spinning
_SLOW: Final = 1.0  # from here the first answer counts too
_ROUNDS: Final = (3, 15)


@dataclass(slots=True)
class Row:
    """What was measured on a network: seconds by cell, or why there are none."""

    instance: Instance
    seconds: dict[Cell, float] = field(default_factory=dict)
    set_up: dict[Cell, float] = field(default_factory=dict)
    skipped: dict[Cell, str] = field(default_factory=dict)

    def ratio(self, of: Cell, to: Cell) -> float | None:
        if of in self.seconds and to in self.seconds:
            return self.seconds[of] / self.seconds[to]
        return None


class Workers:
    """A process for each library, made when it is asked for, and anew after it had to be ended."""

    def __init__(self, limit: float, cores: int | None) -> None:
        self._limit, self._cores = limit, cores
        self._workers: dict[str, tuple[Worker, Path]] = {}

    def get(self, peer: str, file: Path) -> Worker:
        worker, opened = self._workers.get(peer, (None, None))
        if worker is None or not worker.is_alive:
            worker = Worker(peer, self._limit, self._cores)
        if opened != file:
            worker.open(file)
        self._workers[peer] = worker, file
        return worker

    def end(self) -> None:
        for worker, _ in self._workers.values():
            worker.end()


def measure(instance: Instance, workers: Workers, budget: float, most: int) -> Row:
    """All cells of a network, in turns."""
    row = Row(instance)
    expected: dict[str, list[float]] = {}
    for cells in CELLS:
        taken: dict[Cell, list[float]] = {}
        for cell in cells:
            peer, question = cell
            try:
                _check(row, cell)
                worker = workers.get(peer, instance.file)
                row.set_up[cell] = worker.set_up(question)
                seconds, found = worker.first(question)
                if not _same(found, expected.setdefault(question, found)):
                    raise Skipped("another answer than ours")
                taken[cell] = [seconds]
            except Skipped as reason:
                row.skipped[cell] = str(reason)
        if ("ours", "hvp") in taken:
            taken[_AGAIN] = [0.0]
        _turns(row, workers, taken, budget, most)
    return row


def _check(row: Row, cell: Cell) -> None:
    """What can be known before asking."""
    peer, question = cell
    if not installed(peer):
        raise Skipped("not installed")
    if question == "hvp" and (before := row.skipped.get((peer, "gradient"))):
        raise Skipped(before)
    needed = row.instance.bytes_needed(question)
    if needed > available_memory():
        raise Skipped(f"needs {needed / 2**30:.0f} GB")


def _turns(
    row: Row, workers: Workers, first: dict[Cell, list[float]], budget: float, most: int
) -> None:
    """Medians; as many rounds as the budget allows, three at least."""
    once = sum(seconds for (seconds,) in first.values()) or 1.0
    count = max(_ROUNDS[0], min(most, int(budget / once)))
    taken = {cell: [s for s in given if s >= _SLOW] for cell, given in first.items()}
    for _ in range(count):
        for cell, times in list(taken.items()):
            if len(times) == count:
                continue  # its first answer was one of them
            peer, question = cell
            time.sleep(_REST)
            try:
                library = "ours" if peer == "again" else peer
                times.append(workers.get(library, row.instance.file).turn(question))
            except Skipped as reason:
                row.skipped[cell] = str(reason)
                del taken[cell]
    row.seconds.update({cell: statistics.median(times) for cell, times in taken.items()})


def _same(a: list[float], b: list[float]) -> bool:
    if len(a) != len(b):
        return False
    return all(abs(x - y) <= _AGREE * max(abs(x), abs(y)) for x, y in zip(a, b, strict=True))


def tables(rows: list[Row]) -> list[Table]:
    return [_forward(rows), _derivative(rows, "gradient"), _derivative(rows, "hvp")]


def _forward(rows: list[Row]) -> Table:
    table = _table("Forward", "G multiply-adds", "ours, ms", "÷ opt_einsum (≤ 1)", "÷ prepared")
    for row in rows:
        ours = ("ours", "forward")
        table.add_row(
            *_head(row),
            f"{row.instance.multiply_adds / 1e9:.3f}",
            _milliseconds(row, ours),
            _ratio(row, ours, ("contract", "forward"), 1.0),
            _ratio(row, ours, ("expression", "forward"), None),
        )
    return table


def _derivative(rows: list[Row], question: str) -> Table:
    title, base, goals = {
        "gradient": ("Value and gradient", ("ours", "forward"), _gradient_goal),
        "hvp": ("Gradient and H·v", _AGAIN, _hvp_goal),
    }[question]
    name = "value and gradient" if base == _AGAIN else "forward"
    columns = ("ours, ms", f"÷ our {name}", "goal", "÷ jax", "÷ torch", "jax compiles, s")
    table = _table(title, *columns)
    for row in rows:
        ours, goal = ("ours", question), goals(row.instance)
        fastest = _fastest(row, question)
        table.add_row(
            *_head(row),
            _milliseconds(row, ours),
            _ratio(row, ours, base, goal),
            f"≤ {goal:g}",
            *(
                _ratio(row, ours, (peer, question), _peer_goal(row, peer == fastest))
                for peer in ("jax", "torch")
            ),
            _seconds(row.set_up.get(("jax", question))),
        )
    return table


def _gradient_goal(instance: Instance) -> float:
    return 3.3 if instance.matmul_bound else 4.0


def _hvp_goal(instance: Instance) -> float:
    return 3.4 if instance.matmul_bound else 3.8


def _peer_goal(row: Row, is_fastest: bool) -> float | None:
    return 1.0 if is_fastest and row.instance.matmul_bound else None


def _fastest(row: Row, question: str) -> str | None:
    peers = [peer for peer in ("jax", "torch") if (peer, question) in row.seconds]
    return min(peers, key=lambda peer: row.seconds[peer, question], default=None)


def _table(title: str, *columns: str) -> Table:
    table = Table("network", "bound by", title=title, title_justify="left", box=MARKDOWN)
    for name in columns:
        table.add_column(name, justify="right")
    return table


def _head(row: Row) -> tuple[str, str]:
    return row.instance.network.name, "matmul" if row.instance.matmul_bound else "memory"


def _milliseconds(row: Row, cell: Cell) -> str:
    if cell not in row.seconds:
        return row.skipped.get(cell, "")
    return f"{row.seconds[cell] * 1e3:.4g}"


def _ratio(row: Row, of: Cell, to: Cell, goal: float | None) -> str:
    """Ours against another; bold where a goal is missed, and when it is missing itself the reason."""
    ratio = row.ratio(of, to)
    if ratio is None:
        return row.skipped.get(to, "")
    shown = f"{ratio:.2f}"
    return shown if goal is None or ratio <= goal else f"**{shown}**"


def _seconds(seconds: float | None) -> str:
    return "" if seconds is None else f"{seconds:.1f}"


def summary(rows: list[Row]) -> list[str]:
    """How many goals of each kind are reached."""

    def count(name: str, met: Callable[[Row], bool | None]) -> str:
        verdicts = [verdict for row in rows if (verdict := met(row)) is not None]
        return f"{name}: {sum(verdicts)} of {len(verdicts)} networks"

    def within(row: Row, of: Cell, to: Cell, goal: float) -> bool | None:
        ratio = row.ratio(of, to)
        return None if ratio is None else ratio <= goal

    def against_fastest(row: Row, question: str) -> bool | None:
        fastest = _fastest(row, question)
        if fastest is None or not row.instance.matmul_bound:
            return None
        return within(row, ("ours", question), (fastest, question), 1.0)

    forward, gradient, hvp = ("ours", "forward"), ("ours", "gradient"), ("ours", "hvp")
    return [
        count("forward ≤ opt_einsum", lambda r: within(r, forward, ("contract", "forward"), 1.0)),
        count(
            "value and gradient ≤ its goal",
            lambda r: within(r, gradient, forward, _gradient_goal(r.instance)),
        ),
        count(
            "gradient and H·v ≤ its goal", lambda r: within(r, hvp, _AGAIN, _hvp_goal(r.instance))
        ),
        count(
            "value and gradient ≤ the faster of jax and torch, matmul-bound",
            lambda r: against_fastest(r, "gradient"),
        ),
        count(
            "gradient and H·v ≤ the faster of jax and torch, matmul-bound",
            lambda r: against_fastest(r, "hvp"),
        ),
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="?", type=Path, help="folder of networks")
    parser.add_argument("--quick", action="store_true", help="small networks, three rounds")
    parser.add_argument(
        "--only", default="", help="networks whose name this matches, a regular expression"
    )
    parser.add_argument("--limit", type=float, default=60, help="seconds for one cell")
    parser.add_argument("--budget", type=float, default=8, help="seconds of rounds for a network")
    parser.add_argument(
        "--total", type=float, default=480, help="seconds after which no further network is begun"
    )
    parser.add_argument("--cores", type=int, help="cores for each library; all by default")
    options = parser.parse_args()
    console, most = Console(width=170, markup=False, highlight=False), _ROUNDS[options.quick - 1]
    report(console, "Small einsums, in the engine", small.figures(most))
    folder = instances_folder(options.instances)
    if folder is None:
        console.print(
            "Networks: skipped, no folder of them. Name it, or set BACKHAUL_CORPUS to a corpus that "
            "has instances/ beside it."
        )
        return
    workers, rows = Workers(options.limit, options.cores), []
    begun = time.perf_counter()
    try:
        for instance in find(folder):
            if re.search(options.only, instance.file.name) and (
                instance.is_small or not options.quick
            ):
                if time.perf_counter() - begun > options.total:
                    reason = f"after {options.total:.0f} s"
                    rows.append(Row(instance, skipped=dict.fromkeys(sum(CELLS, ()), reason)))
                    continue
                started = time.perf_counter()
                rows.append(measure(instance, workers, options.budget, most))
                taken = time.perf_counter() - started
                print(f"{instance.network.name}: {taken:.0f} s", file=sys.stderr, flush=True)
    finally:
        workers.end()
    for table in tables(rows):
        console.print(table)
    console.print("Bold: a goal missed. A word instead of a ratio: why there is none.\n")
    for line in summary(rows):
        console.print(line)


if __name__ == "__main__":
    main()
