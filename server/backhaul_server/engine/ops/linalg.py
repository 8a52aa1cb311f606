"""Rules of linear algebra on the last two axes."""

from __future__ import annotations

from typing import Any

from backhaul_proto.errors import make_error
from backhaul_server.engine.arrays import LinAlgError
from backhaul_server.engine.rules import Array, Bilinear, Namespace, Rule, rule


def adjoint(F: Namespace, x: Array) -> Array:
    """The conjugate transpose of the last two axes."""
    return F.conj(F.matrix_transpose(x))


def hermitian_part(F: Namespace, x: Array) -> Array:
    """(x + x^H) / 2: what a direction means for a matrix that is taken to be Hermitian."""
    return F.multiply(F.add(x, adjoint(F, x)), 0.5)


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


@rule("linalg.cholesky")
class Cholesky(Rule):
    """L with a = L L^H.  Murray (2016), arXiv:1602.07527, equations 8 and 10."""

    def forward(self, xp: Any, a: Array, upper: bool = False) -> Array:
        try:
            low = xp.linalg.cholesky(xp.conj(xp.matrix_transpose(a)) if upper else a)
        except LinAlgError:
            raise make_error(
                "NOT_POSITIVE_DEFINITE",
                f"cholesky: a matrix of shape {a.shape} is not positive definite. Rounding can make one "
                "so that should be: add a small multiple of the identity, or check that it is symmetric.",
                op="linalg.cholesky",
            ) from None
        return xp.conj(xp.matrix_transpose(low)) if upper else low

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array, upper: bool = False) -> Array:
        low = adjoint(F, y) if upper else y
        inner = _solve_both(F, low, hermitian_part(F, da), outer=False)
        moved = F.matmul(low, _half_tril(F, inner))
        return adjoint(F, moved) if upper else moved

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, upper: bool = False) -> Any:
        def of_a() -> Array:
            low, of_low = (adjoint(F, y), adjoint(F, ct)) if upper else (y, ct)
            inner = _half_tril(F, F.matmul(adjoint(F, low), F.tril(of_low)))
            return hermitian_part(F, _solve_both(F, low, inner, outer=True))

        return (of_a,)


def _half_tril(F: Namespace, x: Array) -> Array:
    """Murray's phi: the lower triangle with its diagonal halved."""
    mask = 1.0 - 0.5 * F.xp.eye(x.shape[-1])
    return F.multiply(F.tril(x), F.xp.astype(mask, x.dtype))


def _solve_both(F: Namespace, low: Array, x: Array, *, outer: bool) -> Array:
    """L^-1 x L^-H, or L^-H x L^-1 when outer."""
    trans = "C" if outer else "N"

    def solve(right: Array) -> Array:
        return F.linalg_solve_triangular(low, right, trans=trans, lower=True)

    return adjoint(F, solve(adjoint(F, solve(x))))
