"""How the labels of an array lie in memory: what a lowering can view, and what it must copy."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

Ints = tuple[int, ...]
Sizes = Mapping[int, int] | Sequence[int]


@dataclass(frozen=True, slots=True)
class Layout:
    """The labels of an array: in the order of its axes, and from the slowest to the fastest in memory.

    An assumption at planning time. Arrays that lie otherwise are computed right, with a copy more.
    """

    axes: Ints
    memory: Ints

    @classmethod
    def dense(cls, axes: Ints) -> Layout:
        """Of an array in C order."""
        return cls(axes, axes)


def volume(labels: Iterable[int], sizes: Sizes) -> int:
    """The number of elements of an array with these labels."""
    return prod(sizes[label] for label in labels)


def only(order: Ints, wanted: frozenset[int]) -> Ints:
    """Those of the labels that are wanted, in this order."""
    return tuple(label for label in order if label in wanted)


def positions(labels: Ints, order: Ints) -> Ints | None:
    """The permutation that brings axes with these labels into an order; None when they stand so."""
    return None if labels == order else tuple(map(labels.index, order))


def is_matrix_view(memory: Ints, rows: Ints, columns: Ints, sizes: Sizes) -> bool:
    """Whether BLAS can read an array as (a stack of) matrices rows x columns without a copy.

    Each of the two must be one run in memory, and one of them must end it.
    """
    order = tuple(label for label in memory if sizes[label] != 1)
    rows = tuple(label for label in rows if sizes[label] != 1)
    columns = tuple(label for label in columns if sizes[label] != 1)
    ends = order[len(order) - len(rows) :] == rows or order[len(order) - len(columns) :] == columns
    return ends and _is_run(order, rows) and _is_run(order, columns)


def _is_run(order: Ints, labels: Ints) -> bool:
    if not labels:
        return True
    start = order.index(labels[0])
    return order[start : start + len(labels)] == labels
