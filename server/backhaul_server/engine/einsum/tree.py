"""The contraction tree: which two arrays are multiplied next."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

from backhaul_server.engine.einsum.layout import Ints, Sizes
from backhaul_server.engine.einsum.search import find_order
from backhaul_server.engine.einsum.trees import Labels


class Pair(NamedTuple):
    """Two arrays, counted as in `Einsum.groups`, the earlier first; the labels of their contraction."""

    first: int
    second: int
    labels: Labels


def contraction_tree(
    inputs: Sequence[Labels],
    output: Labels,
    sizes: Sizes,
    groups: Sequence[Ints],
    search: str | None = None,
) -> list[Pair]:
    """All pairs in order; the result of the k-th has the number ``len(inputs) + k``.

    A label is kept until nothing else needs it, so one shared by three operands or more is summed
    with its last two.
    """
    uses = Counter(label for labels in (*inputs, output) for label in labels)
    labels = list(inputs)
    pairs: list[Pair] = []

    def contract(first: int, second: int) -> int:
        both = labels[first] & labels[second]
        uses.subtract(both)
        summed = frozenset(label for label in both if uses[label] == 1)
        pairs.append(Pair(first, second, (labels[first] | labels[second]) - summed))
        labels.append(pairs[-1].labels)
        return len(labels) - 1

    count = len(inputs)
    results: list[int] = []  # of the groups so far
    for group in groups:
        members = [m if m < count else results[m - count] for m in group]
        inside = Counter(label for m in members for label in labels[m])
        kept = frozenset(label for label, n in inside.items() if uses[label] > n)
        for step in find_order([labels[m] for m in members], kept, sizes, search):
            result, *others = sorted(members[position] for position in step)
            for other in others:
                result = contract(*sorted((result, other)))
            members.append(result)
        results.append(members[-1])
    return pairs
