"""The plan of an einsum: a straight-line program over slots, found once for an expression and shapes.

Slots hold the operands first, then the result of each step; the last is the einsum's. Each slot is
read by one step, so in the reverse each gets its cotangent from one place, once. The steps that lead
to a slot stand together, right before it: the plan goes subtree by subtree, and so does the reverse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from backhaul_proto.catalog.avals import real_dtype
from backhaul_proto.catalog.einsum import MAX_RANK, Einsum
from backhaul_proto.errors import make_error
from backhaul_proto.kept_calls import kept_by_size
from backhaul_server.engine.einsum.contraction import Kinds, Wish, choose_order, lower, wish
from backhaul_server.engine.einsum.layout import Ints, Layout, only, volume
from backhaul_server.engine.einsum.order import subtree_order
from backhaul_server.engine.einsum.products import Conditions, Contraction
from backhaul_server.engine.einsum.rearrangement import Rearrangement, rearrange
from backhaul_server.engine.einsum.tree import Pair, contraction_tree
from backhaul_server.engine.interruption import checkpoint
from backhaul_server.engine.rules import Array


@dataclass(frozen=True, slots=True)
class Cast:
    """Brings an operand to another dtype, or its cotangent back."""

    dtype: np.dtype

    def __call__(self, xp: Any, x: Array) -> Array:
        return xp.astype(x, self.dtype)


@dataclass(frozen=True, slots=True)
class Unary:
    """A step with one operand, and its adjoint: from the result's cotangent to the operand's."""

    source: int
    lowering: Rearrangement | Cast
    adjoint: Rearrangement | Cast

    @property
    def reads(self) -> Ints:
        """The slots that it reads."""
        return (self.source,)


@dataclass(frozen=True, slots=True)
class Binary:
    """A step with two operands a and b, and its adjoints.

    ``to_first`` takes (ct, b) to a's cotangent, ``to_second`` (a, ct) to b's.
    """

    first: int
    second: int
    lowering: Contraction
    to_first: Contraction
    to_second: Contraction

    @property
    def reads(self) -> Ints:
        """The slots that it reads."""
        return self.first, self.second


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How an einsum is computed and differentiated.

    Attributes:
        operands: their number, which is the first step's slot.
        steps: in order.
        labels: the label of each axis, for each slot.
        sizes: of the labels.
        dtypes: of the operands.
        held: for each slot, from which slot's turn on the reverse holds its value. The reverse takes up
            slots from the last down; what it needs and nobody holds is computed again, for its turn
            alone. A slot held from the turn of the last, the first of all, is what the forward keeps.
        kept: for each slot, whether the forward keeps it. Operands count as kept: they are given.
        only: the step, where one is all: it is run without slots.
    """

    operands: int
    steps: tuple[Unary | Binary, ...]
    labels: tuple[Ints, ...]
    sizes: Ints
    dtypes: tuple[np.dtype, ...]
    held: Ints
    kept: tuple[bool, ...]
    only: Unary | Binary | None


def _weigh(einsum: Einsum, dtypes: tuple[np.dtype, ...], result: np.dtype) -> int:
    return len(dtypes)


@kept_by_size(1024, _weigh)
def make_plan(einsum: Einsum, dtypes: tuple[np.dtype, ...], result: np.dtype) -> Plan:
    """The plan for operands of these dtypes, which keeps all that a derivative needs.

    Raises:
        InvalidArgument: EINSUM_RANK when the order of contraction makes an array of too many axes.
    """
    plan = _plan(einsum, dtypes, {})
    casts = _casts(dtypes, result)
    # Steps in between are computed in the result's precision; one alone promotes by itself.
    return _plan(einsum, dtypes, casts) if casts and len(plan.steps) > 1 else plan


def _plan(einsum: Einsum, dtypes: tuple[np.dtype, ...], casts: Mapping[int, np.dtype]) -> Plan:
    inputs, sizes = _labels(einsum)
    program = Program(inputs, sizes, dtypes)
    slots = [
        program.cast(operand, casts[operand]) if operand in casts else operand
        for operand in range(len(inputs))
    ]
    if len(inputs) > 1:
        _contract(program, slots, einsum)
    repeated = len(set(einsum.output)) < len(einsum.output)  # then `ii->ii` is no identity
    if program.layouts[-1].axes != einsum.output or repeated:
        program.rearrange(len(program.layouts) - 1, einsum.output)
    steps, labels = program.finish()
    held = _held(len(inputs), steps)
    return Plan(
        operands=len(inputs),
        steps=steps,
        labels=labels,
        sizes=tuple(sizes),
        dtypes=dtypes,
        held=held,
        kept=kept(len(inputs), held),
        only=steps[0] if len(steps) == 1 else None,
    )


def _held(operands: int, steps: Sequence[Unary | Binary]) -> Ints:
    """Every result that a cotangent is multiplied with, but no operand in another precision."""
    last = operands + len(steps) - 1
    held = list(range(last + 1))
    for step in steps:
        if isinstance(step, Binary):
            for slot in step.reads:
                made = steps[slot - operands] if slot >= operands else None
                if not (isinstance(made, Unary) and isinstance(made.lowering, Cast)):
                    held[slot] = last
    return tuple(held)


def kept(operands: int, held: Ints) -> tuple[bool, ...]:
    """Which slots the forward keeps; see `Plan`."""
    last = len(held) - 1
    return tuple(slot < operands or turn == last != slot for slot, turn in enumerate(held))


def _labels(einsum: Einsum) -> tuple[list[Ints], list[int]]:
    """The label of each operand's axis, and the labels' sizes.

    An axis of size 1 that broadcasts gets a label of its own, which the first step drops. Where there
    are more labels than an array may have axes, all of size 1 are dropped so, and added in the end.
    """
    sizes = list(einsum.sizes)
    if len(einsum.inputs) == 1:
        return list(einsum.inputs), sizes
    many = len(sizes) > MAX_RANK
    inputs = []
    for term, shape in zip(einsum.inputs, einsum.shapes, strict=True):
        own: dict[int, int] = {}
        for label, size in zip(term, shape, strict=True):
            if size == 1 and (many or sizes[label] != 1) and label not in own:
                own[label] = len(sizes)
                sizes.append(1)
        inputs.append(tuple(own.get(label, label) for label in term))
    return inputs, sizes


def arriving(dtypes: Sequence[np.dtype], result: np.dtype) -> tuple[np.dtype, ...]:
    """The dtypes in which operands come to the plan: the engine casts integers if the result is inexact."""
    if result.kind not in "fc":
        return tuple(dtypes)
    return tuple(dtype if dtype.kind in "fc" else result for dtype in dtypes)


def _casts(dtypes: Sequence[np.dtype], result: np.dtype) -> dict[int, np.dtype]:
    """What to cast to what: operands of less precision than the result's. Real ones stay real."""
    real = real_dtype(result)
    wanted = [result if dtype.kind == "c" else real for dtype in dtypes]
    return {
        operand: want
        for operand, (dtype, want) in enumerate(zip(dtypes, wanted, strict=True))
        if dtype != want
    }


def _contract(program: Program, operands: Sequence[int], einsum: Einsum) -> None:
    """The steps from two operands or more to one: each alone first, then pairs."""
    inputs = [program.layouts[slot].axes for slot in operands]
    standing = Counter(label for term in inputs for label in set(term))
    standing.update(set(einsum.output))
    slots = []
    for operand, term in zip(operands, inputs, strict=True):
        left = tuple(label for label in dict.fromkeys(term) if standing[label] > 1)
        slots.append(operand if left == term else program.rearrange(operand, left))
    present = frozenset(label for term in inputs for label in term)
    output = only(tuple(dict.fromkeys(einsum.output)), present)
    terms = [frozenset(program.layouts[slot].axes) for slot in slots]
    tree = contraction_tree(terms, frozenset(output), program.sizes, einsum.groups, einsum.search)
    wishes = _wishes(tree, [program.layouts[slot].axes for slot in slots], output, program.sizes)
    for number, pair in enumerate(tree):
        checkpoint()
        first, second = slots[pair.first], slots[pair.second]
        order = output
        if number < len(tree) - 1:
            _check_rank(pair)
            order = choose_order(
                program.layouts[first],
                program.layouts[second],
                pair.labels,
                wishes[len(terms) + number],
                program.sizes,
            )
        slots.append(program.contract(first, second, order))


def _wishes(
    tree: Sequence[Pair], terms: Sequence[Ints], output: Ints, sizes: Sequence[int]
) -> dict[int, Wish]:
    """How each result of the tree would best lie for the step that reads it, from the last back."""
    count = len(terms)
    last = count + len(tree) - 1
    wishes = {last: Wish(output)}
    for number in range(last, count - 1, -1):
        pair, order = tree[number - count], wishes[number].order
        members = (pair.first, pair.second)
        labels = [frozenset(terms[m]) if m < count else tree[m - count].labels for m in members]
        kinds = Kinds.of(labels[0], labels[1], pair.labels)
        given = next((terms[m] for m in members if m < count), tuple(sorted(kinds.summed)))
        batch, summed = only(order, kinds.batch), only(given, kinds.summed)
        for member, own in zip(members, (kinds.rows, kinds.columns), strict=True):
            if summed:
                wishes[member] = wish(kinds, batch, only(order, own), summed, sizes)
            else:
                wishes[member] = Wish(only(order, own | kinds.batch))
    return wishes


def _check_rank(pair: Pair) -> None:
    if len(pair.labels) > MAX_RANK:
        raise make_error(
            "EINSUM_RANK",
            f"The order of contraction makes an array of {len(pair.labels)} axes on the way; an "
            f"array has at most {MAX_RANK}. Give another order with path= or parentheses.",
            expected=MAX_RANK,
            actual=len(pair.labels),
        )


class Program:
    """A plan in the making: what is known of each slot, and the steps so far."""

    def __init__(
        self, inputs: Sequence[Ints], sizes: Sequence[int], dtypes: Sequence[np.dtype]
    ) -> None:
        self.sizes = sizes
        self.layouts = [Layout.dense(term) for term in inputs]
        self._dtypes = dtypes
        self._complex = [dtype.kind == "c" for dtype in dtypes]
        self._operands = len(inputs)
        self._steps: list[tuple[int, Rearrangement | Cast] | tuple[int, int, Contraction]] = []

    def cast(self, source: int, dtype: np.dtype) -> int:
        """Add a step that casts an operand; returns its slot."""
        self._steps.append((source, Cast(dtype)))
        self.layouts.append(self.layouts[source])
        self._complex.append(self._complex[source])
        return len(self.layouts) - 1

    def rearrange(self, source: int, result: Ints) -> int:
        """Add a step with one operand; returns its slot."""
        lowering = rearrange(self.layouts[source].axes, result, self.sizes)
        self._steps.append((source, lowering))
        self.layouts.append(Layout.dense(result))
        self._complex.append(self._complex[source])
        return len(self.layouts) - 1

    def contract(self, first: int, second: int, result: Ints) -> int:
        """Add a step with two operands; returns its slot."""
        lowering, layout = lower(self.layouts[first], self.layouts[second], result, self.sizes)
        self._steps.append((first, second, lowering))
        self.layouts.append(layout)
        self._complex.append(self._complex[first] or self._complex[second])
        return len(self.layouts) - 1

    def finish(self) -> tuple[tuple[Unary | Binary, ...], tuple[Ints, ...]]:
        """The steps with their adjoints in the order to run them, and the labels of their slots.

        Adjoints are found from the last back: how a cotangent lies depends on the one that makes it.
        """
        last = len(self.layouts) - 1
        cotangents = {last: self.layouts[last]}  # it lies as the result does, more often than not
        finished: list[Unary | Binary] = []
        for number in range(len(self._steps) - 1, -1, -1):
            checkpoint()
            ct = self._operands + number
            match self._steps[number]:
                case (source, Cast() as cast):
                    cotangents[source] = cotangents[ct]
                    finished.append(Unary(source, cast, Cast(self._dtypes[source])))
                case (source, lowering):
                    axes = self.layouts[source].axes
                    adjoint = rearrange(cotangents[ct].axes, axes, self.sizes)
                    cotangents[source] = Layout.dense(axes)
                    finished.append(Unary(source, lowering, adjoint))
                case (first, second, lowering):
                    to_first, cotangents[first] = lower(
                        cotangents[ct],
                        self.layouts[second],
                        self.layouts[first].axes,
                        self.sizes,
                        self._conditions(ct, first, conjugate_b=self._complex[second]),
                    )
                    to_second, cotangents[second] = lower(
                        self.layouts[first],
                        cotangents[ct],
                        self.layouts[second].axes,
                        self.sizes,
                        self._conditions(ct, second, conjugate_a=self._complex[first]),
                    )
                    finished.append(Binary(first, second, lowering, to_first, to_second))
        return self._in_order(finished[::-1])

    def _in_order(
        self, steps: Sequence[Unary | Binary]
    ) -> tuple[tuple[Unary | Binary, ...], tuple[Ints, ...]]:
        """The steps subtree by subtree, and the labels of all slots."""
        elements = [volume(layout.axes, self.sizes) for layout in self.layouts]
        order = subtree_order([step.reads for step in steps], self._operands, elements)
        slots = [*range(self._operands), *order]
        numbers = {slot: number for number, slot in enumerate(slots)}
        ordered: list[Unary | Binary] = []
        for slot in order:
            step = steps[slot - self._operands]
            if isinstance(step, Unary):
                ordered.append(replace(step, source=numbers[step.source]))
            else:
                first, second = numbers[step.first], numbers[step.second]
                ordered.append(replace(step, first=first, second=second))
        return tuple(ordered), tuple(self.layouts[slot].axes for slot in slots)

    def _conditions(
        self, ct: int, target: int, *, conjugate_a: bool = False, conjugate_b: bool = False
    ) -> Conditions | None:
        """A cotangent is multiplied with conjugates; only its real part goes to a real operand."""
        given = Conditions(
            conjugate_a, conjugate_b, real=self._complex[ct] and not self._complex[target]
        )
        return None if given == Conditions() else given
