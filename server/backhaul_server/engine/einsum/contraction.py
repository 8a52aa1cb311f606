"""Lowering of one contraction, the product of two arrays along labelled axes, to array calls.

A contraction has labels of four kinds: *batch* stand in both operands and the result; *rows* in the
first and the result; *columns* in the second and the result; *summed* in both operands alone. With
something to sum it is a (stacked) matrix product, else a broadcasting product. The cotangents of a
contraction are contractions again, with the kinds in other roles.

What is returned is a callable ``lowering(xp, a, b)``, worked out once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import product
from typing import Any, NamedTuple

from backhaul_server.engine.einsum.layout import (
    Ints,
    Layout,
    Sizes,
    is_matrix_view,
    only,
    positions,
    volume,
)
from backhaul_server.engine.rules import Array

Contraction = Callable[[Any, Array, Array], Array]
"""``lowering(xp, a, b)``."""


@dataclass(frozen=True, slots=True)
class Conditions:
    """What complex numbers ask of a contraction: operands to conjugate, the real part alone."""

    conjugate_a: bool = False
    conjugate_b: bool = False
    real: bool = False


PLAIN = Conditions()


def lower(
    a: Layout, b: Layout, result: Ints, sizes: Sizes, conditions: Conditions = PLAIN
) -> tuple[Contraction, Layout]:
    """The lowering that needs the fewest copies, and how its result lies.

    Every label stands in at least two of a, b and the result, and once in each.
    """
    kinds = _kinds(a, b, result)
    if not kinds.summed:
        return _lower_product(a, b, result, sizes, conditions)
    best = min(_matrix_products(a, b, result, kinds, sizes), key=lambda found: found.cost)
    if best.swapped:
        conditions = Conditions(conditions.conjugate_b, conditions.conjugate_a, conditions.real)
        return _swapped(_lower_matmul(b, a, result, best, sizes, conditions)), best.layout(result)
    return _lower_matmul(a, b, result, best, sizes, conditions), best.layout(result)


def choose_order(a: Layout, b: Layout, labels: frozenset[int], wish: Wish, sizes: Sizes) -> Ints:
    """The order of a result's axes, where it is free: what this step gives without a copy, if
    possible so that the step that reads it needs none either.
    """
    kinds = _kinds(a, b, tuple(labels))
    if not kinds.summed:
        return wish.order
    size = volume(labels, sizes)
    orders: dict[Ints, int] = {}
    for stack, rows, columns in product(
        dict.fromkeys((only(a.memory, kinds.batch), only(wish.order, kinds.batch))),
        dict.fromkeys((only(a.memory, kinds.rows), only(wish.order, kinds.rows))),
        dict.fromkeys((only(b.memory, kinds.columns), only(wish.order, kinds.columns))),
    ):
        for order in ((*stack, *rows, *columns), (*stack, *columns, *rows)):
            if order not in orders:
                cost = min(f.cost for f in _matrix_products(a, b, order, kinds, sizes))
                read = is_matrix_view(
                    order, only(wish.order, wish.rows), only(wish.order, wish.summed), sizes
                )
                orders[order] = cost + (0 if read else size)
    return min(orders, key=lambda order: orders[order])


@dataclass(frozen=True, slots=True)
class Wish:
    """How the step that reads a result would like it to lie.

    Attributes:
        order: the best order of all labels: batch, rows, summed.
        rows: the labels that it keeps, of this operand alone.
        summed: the labels that it sums over.
    """

    order: Ints
    rows: frozenset[int]
    summed: frozenset[int]


class _Kinds(NamedTuple):
    batch: frozenset[int]
    rows: frozenset[int]
    columns: frozenset[int]
    summed: frozenset[int]


def _kinds(a: Layout, b: Layout, result: Ints) -> _Kinds:
    in_a, in_b, in_result = frozenset(a.axes), frozenset(b.axes), frozenset(result)
    both = in_a & in_b
    return _Kinds(both & in_result, in_a - in_b, in_b - in_a, both - in_result)


# ---------------------------------------------------------------- products without a sum


@dataclass(frozen=True, slots=True)
class Product:
    """Broadcasting product: each operand's axes are moved and filled up with axes of size 1."""

    a_order: Ints | None
    a_shape: Ints | None
    b_order: Ints | None
    b_shape: Ints | None
    conditions: Conditions

    def __call__(self, xp: Any, a: Array, b: Array) -> Array:
        if self.a_order is not None:
            a = a.transpose(self.a_order)
        if self.a_shape is not None:
            a = a.reshape(self.a_shape)
        if self.b_order is not None:
            b = b.transpose(self.b_order)
        if self.b_shape is not None:
            b = b.reshape(self.b_shape)
        return _conditioned(xp, xp.multiply, a, b, self.conditions)


def _multiply(xp: Any, a: Array, b: Array) -> Array:
    return xp.multiply(a, b)


def _lower_product(
    a: Layout, b: Layout, result: Ints, sizes: Sizes, conditions: Conditions
) -> tuple[Contraction, Layout]:
    lowering = Product(
        positions(a.axes, only(result, frozenset(a.axes))),
        _filled(a.axes, result, sizes),
        positions(b.axes, only(result, frozenset(b.axes))),
        _filled(b.axes, result, sizes),
        conditions,
    )
    if lowering == Product(None, None, None, None, PLAIN):
        return _multiply, Layout(result, a.memory if a.axes == b.axes else result)
    return lowering, Layout.dense(result)


def _filled(axes: Ints, result: Ints, sizes: Sizes) -> Ints | None:
    """The shape with an axis of size 1 for each label that an operand has not; leading ones need none."""
    own = frozenset(axes)
    shape = [sizes[label] if label in own else 1 for label in result]
    while len(shape) > len(axes) and shape[0] == 1 and result[len(result) - len(shape)] not in own:
        del shape[0]
    return None if len(shape) == len(axes) else tuple(shape)


# ---------------------------------------------------------------- matrix products


class _MatrixProduct(NamedTuple):
    """One way to write a contraction as a matrix product; swapped: the second operand comes first."""

    cost: int
    batch: Ints
    rows: Ints
    columns: Ints
    summed: Ints
    swapped: bool

    def layout(self, result: Ints) -> Layout:
        return Layout(result, (*self.batch, *self.rows, *self.columns))


def _matrix_products(
    a: Layout, b: Layout, result: Ints, kinds: _Kinds, sizes: Sizes
) -> Iterator[_MatrixProduct]:
    """The ways worth a look. Cost counts elements copied; a result that comes out as a transposed
    view counts half, since the next step may have to copy it.
    """
    batch, rows = only(result, kinds.batch), only(result, kinds.rows)
    columns = only(result, kinds.columns)
    size_a, size_b = volume(a.axes, sizes), volume(b.axes, sizes)
    half_result = volume(result, sizes) // 2
    result_order = tuple(label for label in result if sizes[label] != 1)
    for summed in dict.fromkeys((only(a.memory, kinds.summed), only(b.memory, kinds.summed))):
        cost = 0 if is_matrix_view(a.memory, rows, summed, sizes) else size_a
        cost += 0 if is_matrix_view(b.memory, columns, summed, sizes) else size_b
        for swapped in (False, True):
            first, second = (columns, rows) if swapped else (rows, columns)
            natural = tuple(x for x in (*batch, *first, *second) if sizes[x] != 1)
            yield _MatrixProduct(
                cost + (0 if natural == result_order else half_result),
                batch,
                first,
                second,
                summed,
                swapped,
            )


@dataclass(frozen=True, slots=True)
class View:
    """An operand seen as a stack of matrices.

    Attributes:
        order: permutation of the axes, or None.
        copy: whether to copy then: where a view exists, but not one that BLAS reads.
        shape: the stack's shape, or None.
        flipped: whether the matrices are transposed in the end.
    """

    order: Ints | None
    copy: bool
    shape: Ints | None
    flipped: bool

    def __call__(self, x: Array) -> Array:
        if self.order is not None:
            x = x.transpose(self.order)
        if self.copy:
            x = x.copy()
        if self.shape is not None:
            x = x.reshape(self.shape)
        return x.mT if self.flipped else x


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """Stacked matrix product of two views; then the result's shape and order."""

    a_view: View
    b_view: View
    shape: Ints | None
    order: Ints | None
    conditions: Conditions

    def __call__(self, xp: Any, a: Array, b: Array) -> Array:
        y = _conditioned(xp, xp.matmul, self.a_view(a), self.b_view(b), self.conditions)
        if self.shape is not None:
            y = y.reshape(self.shape)
        return y if self.order is None else y.transpose(self.order)


def _lower_matmul(
    a: Layout, b: Layout, result: Ints, way: _MatrixProduct, sizes: Sizes, conditions: Conditions
) -> Contraction:
    """The matrix product of a and b, its operands in this order."""
    stacked = bool(way.batch)
    a_view = _view(a, way.batch, way.rows, way.summed, sizes, keep_empty=stacked)
    b_view = _view(b, way.batch, way.summed, way.columns, sizes, keep_empty=stacked)
    natural = (*way.batch, *way.rows, *way.columns)
    shape = tuple(sizes[label] for label in natural)
    computed = [sizes[label] for label in way.batch]
    computed += [volume(side, sizes) for side in (way.rows, way.columns) if side or stacked]
    lowering = MatrixProduct(
        a_view,
        b_view,
        None if shape == tuple(computed) else shape,
        positions(natural, result),
        conditions,
    )
    if lowering.shape is None and lowering.order is None and conditions == PLAIN:
        return _DIRECT.get((a_view, b_view), lowering)
    return lowering


def _view(
    operand: Layout, batch: Ints, first: Ints, second: Ints, sizes: Sizes, *, keep_empty: bool
) -> View:
    """The operand as matrices first x second. Unless kept, a side without labels is no axis."""
    fastest = next((x for x in reversed(operand.memory) if sizes[x] != 1), None)
    copied = not is_matrix_view(operand.memory, first, second, sizes)
    flipped = copied and bool(second) and fastest in first  # copies best in the order of memory
    sides = (second, first) if flipped else (first, second)
    order = (*batch, *sides[0], *sides[1])
    single = [sizes[label] for label in order]
    shape = [sizes[label] for label in batch]
    shape += [volume(side, sizes) for side in sides if side or keep_empty]
    if operand.axes == (*batch, *second, *first) and len(first) == len(second) == 1:
        return View(None, copied and fastest in batch, None, flipped=True)
    return View(
        positions(operand.axes, order),
        copied and fastest in batch,
        None if shape == single else tuple(shape),
        flipped,
    )


def _conditioned(
    xp: Any, multiply: Callable[[Array, Array], Array], a: Array, b: Array, given: Conditions
) -> Array:
    if given is PLAIN:
        return multiply(a, b)
    y = multiply(
        xp.conj(a) if given.conjugate_a else a,
        xp.conj(b) if given.conjugate_b else b,
    )
    return xp.real(y).copy() if given.real else y


def _swapped(lowering: Contraction) -> Contraction:
    def run(xp: Any, a: Array, b: Array) -> Array:
        return lowering(xp, b, a)

    return run


def _matmul(xp: Any, a: Array, b: Array) -> Array:
    return xp.matmul(a, b)


def _matmul_transposed_b(xp: Any, a: Array, b: Array) -> Array:
    return xp.matmul(a, b.mT)


def _matmul_transposed_a(xp: Any, a: Array, b: Array) -> Array:
    return xp.matmul(a.mT, b)


def _matmul_transposed(xp: Any, a: Array, b: Array) -> Array:
    return xp.matmul(a.mT, b.mT)


_AS_IT_IS = View(None, False, None, False)
_TRANSPOSED = View(None, False, None, True)
_DIRECT: dict[tuple[View, View], Contraction] = {
    (_AS_IT_IS, _AS_IT_IS): _matmul,
    (_AS_IT_IS, _TRANSPOSED): _matmul_transposed_b,
    (_TRANSPOSED, _AS_IT_IS): _matmul_transposed_a,
    (_TRANSPOSED, _TRANSPOSED): _matmul_transposed,
}
"""The forms without anything to prepare: what small operands spend their time in."""
