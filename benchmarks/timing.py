"""Timing for machines that are shared: interleaved rounds, medians, ratios within one run."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table


@dataclass(frozen=True, slots=True)
class Figure:
    """One line of a report: what was measured, against what, and what it should be.

    Attributes:
        name: what was measured.
        measured: the figure.
        goal: what it should be at most; None: it is only stated.
        unit: of figure and goal.
        detail: what the figure is made of.
        more_is_better: the goal is what it should be at least.
    """

    name: str
    measured: float
    goal: float | None
    unit: str = "×"
    detail: str = ""
    more_is_better: bool = False

    @property
    def reached(self) -> bool:
        if self.goal is None:
            return True
        return self.measured >= self.goal if self.more_is_better else self.measured <= self.goal

    @property
    def goal_text(self) -> str:
        if self.goal is None:
            return ""
        return f"{'≥' if self.more_is_better else '≤'} {self.goal:g}{self.unit}"


def rounds(
    jobs: Mapping[str, Callable[[], float]], count: int, *, warm: bool = False, rest: float = 0.0
) -> dict[str, float]:
    """Each job's median seconds, the jobs taken in turn so that drift of the machine meets all.

    A job returns the seconds that it took, so that its set-up is not counted. Each is done once before,
    unless all are warm. ``rest``: seconds before each, where threads of the library before may still spin.
    """
    if not warm:
        for job in jobs.values():
            job()
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(count):
        for name, job in jobs.items():
            time.sleep(rest)
            taken[name].append(job())
    return {name: statistics.median(times) for name, times in taken.items()}


def timed(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def timed_often(function: Callable[[], object], times: int) -> Callable[[], float]:
    """A job for `rounds`: the seconds that one of so many calls takes."""

    def loop() -> None:
        for _ in range(times):
            function()

    return lambda: timed(loop) / times


def report(console: Console, title: str, figures: list[Figure]) -> None:
    """Print figures beside their goals."""
    table = Table("figure", "measured", "goal", "", "detail", title=title, title_justify="left")
    for each in figures:
        verdict = "" if each.goal is None else ("reached" if each.reached else "missed")
        measured = f"{each.measured:.2f}{each.unit}"
        table.add_row(each.name, measured, each.goal_text, verdict, each.detail)
    console.print(table)
