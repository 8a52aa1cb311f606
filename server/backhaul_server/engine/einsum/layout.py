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


def fastest(memory: Ints, sizes: Sizes) -> int | None:
    """The label whose neighbours are next to each other in memory."""
    return next((label for label in reversed(memory) if sizes[label] != 1), None)


def are_runs(memory: Ints, groups: Iterable[Ints], sizes: Sizes) -> bool:
    """Whether each group of labels stands together in memory, in its order: then it can be one axis."""
    order = tuple(label for label in memory if sizes[label] != 1)
    for group in groups:
        run = tuple(label for label in group if sizes[label] != 1)
        if run:
            start = order.index(run[0])
            if order[start : start + len(run)] != run:
                return False
    return True


def run(memory: Ints, order: Ints, sizes: Sizes) -> int:
    """How many elements in a row a copy in this order reads in even steps."""
    lying = [label for label in memory if sizes[label] != 1]
    length, before = 1, None
    for label in reversed(order):
        if sizes[label] == 1:
            continue
        place = lying.index(label)
        if before is not None and place != before - 1:
            break
        length, before = length * sizes[label], place
    return length


def disorder(memory: Ints, order: Ints, sizes: Sizes) -> float:
    """How far a copy in this order jumps about in memory, from 0 to 1.

    The share of pairs of labels that change places: what stays in order is read as it lies.
    """
    places = [memory.index(label) for label in order if sizes[label] != 1]
    pairs = len(places) * (len(places) - 1) // 2
    turned = sum(a > b for i, a in enumerate(places) for b in places[i + 1 :])
    return turned / pairs if pairs else 0.0
