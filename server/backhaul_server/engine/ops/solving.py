"""Rules of linear systems: inverses, solutions, triangular ones.

A vector on the right is a matrix of one column in the derivatives.
"""

from __future__ import annotations

from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops.linalg import adjoint
from backhaul_server.engine.ops.refusals import LinAlgError, check_finite, singular
from backhaul_server.engine.rules import Array, Namespace, Rule, plus, rule


def as_columns(F: Namespace, x: Array, b: Array) -> Array:
    """Turn x into matrices: where the right side b is a vector, x's last axis becomes a column."""
    return x if len(b.shape) > 1 else F.reshape(x, shape=(*x.shape, 1))


def as_given(F: Namespace, x: Array, b: Array) -> Array:
    """The reverse of `as_columns`."""
    return x if len(b.shape) > 1 else F.reshape(x, shape=x.shape[:-1])


@rule("linalg.inv")
class Inv(Rule):
    """y = a^-1.  Giles (2008), 2.2.3: dy = -y da y."""

    def forward(self, xp: Any, a: Array) -> Array:
        return inverse(xp, self.name, a)

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array) -> Array:
        return F.negative(F.matmul(F.matmul(y, da), y))

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array) -> Any:
        yh = adjoint(F, y)
        return (lambda: F.negative(F.matmul(F.matmul(yh, ct), yh)),)


def inverse(xp: Any, op: str, a: Array) -> Array:
    """The inverse, on behalf of an op.

    Raises:
        LinearAlgebraError: SINGULAR_MATRIX.
    """
    try:
        y = xp.linalg.inv(a)
    except LinAlgError:
        raise singular(xp, op, a) from None
    return check_finite(xp, op, y, a)


@rule("linalg.solve")
class Solve(Rule):
    """The x with a x = b.  Giles (2008), 2.3.1. The residual is the factorisation of a."""

    keeps = True

    def forward(self, xp: Any, a: Array, b: Array) -> tuple[Array, Any]:
        if a.dtype != b.dtype:
            a = xp.astype(a, xp.result_type(a, b))
        try:
            factors = xp.lu_factor(a)
            x = as_given(xp, xp.lu_solve(factors, as_columns(xp, b, b)), b)
        except LinAlgError:
            raise singular(xp, self.name, a) from None
        return check_finite(xp, self.name, x, a, b), factors

    def jvp(
        self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array, residual: Any
    ) -> tuple[Array, Any]:
        right = None if db is None else as_columns(F, db, b)
        if da is not None:
            right = plus(F, right, F.negative(F.matmul(da, as_columns(F, y, b))))
        return as_given(F, F.solve_factored(a, right, factors=residual), b), residual

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array, residual: Any) -> Any:
        back = F.solve_factored(a, as_columns(F, ct, b), factors=residual, adjoint=True)
        return (
            lambda: F.negative(F.matmul(back, adjoint(F, as_columns(F, y, b)))),
            lambda: as_given(F, back, b),
        )

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        a, x = operands[0].nbytes, results[0].nbytes
        return Need(value=2 * a + 2 * x, kept=a, gradient=a + 3 * x, hvp=3 * a + 8 * x)


@rule("solve_factored")
class SolveFactored(Rule):
    """The x with a x = b, or a^H x = b, by factors that the op's rule kept: constants, which move with a."""

    def forward(self, xp: Any, a: Array, b: Array, factors: Any, adjoint: bool = False) -> Array:
        return xp.lu_solve(factors, b, adjoint=adjoint)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        b: Array,
        da: Array,
        db: Array,
        factors: Any,
        adjoint: bool = False,
    ) -> Array:
        right = db
        if da is not None:
            right = plus(F, db, F.negative(F.matmul(_adjoint_if(F, da, adjoint), y)))
        return F.solve_factored(a, right, factors=factors, adjoint=adjoint)


def _adjoint_if(F: Namespace, x: Array, wanted: bool) -> Array:
    return adjoint(F, x) if wanted else x


@rule("linalg.solve_triangular")
class SolveTriangular(Rule):
    """The x with op(a) x = b, a triangular and op as ``trans`` says.  Giles (2008), 2.3.1."""

    def forward(
        self,
        xp: Any,
        a: Array,
        b: Array,
        trans: str = "N",
        lower: bool = False,
        unit_diagonal: bool = False,
    ) -> Array:
        columns = as_columns(xp, b, b)
        x = xp.solve_triangular(a, columns, lower=lower, trans=trans, unit_diagonal=unit_diagonal)
        if not xp.all(xp.isfinite(x)):
            check_finite(xp, self.name, x, triangle(xp, a, lower, unit_diagonal), b)
        return as_given(xp, x, b)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        b: Array,
        da: Array,
        db: Array,
        trans: str = "N",
        lower: bool = False,
        unit_diagonal: bool = False,
    ) -> Array:
        right = None if db is None else as_columns(F, db, b)
        if da is not None:
            read = _transposed(F, triangle(F, da, lower, unit_diagonal), trans)
            right = plus(F, right, F.negative(F.matmul(read, as_columns(F, y, b))))
        dx = F.linalg_solve_triangular(
            a, right, trans=trans, lower=lower, unit_diagonal=unit_diagonal
        )
        return as_given(F, dx, b)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        a: Array,
        b: Array,
        trans: str = "N",
        lower: bool = False,
        unit_diagonal: bool = False,
    ) -> Any:
        def solve(right: Array, trans: str) -> Array:
            return F.linalg_solve_triangular(
                a, right, trans=trans, lower=lower, unit_diagonal=unit_diagonal
            )

        columns = as_columns(F, ct, b)
        if trans == "T":  # the adjoint of a^T is conj(a), for which LAPACK has no name
            back = F.conj(solve(F.conj(columns), "N"))
        else:
            back = solve(columns, "C" if trans == "N" else "N")

        def of_a() -> Array:
            product = F.matmul(back, adjoint(F, as_columns(F, y, b)))
            g = F.negative(_transposed(F, product, trans))
            return triangle(F, g, lower, unit_diagonal)

        return (of_a, lambda: as_given(F, back, b))


def _transposed(F: Namespace, x: Array, trans: str) -> Array:
    if trans == "N":
        return x
    return adjoint(F, x) if trans == "C" else F.matrix_transpose(x)


def triangle(F: Namespace, x: Array, lower: bool, unit_diagonal: bool) -> Array:
    """The triangle that is read, zeros elsewhere."""
    k = -1 if unit_diagonal else 0
    return F.tril(x, k=k) if lower else F.triu(x, k=-k)
