"""Rules of linear algebra on the last two axes."""

from __future__ import annotations

from typing import Any

import numpy as np

from backhaul_proto.errors import make_error
from backhaul_server.engine.rules import Array, Bilinear, Namespace, Rule, rule


def adjoint(F: Namespace, x: Array) -> Array:
    """The conjugate transpose of the last two axes."""
    return F.conj(F.matrix_transpose(x))


@rule("matmul")
class Matmul(Bilinear):
    """y = a b.  Giles (2008), An extended collection of matrix derivative results, 2.2.2."""

    function = "matmul"

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        if len(a.shape) > 1 and len(b.shape) > 1:
            return (lambda: F.matmul(ct, adjoint(F, b)), lambda: F.matmul(adjoint(F, a), ct))
        row = a if len(a.shape) > 1 else F.reshape(a, shape=(1, *a.shape))
        column = b if len(b.shape) > 1 else F.reshape(b, shape=(*b.shape, 1))
        batch = ct.shape[: len(ct.shape) - (len(a.shape) > 1) - (len(b.shape) > 1)]
        full = F.reshape(ct, shape=(*batch, row.shape[-2], column.shape[-1]))
        return (
            lambda: _as_vector(F, F.matmul(full, adjoint(F, column)), a, -2),
            lambda: _as_vector(F, F.matmul(adjoint(F, row), full), b, -1),
        )


def _as_vector(F: Namespace, g: Array, operand: Array, axis: int) -> Array:
    """The cotangent without the axis of size 1 that made a matrix of a vector."""
    if len(operand.shape) > 1:
        return g
    shape = list(g.shape)
    del shape[axis]
    return F.reshape(g, shape=tuple(shape))


@rule("solve_lower")
class SolveLower(Rule):
    """x with a x = b (or a^H x = b), a lower triangular.  Giles (2008), 2.3.1."""

    function = "solve_lower"

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        b: Array,
        da: Array,
        db: Array,
        adjoint: bool = False,
    ) -> Array:
        if da is not None:
            low = F.tril(da)
            moved = F.matmul(_adjoint_if(F, low, adjoint), y)
            db = F.negative(moved) if db is None else F.subtract(db, moved)
        return F.solve_lower(a, db, adjoint=adjoint)

    def vjp(
        self, F: Namespace, ct: Array, y: Array, a: Array, b: Array, adjoint: bool = False
    ) -> Any:
        back = F.solve_lower(a, ct, adjoint=not adjoint)

        def of_a() -> Array:
            left, right = (y, back) if adjoint else (back, y)
            return F.negative(F.tril(F.matmul(left, _adjoint_if(F, right, True))))

        return (of_a, lambda: back)


def _adjoint_if(F: Namespace, x: Array, wanted: bool) -> Array:
    return adjoint(F, x) if wanted else x


@rule("linalg.cholesky")
class Cholesky(Rule):
    """L with a = L L^H.  Murray (2016), arXiv:1602.07527, equations 8 and 10."""

    def forward(self, xp: Any, a: Array) -> Array:
        try:
            return xp.linalg.cholesky(a)
        except np.linalg.LinAlgError:
            raise make_error(
                "NOT_POSITIVE_DEFINITE",
                f"cholesky: a matrix of shape {a.shape} is not positive definite. Rounding can make one "
                "so that should be: add a small multiple of the identity, or check that it is symmetric.",
                op="linalg.cholesky",
            ) from None

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array) -> Array:
        inner = _solve_both(F, y, _hermitian_part(F, da), outer=False)
        return F.matmul(y, _half_tril(F, inner))

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array) -> Any:
        def of_a() -> Array:
            inner = _half_tril(F, F.matmul(adjoint(F, y), F.tril(ct)))
            outer = _solve_both(F, y, inner, outer=True)
            half = F.xp.asarray(0.5, dtype=outer.dtype)
            return F.multiply(F.add(outer, adjoint(F, outer)), half)

        return (of_a,)


def _half_tril(F: Namespace, x: Array) -> Array:
    """Murray's phi: the lower triangle with its diagonal halved."""
    mask = 1.0 - 0.5 * F.xp.eye(x.shape[-1])
    return F.multiply(F.tril(x), F.xp.astype(mask, x.dtype))


def _hermitian_part(F: Namespace, x: Array) -> Array:
    """(x + x^H) / 2: what a direction means for a matrix that is taken to be Hermitian."""
    half = F.xp.asarray(0.5, dtype=x.dtype)
    return F.multiply(F.add(x, adjoint(F, x)), half)


def _solve_both(F: Namespace, low: Array, x: Array, *, outer: bool) -> Array:
    """L^-1 x L^-H, or L^-H x L^-1 when outer."""
    left = F.solve_lower(low, x, adjoint=outer)
    return adjoint(F, F.solve_lower(low, adjoint(F, left), adjoint=outer))
