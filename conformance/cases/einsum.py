"""Einsums of the corpus: both notations, several operands, traces, ellipses, sizes of 0 and 1."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from conformance.cases import corpus as corpus_cases
from conformance.vector import Vector

MOST_BYTES: Final = 2500
"""Of a vector: a larger array shows nothing that a small one does not."""


def vectors(corpus: Path) -> list[Vector]:
    """Every case that is small enough, in the corpus's order."""
    made = (
        corpus_cases.checked(case, MOST_BYTES)
        for case in corpus_cases.load(corpus)
        if case["kind"] == "einsum"
    )
    return [each for each in made if each is not None]
