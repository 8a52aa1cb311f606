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
    """One line of a report: what was measured, against what, and what it should be."""

    name: str
    measured: float
    goal: float | None
    unit: str = "×"
    detail: str = ""

    @property
    def reached(self) -> bool:
        return self.goal is None or self.measured <= self.goal


def rounds(jobs: Mapping[str, Callable[[], float]], count: int) -> dict[str, float]:
    """Each job's median seconds, the jobs taken in turn so that drift of the machine meets all.

    A job returns the seconds that it took, so that its set-up is not counted.
    """
    for job in jobs.values():
        job()
    taken: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(count):
        for name, job in jobs.items():
            taken[name].append(job())
    return {name: statistics.median(times) for name, times in taken.items()}


def timed(function: Callable[[], object]) -> float:
    """Seconds that a call takes."""
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def report(console: Console, title: str, figures: list[Figure]) -> None:
    """Print figures beside their goals."""
    table = Table("figure", "measured", "goal", "", "detail", title=title, title_justify="left")
    for each in figures:
        goal = "" if each.goal is None else f"≤ {each.goal:g}{each.unit}"
        verdict = "" if each.goal is None else ("reached" if each.reached else "missed")
        table.add_row(each.name, f"{each.measured:.2f}{each.unit}", goal, verdict, each.detail)
    console.print(table)
