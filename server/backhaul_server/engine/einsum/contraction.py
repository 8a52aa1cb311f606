"""Lowering of one contraction, the product of two arrays along labelled axes, to array calls.

A contraction has labels of four kinds: *batch* stand in both operands and the result; *rows* in the
first and the result; *columns* in the second and the result; *summed* in both operands alone. With
something to sum it is a (stacked) matrix product, else a broadcasting product. The cotangents of a
contraction are contractions again, with the kinds in other roles.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import product
from string import ascii_letters
from typing import Final, NamedTuple

from backhaul_server.engine.einsum.layout import (
    Ints,
    Layout,
    Sizes,
    are_runs,
    disorder,
    fastest,
    only,
    positions,
    run,
    volume,
)
from backhaul_server.engine.einsum.products import (
    AS_IT_IS,
    TRANSPOSED,
    Conditions,
    Contraction,
    MatrixProduct,
    Product,
    View,
    bare,
    swapped,
)

_TINY: Final = 256
"""Multiplications of one matrix product of a stack, up to which its call costs more than it does."""
_TINY_STACK: Final = 64
_LARGE: Final = 2**15
_SHORT: Final = 4
"""Elements in a row, below which NumPy's copy is slower than a gathered one."""


class Kinds(NamedTuple):
    """The labels of a contraction by kind."""

    batch: frozenset[int]
    rows: frozenset[int]
    columns: frozenset[int]
    summed: frozenset[int]

    @classmethod
    def of(cls, a: frozenset[int], b: frozenset[int], result: frozenset[int]) -> Kinds:
        """From the labels of both operands and of the result."""
        return cls(a & b & result, a - b, b - a, (a & b) - result)

    def tiny(self, sizes: Sizes) -> bool:
        """Whether it is a large stack of very small matrix products.

        These are summed along the stack, which stands last in memory then.
        """
        return (
            volume(self.batch, sizes) >= _TINY_STACK
            and volume(self.rows | self.columns | self.summed, sizes) <= _TINY
        )


@dataclass(frozen=True, slots=True)
class Wish:
    """How the contraction that reads a result would like it to lie.

    Attributes:
        order: the best order of all its labels.
        groups: the labels that should stand together: rows, summed, and batch where it is to be last.
        ends: the groups one of which should be last.
    """

    order: Ints
    groups: tuple[Ints, ...] = ()
    ends: tuple[Ints, ...] = ()

    def met(self, memory: Ints, sizes: Sizes) -> bool:
        """Whether an array that lies so can be read without a copy."""
        last = fastest(memory, sizes)
        ends = not self.ends or last is None or any(last in group for group in self.ends)
        return ends and are_runs(memory, self.groups, sizes)


def wish(kinds: Kinds, batch: Ints, own: Ints, summed: Ints, sizes: Sizes) -> Wish:
    """The wish of a contraction with a sum for one operand: its batch labels, its own, those summed."""
    if kinds.tiny(sizes):
        if not kinds.rows and not kinds.columns:
            return Wish((*summed, *batch), (summed, batch))
        return Wish((*own, *summed, *batch), (own, summed, batch), (batch,))
    return Wish((*batch, *own, *summed), (own, summed), (own, summed))


def choose_order(a: Layout, b: Layout, labels: frozenset[int], wished: Wish, sizes: Sizes) -> Ints:
    """The order of a result's axes, where it is free.

    One that this step gives without a copy, and if possible the next step reads without one.
    """
    kinds = Kinds.of(frozenset(a.axes), frozenset(b.axes), labels)
    if not kinds.summed:
        return _product_order(a, b, wished.order, sizes)
    size = volume(labels, sizes)
    tiny = kinds.tiny(sizes)
    costs: dict[Ints, float] = {}
    for batch, rows, columns in product(
        _orders(kinds.batch, a.memory, b.memory, wished.order),
        _orders(kinds.rows, a.memory, wished.order),
        _orders(kinds.columns, b.memory, wished.order),
    ):
        for sides in ((*rows, *columns), (*columns, *rows)):
            order = (*sides, *batch) if tiny else (*batch, *sides)
            if order not in costs:
                cost = min(way.cost for way in _ways(a, b, order, kinds, sizes))
                costs[order] = cost + (0 if wished.met(order, sizes) else size)
    return min(costs, key=lambda order: costs[order])


def lower(
    a: Layout,
    b: Layout,
    result: Ints,
    sizes: Sizes,
    conditions: Conditions | None = None,
) -> tuple[Contraction, Layout]:
    """The lowering that needs the fewest copies, and how its result lies.

    Every label stands in at least two of a, b and the result, and once in each.
    """
    kinds = Kinds.of(frozenset(a.axes), frozenset(b.axes), frozenset(result))
    if not kinds.summed:
        return _product(a, b, result, sizes, conditions)
    way = min(_ways(a, b, result, kinds, sizes), key=lambda way: way.cost)
    layout = Layout(result, way.natural)
    if way.swapped:
        turned = None if conditions is None else conditions.swapped()
        return swapped(_matrix_product(b, a, result, way, sizes, turned)), layout
    return _matrix_product(a, b, result, way, sizes, conditions), layout


def _product(
    a: Layout, b: Layout, result: Ints, sizes: Sizes, conditions: Conditions | None
) -> tuple[Contraction, Layout]:
    """The product where nothing is summed."""
    order = _product_order(a, b, result, sizes)
    turned = positions(order, result)
    outer = max(len(a.axes), len(b.axes)) < len(order) <= len(ascii_letters)
    if outer and volume(order, sizes) >= _LARGE:  # einsum is faster where inner loops are short
        letters = dict(zip(order, ascii_letters, strict=False))
        terms = ["".join(letters[label] for label in axes) for axes in (a.axes, b.axes, order)]
        subscripts = f"{terms[0]},{terms[1]}->{terms[2]}"
        lowering = Product(AS_IT_IS, AS_IT_IS, subscripts, turned, conditions)
    else:
        a_view, b_view = _broadcasting(a, order, sizes), _broadcasting(b, order, sizes)
        lowering = Product(a_view, b_view, None, turned, conditions)
    return bare(lowering), Layout(result, order)


def _product_order(a: Layout, b: Layout, wanted: Ints, sizes: Sizes) -> Ints:
    """The order in which to make a broadcasting product.

    As wanted, if both operands are read in the order of their memory then; else as the larger lies.
    """
    if _in_order(a.memory, wanted, sizes) and _in_order(b.memory, wanted, sizes):
        return wanted
    more, less = a.memory, b.memory
    if volume(more, sizes) < volume(less, sizes):
        more, less = less, more
    shared = frozenset(less)
    added = tuple(label for label in less if label not in more)
    start = len(more)
    while start and (more[start - 1] in shared) == (more[-1] in shared):
        start -= 1  # what the larger one ends with stays last: it is the innermost loop
    return (*more[:start], *added, *more[start:])


def _in_order(memory: Ints, order: Ints, sizes: Sizes) -> bool:
    places = [order.index(label) for label in memory if sizes[label] != 1]
    return places == sorted(places)


def _broadcasting(operand: Layout, result: Ints, sizes: Sizes) -> View:
    """The operand in the result's order, with axes of size 1 for labels that it lacks.

    Axes in front of all of its own need not be there.
    """
    own = frozenset(operand.axes)
    order = only(result, own)
    behind = result[result.index(order[0]) :] if order else ()
    shape = tuple(sizes[label] if label in own else 1 for label in behind)
    return View(positions(operand.axes, order), shape=None if behind == order else shape)


class _Way(NamedTuple):
    """One way to write a contraction as a matrix product; swapped: the second operand comes first.

    Cost counts elements copied. A result that comes out as a transposed view counts half: the next
    step may have to copy it.
    """

    cost: float
    batch: Ints
    rows: Ints
    columns: Ints
    summed: Ints
    swapped: bool
    tiny: bool

    @property
    def natural(self) -> Ints:
        """The order in which the result comes out."""
        sides = (*self.rows, *self.columns)
        return (*sides, *self.batch) if self.tiny else (*self.batch, *sides)


def _ways(a: Layout, b: Layout, result: Ints, kinds: Kinds, sizes: Sizes) -> Iterator[_Way]:
    """The ways worth a look: labels of a kind in the order of an operand's memory or of the result."""
    half_result = volume(result, sizes) // 2
    order = [label for label in result if sizes[label] != 1]
    tiny = kinds.tiny(sizes)
    stacks = (a.memory, b.memory, result) if tiny else (result,)
    for rows, columns, summed, batch in product(
        _orders(kinds.rows, result, a.memory),
        _orders(kinds.columns, result, b.memory),
        _orders(kinds.summed, a.memory, b.memory),
        _orders(kinds.batch, *stacks),
    ):
        cost = _copy_cost(a, batch, rows, summed, kinds, sizes)
        cost += _copy_cost(b, batch, columns, summed, kinds, sizes)
        for way in (
            _Way(cost, batch, rows, columns, summed, False, tiny),
            _Way(cost, batch, columns, rows, summed, True, tiny),
        ):
            turned = [label for label in way.natural if sizes[label] != 1] != order
            yield way._replace(cost=cost + half_result) if turned else way


def _copy_cost(
    operand: Layout, batch: Ints, own: Ints, summed: Ints, kinds: Kinds, sizes: Sizes
) -> float:
    wished = wish(kinds, batch, own, summed, sizes)
    if wished.met(operand.memory, sizes):
        return 0.0
    orders = [wished.order]
    if not kinds.tiny(sizes):
        orders.append((*batch, *summed, *own))
    least = min(disorder(operand.memory, order, sizes) for order in orders)
    return volume(operand.axes, sizes) * (1.0 + least)


def _orders(labels: frozenset[int], *orders: Ints) -> Iterable[Ints]:
    """The different orders of these labels in the given ones."""
    return dict.fromkeys(only(order, labels) for order in orders)


def _matrix_product(
    a: Layout, b: Layout, result: Ints, way: _Way, sizes: Sizes, conditions: Conditions | None
) -> Contraction:
    """The matrix product of a and b in this order."""
    if way.tiny:
        a_view = _tiny_view(a, way, (way.rows, way.summed), sizes)
        b_view = _tiny_view(b, way, (way.summed, way.columns), sizes)
        m, n = "m" if way.rows else "", "n" if way.columns else ""
        subscripts = f"{m}kb,k{n}b->{m}{n}b"
        groups = (way.rows, way.columns, way.batch)
        computed = [volume(group, sizes) for group in groups if group]
    else:
        a_view = _matrix_view(a, way.batch, way.rows, way.summed, sizes)
        b_view = _matrix_view(b, way.batch, way.summed, way.columns, sizes)
        subscripts = None
        computed = [sizes[label] for label in way.batch]
        sides = (way.rows, way.columns)
        computed += [volume(side, sizes) for side in sides if side or way.batch]
    shape = tuple(sizes[label] for label in way.natural)
    return bare(
        MatrixProduct(
            a_view,
            b_view,
            bool(way.batch),
            subscripts,
            None if shape == tuple(computed) else shape,
            positions(way.natural, result),
            conditions,
        )
    )


def _matrix_view(operand: Layout, batch: Ints, first: Ints, second: Ints, sizes: Sizes) -> View:
    """The operand as matrices first x second. Without batch, a side without labels is no axis."""
    last = fastest(operand.memory, sizes)
    in_place = are_runs(operand.memory, (first, second), sizes) and last not in batch
    if in_place and operand.axes == (*batch, *second, *first) and len(first) == len(second) == 1:
        return TRANSPOSED
    flipped = not in_place and bool(first and second)
    if flipped:  # if that is copied more in the order of memory
        straight, turned = (*batch, *first, *second), (*batch, *second, *first)
        memory = operand.memory
        flipped = disorder(memory, turned, sizes) < disorder(memory, straight, sizes)
    sides = (second, first) if flipped else (first, second)
    order = (*batch, *sides[0], *sides[1])
    shape = [sizes[label] for label in batch]
    shape += [volume(side, sizes) for side in sides if side or batch]
    return View(
        positions(operand.axes, order),
        not in_place and last in batch,
        None if shape == [sizes[label] for label in order] else tuple(shape),
        flipped,
        not in_place and _is_short(operand, order, sizes),
    )


def _is_short(operand: Layout, order: Ints, sizes: Sizes) -> bool:
    """Whether a copy in this order is better gathered."""
    large = volume(order, sizes) >= _LARGE
    return large and run(operand.memory, order, sizes) < _SHORT


def _tiny_view(operand: Layout, way: _Way, sides: tuple[Ints, Ints], sizes: Sizes) -> View:
    """The operand with a stack as its last axis, and that in memory too."""
    groups = [group for group in (*sides, way.batch) if group]
    order = tuple(label for group in groups for label in group)
    shape = tuple(volume(group, sizes) for group in groups)
    last = fastest(operand.memory, sizes)
    return View(
        positions(operand.axes, order),
        copy=last not in way.batch and bool(way.rows or way.columns),
        shape=None if len(shape) == len(order) else shape,
    )
