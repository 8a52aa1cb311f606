"""The array calls that a contraction is lowered to, each a callable ``lowering(xp, a, b)``.

Matrix products, single, stacked or tiny and many; and broadcasting products.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from backhaul_server.engine.einsum.layout import Ints
from backhaul_server.engine.rules import Array

Contraction = Callable[[Any, Array, Array], Array]


@dataclass(frozen=True, slots=True)
class Conditions:
    """What complex numbers ask of a contraction: operands to conjugate, the real part alone."""

    conjugate_a: bool = False
    conjugate_b: bool = False
    real: bool = False

    def swapped(self) -> Conditions:
        """With the operands in the other order."""
        return Conditions(self.conjugate_b, self.conjugate_a, self.real)


@dataclass(frozen=True, slots=True)
class View:
    """An operand with its axes moved and joined.

    Attributes:
        order: permutation of the axes, or None.
        copy: whether to copy then: where a view exists, but one that is slow to read.
        short: whether to copy then by gathering: where the copy's runs are too short for NumPy's.
        shape: then the shape, or None.
        flipped: whether the last two axes change places in the end.
    """

    order: Ints | None = None
    copy: bool = False
    shape: Ints | None = None
    flipped: bool = False
    short: bool = False

    def __call__(self, xp: Any, x: Array) -> Array:
        if self.order is not None:
            x = x.transpose(self.order)
        if self.short:
            x = xp.compact(x)
        elif self.copy:
            x = x.copy()
        if self.shape is not None:
            x = x.reshape(self.shape)
        return x.mT if self.flipped else x


AS_IT_IS = View()
TRANSPOSED = View(flipped=True)


@dataclass(frozen=True, slots=True)
class Product:
    """Broadcasting product of two views; then the result's order.

    Attributes:
        subscripts: None for multiply; else what einsum multiplies the views by.
    """

    a_view: View
    b_view: View
    subscripts: str | None
    order: Ints | None
    conditions: Conditions | None

    def __call__(self, xp: Any, a: Array, b: Array) -> Array:
        y = _run(
            xp,
            xp.multiply,
            self.subscripts,
            self.a_view(xp, a),
            self.b_view(xp, b),
            self.conditions,
        )
        return y if self.order is None else y.transpose(self.order)


@dataclass(frozen=True, slots=True)
class MatrixProduct:
    """Product of two matrices or two stacks of them; then the result's shape and order.

    Attributes:
        stacked: whether they are stacks.
        subscripts: None for BLAS, a call for each matrix of the stack; else what einsum computes all
            of them at once by, along the stack, which then is the last axis.
    """

    a_view: View
    b_view: View
    stacked: bool
    subscripts: str | None
    shape: Ints | None
    order: Ints | None
    conditions: Conditions | None

    def __call__(self, xp: Any, a: Array, b: Array) -> Array:
        multiply = xp.matmul if self.stacked else xp.dot
        y = _run(
            xp, multiply, self.subscripts, self.a_view(xp, a), self.b_view(xp, b), self.conditions
        )
        if self.shape is not None:
            y = y.reshape(self.shape)
        return y if self.order is None else y.transpose(self.order)


def _run(
    xp: Any,
    multiply: Callable[[Array, Array], Array],
    subscripts: str | None,
    a: Array,
    b: Array,
    conditions: Conditions | None,
) -> Array:
    if conditions is not None:
        a = xp.conj(a) if conditions.conjugate_a else a
        b = xp.conj(b) if conditions.conjugate_b else b
    y = multiply(a, b) if subscripts is None else xp.einsum(subscripts, a, b)
    return xp.real(y).copy() if conditions is not None and conditions.real else y


def swapped(lowering: Contraction) -> Contraction:
    """The lowering with its operands in the other order."""

    def run(xp: Any, a: Array, b: Array) -> Array:
        return lowering(xp, b, a)

    return run


# What has nothing to prepare is a bare call: small operands spend their time in preparations.


def multiply(xp: Any, a: Array, b: Array) -> Array:
    """The elementwise product."""
    return xp.multiply(a, b)


def _dot(xp: Any, a: Array, b: Array) -> Array:
    return xp.dot(a, b)


def _dot_transposed_b(xp: Any, a: Array, b: Array) -> Array:
    return xp.dot(a, b.T)


def _dot_transposed_a(xp: Any, a: Array, b: Array) -> Array:
    return xp.dot(a.T, b)


def _dot_transposed(xp: Any, a: Array, b: Array) -> Array:
    return xp.dot(a.T, b.T)


_BARE: dict[MatrixProduct, Contraction] = {
    MatrixProduct(AS_IT_IS, AS_IT_IS, False, None, None, None, None): _dot,
    MatrixProduct(AS_IT_IS, TRANSPOSED, False, None, None, None, None): _dot_transposed_b,
    MatrixProduct(TRANSPOSED, AS_IT_IS, False, None, None, None, None): _dot_transposed_a,
    MatrixProduct(TRANSPOSED, TRANSPOSED, False, None, None, None, None): _dot_transposed,
}


def bare(lowering: MatrixProduct | Product) -> Contraction:
    """The bare call that is the same, where there is one."""
    if isinstance(lowering, Product):
        return multiply if lowering == Product(AS_IT_IS, AS_IT_IS, None, None, None) else lowering
    return _BARE.get(lowering, lowering)
