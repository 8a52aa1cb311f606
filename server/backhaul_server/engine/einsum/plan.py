"""The plan of an einsum: a straight-line program over slots, found once for an expression and shapes.

Slots hold the operands first, then the result of each step; the last is the einsum's. Each slot is
read by one step, so in the reverse each gets its cotangent from one place, once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from backhaul_proto.catalog.einsum import MAX_RANK, Einsum
from backhaul_proto.errors import make_error
from backhaul_server.engine.einsum.contraction import Kinds, Wish, choose_order, lower, wish
from backhaul_server.engine.einsum.layout import Ints, Layout, only
from backhaul_server.engine.einsum.products import Conditions, Contraction
from backhaul_server.engine.einsum.rearrangement import Rearrangement, rearrange
from backhaul_server.engine.einsum.tree import Pair, contraction_tree


@dataclass(frozen=True, slots=True)
class Unary:
    """A step with one operand, and its adjoint: from the result's cotangent to the operand's."""

    source: int
    lowering: Rearrangement
    adjoint: Rearrangement


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


@dataclass(frozen=True, slots=True, eq=False)
class Plan:
    """How an einsum is computed and differentiated.

    Attributes:
        operands: their number, which is the first step's slot.
        steps: in order.
        casts: for each operand the dtype to bring it to first, or None; empty when none is: steps in
            between are computed in the result's precision.
        residuals: how many of the first steps' results the derivatives need.
        only: the step, where one is all: it is run without slots.
    """

    operands: int
    steps: tuple[Unary | Binary, ...]
    casts: tuple[np.dtype | None, ...]
    residuals: int
    only: Unary | Binary | None


@lru_cache(maxsize=1024)
def make_plan(einsum: Einsum, dtypes: tuple[np.dtype, ...], result: np.dtype) -> Plan:
    """The plan for operands of these dtypes.

    Raises:
        InvalidArgument: EINSUM_RANK when the order of contraction makes an array of too many axes.
    """
    inputs, sizes = _labels(einsum)
    program = Program(inputs, sizes, [dtype.kind == "c" for dtype in dtypes])
    if len(inputs) > 1:
        _contract(program, einsum)
    repeated = len(set(einsum.output)) < len(einsum.output)  # then `ii->ii` is no identity
    if program.layouts[-1].axes != einsum.output or repeated:
        program.rearrange(len(program.layouts) - 1, einsum.output)
    steps = program.finish()
    casts = _casts(dtypes, result) if len(steps) > 1 else ()
    return Plan(
        operands=len(inputs),
        steps=steps,
        casts=casts,
        residuals=max(len(steps) - 1 - isinstance(steps[-1], Unary), 0) if steps else 0,
        only=steps[0] if len(steps) == 1 else None,
    )


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


def _casts(dtypes: Sequence[np.dtype], result: np.dtype) -> tuple[np.dtype | None, ...]:
    """What to cast: operands of less precision than the result's. Real ones stay real."""
    real = np.zeros((), result).real.dtype
    wanted = [result if dtype.kind == "c" else real for dtype in dtypes]
    casts = tuple(
        None if dtype == want else want for dtype, want in zip(dtypes, wanted, strict=True)
    )
    return casts if any(casts) else ()


def _contract(program: Program, einsum: Einsum) -> None:
    """The steps from two operands or more to one: each alone first, then pairs."""
    inputs = [layout.axes for layout in program.layouts]
    standing = Counter(label for term in inputs for label in set(term))
    standing.update(set(einsum.output))
    slots = []
    for operand, term in enumerate(inputs):
        kept = tuple(label for label in dict.fromkeys(term) if standing[label] > 1)
        slots.append(operand if kept == term else program.rearrange(operand, kept))
    present = frozenset(label for term in inputs for label in term)
    output = only(tuple(dict.fromkeys(einsum.output)), present)
    terms = [frozenset(program.layouts[slot].axes) for slot in slots]
    tree = contraction_tree(terms, frozenset(output), program.sizes, einsum.groups, einsum.search)
    wishes = _wishes(tree, [program.layouts[slot].axes for slot in slots], output, program.sizes)
    for number, pair in enumerate(tree):
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
        self, inputs: Sequence[Ints], sizes: Sequence[int], is_complex: Sequence[bool]
    ) -> None:
        self.sizes = sizes
        self.layouts = [Layout.dense(term) for term in inputs]
        self._complex = list(is_complex)
        self._operands = len(inputs)
        self._steps: list[tuple[int, Rearrangement] | tuple[int, int, Contraction]] = []

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

    def finish(self) -> tuple[Unary | Binary, ...]:
        """The steps with their adjoints, found from the last back.

        How a cotangent lies depends on the adjoint that makes it.
        """
        last = len(self.layouts) - 1
        cotangents = {last: self.layouts[last]}  # it lies as the result does, more often than not
        finished: list[Unary | Binary] = []
        for number in range(len(self._steps) - 1, -1, -1):
            ct = self._operands + number
            match self._steps[number]:
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
        return tuple(reversed(finished))

    def _conditions(
        self, ct: int, target: int, *, conjugate_a: bool = False, conjugate_b: bool = False
    ) -> Conditions | None:
        """A cotangent is multiplied with conjugates; only its real part goes to a real operand."""
        given = Conditions(
            conjugate_a, conjugate_b, real=self._complex[ct] and not self._complex[target]
        )
        return None if given == Conditions() else given
