"""What a benchmark of the wire gives back: tables of figures, and what could not be measured."""

from __future__ import annotations

from dataclasses import dataclass, field

from benchmarks.timing import Figure


@dataclass(frozen=True, slots=True)
class Section:
    """A table under its title, and notes below it."""

    title: str
    figures: list[Figure]
    notes: list[str] = field(default_factory=list)
