"""The contraction tree: which two arrays are multiplied next. opt_einsum finds the order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple, cast

import opt_einsum

from backhaul_server.engine.einsum.layout import Ints, Sizes

Labels = frozenset[int]


class Pair(NamedTuple):
    """Two arrays, counted as in `Einsum.groups`, and the labels of their contraction."""

    first: int
    second: int
    labels: Labels


def contraction_tree(
    inputs: Sequence[Labels], output: Labels, sizes: Sizes, groups: Sequence[Ints]
) -> list[Pair]:
    """All pairs in order; the result of the k-th has the number ``len(inputs) + k``.

    A label is kept until nothing else needs it, so one shared by three operands or more is summed
    with its last two.
    """
    uses = Counter(label for labels in (*inputs, output) for label in labels)
    labels = list(inputs)
    pairs: list[Pair] = []
    results: list[int] = []  # of the groups so far

    def contract(first: int, second: int) -> int:
        both = labels[first] & labels[second]
        uses.subtract(both)
        left = (labels[first] | labels[second]) - frozenset(x for x in both if uses[x] == 1)
        pairs.append(Pair(first, second, left))
        labels.append(left)
        return len(labels) - 1

    count = len(inputs)
    for group in groups:
        members = [m if m < count else results[m - count] for m in group]
        for step in _order([labels[m] for m in members], uses, sizes):
            chosen = [members[position] for position in step]
            for position in sorted(step, reverse=True):
                del members[position]
            members.append(chosen[0])
            for other in chosen[1:]:
                members[-1] = contract(members[-1], other)
        results.append(members[0])
    return pairs


def _order(members: Sequence[Labels], uses: Counter[int], sizes: Sizes) -> Iterator[Ints]:
    """The order in which to contract the members of a group, as an opt_einsum path.

    Labels go to opt_einsum as integers, whose hashes are the same in every process: so is the path,
    and the same expression gives the same bits everywhere.
    """
    if len(members) == 2:
        yield (0, 1)
        return
    inside = Counter(label for each in members for label in each)
    kept = frozenset(label for label, count in inside.items() if uses[label] > count)
    size_of = {label: max(sizes[label], 1) for label in inside}
    search = cast(Any, opt_einsum.paths.auto)
    yield from search(list(members), kept, size_of, None)
