"""How an einsum that is too large for its memory is cut into slices, which are computed one after the other.

A label is cut: each slice takes a range of its values, and is an einsum of its own with smaller arrays. Where
the label is summed the slices' results add up; where the result has it they stand side by side. What does not
have the label is computed again for each slice, so labels are chosen that cost little of that: the greedy
search of Gray and Kourtis, "Hyper-optimized tensor network contraction", Quantum 5, 410 (2021), section 4.3,
with halves in place of single values.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from math import prod
from typing import Final, NamedTuple

import numpy as np

from backhaul_proto.catalog.einsum import Einsum
from backhaul_server.engine.einsum.budget import keeping
from backhaul_server.engine.einsum.layout import Ints, volume
from backhaul_server.engine.einsum.plan import Binary, Plan, Unary, make_plan
from backhaul_server.engine.einsum.trees import WRITE
from backhaul_server.engine.interruption import checkpoint

DEAREST: Final = 8.0
"""Slices that take so many times the work of the whole are not made: the einsum is refused then."""
MOST: Final = 2**16
"""And no more slices than these."""
_CALL: Final = 2**14
"""Multiplications in the time that a step takes however small it is."""
_SHORT: Final = 16
"""Sizes up to which a label is cut into equal parts: parts of two lengths want two plans."""

Cuts = tuple[tuple[int, int], ...]
"""The axes of an array that are cut, each with the number of the label."""


class Slice(NamedTuple):
    """One of the slices: its plan, and the range of each label that is cut."""

    plan: Plan
    ranges: tuple[slice, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Slicing:
    """The slices of an einsum.

    Attributes:
        labels: what is cut; none for the whole in one slice.
        sizes: of these labels.
        lengths: how many values of each a slice takes; the last one takes what is left.
        inputs: which axes of each operand are cut.
        output: which axes of the result.
        plans: by the lengths of a slice.
        count: the number of slices.
        most: so many are run, of those that there are; all for None. Only a prediction stops early.
    """

    labels: Ints
    sizes: Ints
    lengths: Ints
    inputs: tuple[Cuts, ...]
    output: Cuts
    plans: Mapping[Ints, Plan]
    count: int
    most: int | None = None

    def __iter__(self) -> Iterator[Slice]:
        """The slices, always in the same order."""
        starts = [range(0, n, step) for n, step in zip(self.sizes, self.lengths, strict=True)]
        for number, places in enumerate(product(*starts)):
            if number == self.most:
                return
            ends = [
                min(start + step, n)
                for start, step, n in zip(places, self.lengths, self.sizes, strict=True)
            ]
            lengths = tuple([end - start for start, end in zip(places, ends, strict=True)])
            yield Slice(self.plans[lengths], tuple(map(slice, places, ends)))

    def shortened(self) -> Slicing:
        """The first two slices, which take as much memory as all of them."""
        return replace(self, most=2)


def whole(einsum: Einsum, plan: Plan) -> Slicing:
    """The einsum in one slice."""
    none: tuple[Cuts, ...] = ((),) * len(einsum.inputs)
    return Slicing((), (), (), none, (), {(): plan}, 1)


def find(
    einsum: Einsum,
    plan: Plan,
    result: np.dtype,
    *,
    keep_bytes: int | None,
    most_bytes: int,
    fits: Callable[[Slicing], bool],
) -> Slicing | None:
    """Slices that fit, cut as little as possible; None where none do.

    Args:
        einsum: what is computed.
        plan: of the whole; slices are contracted in its order.
        result: the dtype that the operands promote to.
        keep_bytes: what a slice may keep for its derivatives; see `keeping`.
        most_bytes: no array of a slice is larger.
        fits: whether the memory that slices take is little enough.
    """
    ordered = replace(einsum, groups=_pairs(plan), search=None)
    standing = {label for term in einsum.inputs for label in term}
    steps = _steps(plan, standing)
    lengths = list(einsum.sizes)
    dearest = DEAREST * _cost(steps, einsum.sizes, lengths)
    while True:
        checkpoint()
        _, largest = max(steps, key=lambda step: volume(step[1], lengths))
        if volume(largest, lengths) * result.itemsize <= most_bytes:
            slicing = _cut(ordered, lengths, plan.dtypes, result, keep_bytes)
            if slicing.count > 1 and fits(slicing):
                return slicing
        options = [label for label in largest if lengths[label] > 1]
        if not options:
            return None
        lengths = min(
            (_shorter(einsum.sizes, lengths, label) for label in sorted(options)),
            key=lambda cut: _cost(steps, einsum.sizes, cut),
        )
        dear = _cost(steps, einsum.sizes, lengths) > dearest
        if dear or _count(einsum.sizes, lengths) > MOST:
            return None


def _pairs(plan: Plan) -> tuple[Ints, ...]:
    """The plan's order of contraction, as `Einsum.groups` has it."""
    names = list(range(plan.operands))
    pairs: list[Ints] = []
    for step in plan.steps:
        if isinstance(step, Unary):
            names.append(names[step.source])
        else:
            names.append(plan.operands + len(pairs))
            pairs.append((names[step.first], names[step.second]))
    return tuple(pairs)


def _steps(plan: Plan, standing: set[int]) -> list[tuple[frozenset[int], frozenset[int]]]:
    """For each contraction, all its labels and those of its result, but those of size 1 that broadcast."""
    return [
        (
            frozenset({*plan.labels[step.first], *plan.labels[step.second]} & standing),
            frozenset(standing.intersection(plan.labels[slot])),
        )
        for slot, step in enumerate(plan.steps, plan.operands)
        if isinstance(step, Binary)
    ]


def _shorter(sizes: Sequence[int], lengths: Sequence[int], label: int) -> list[int]:
    """The lengths with this label's about halved."""
    size, length = sizes[label], lengths[label]
    shorter = -(-length // 2)
    if size <= _SHORT:
        shorter = max(n for n in range(1, length) if size % n == 0)
    return [shorter if each == label else n for each, n in enumerate(lengths)]


def _count(sizes: Sequence[int], lengths: Sequence[int]) -> int:
    return prod(-(-n // length) for n, length in zip(sizes, lengths, strict=True) if length)


def _cost(
    steps: Iterable[tuple[frozenset[int], frozenset[int]]],
    sizes: Sequence[int],
    lengths: Sequence[int],
) -> float:
    """What all slices take, in multiplications."""
    one = sum(_CALL + volume(both, lengths) + WRITE * volume(made, lengths) for both, made in steps)
    return float(one) * _count(sizes, lengths)


def _cut(
    einsum: Einsum,
    lengths: Sequence[int],
    dtypes: tuple[np.dtype, ...],
    result: np.dtype,
    keep_bytes: int | None,
) -> Slicing:
    labels = tuple(
        label
        for label, (n, length) in enumerate(zip(einsum.sizes, lengths, strict=True))
        if length < n
    )
    sizes = tuple(einsum.sizes[label] for label in labels)
    steps = tuple(lengths[label] for label in labels)
    inputs = tuple(
        tuple(
            (axis, labels.index(label))
            for axis, (label, n) in enumerate(zip(term, shape, strict=True))
            if label in labels and n == einsum.sizes[label]  # an axis of size 1 broadcasts
        )
        for term, shape in zip(einsum.inputs, einsum.shapes, strict=True)
    )
    output = tuple(
        (axis, labels.index(label)) for axis, label in enumerate(einsum.output) if label in labels
    )
    ends = [{length, n % length or length} for n, length in zip(sizes, steps, strict=True)]
    plans = {}
    for each in product(*ends):
        part = _part(einsum, inputs, labels, each)
        plans[each] = keeping(make_plan(part, dtypes, result), keep_bytes)
    return Slicing(labels, sizes, steps, inputs, output, plans, _count(sizes, steps))


def _part(einsum: Einsum, inputs: Sequence[Cuts], labels: Ints, lengths: Ints) -> Einsum:
    """The einsum of one slice."""
    sizes = list(einsum.sizes)
    for label, length in zip(labels, lengths, strict=True):
        sizes[label] = length
    shapes = []
    for shape, cuts in zip(einsum.shapes, inputs, strict=True):
        own = list(shape)
        for axis, number in cuts:
            own[axis] = lengths[number]
        shapes.append(tuple(own))
    return replace(einsum, shapes=tuple(shapes), sizes=tuple(sizes))
