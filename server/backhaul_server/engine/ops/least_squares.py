"""Rules of the pseudo-inverse and of least squares, at constant rank.

Golub and Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares problems
whose variables separate, equation 4.12, with p the pseudo-inverse of a:

    dp = -p da p + p p^H da^H (1 - a p) + (1 - p a) da^H p^H p
"""

from __future__ import annotations

from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.dual import dual
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops.linalg import adjoint
from backhaul_server.engine.ops.refusals import svd
from backhaul_server.engine.ops.solving import as_columns, as_given
from backhaul_server.engine.rules import Array, Namespace, Rule, plus, rule


@rule("linalg.pinv")
class Pinv(Rule):
    """p = a^+."""

    def forward(self, xp: Any, a: Array, rtol: float | None = None) -> Array:
        return pseudo_inverse(xp, a, rtol)

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array, rtol: float | None = None) -> Array:
        return pushed(F, y, a, da)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, rtol: float | None = None) -> Any:
        def of_a() -> Array:
            ph, cth = adjoint(F, y), adjoint(F, ct)
            along = F.negative(F.matmul(F.matmul(ph, ct), ph))
            # The other terms are those of dp's, read from right to left.
            left = F.subtract(cth, F.matmul(a, F.matmul(y, cth)))
            right = F.subtract(cth, F.matmul(F.matmul(cth, y), a))
            return plus(
                F,
                along,
                _chain(F, left, y, ph),
                _chain(F, ph, y, right),
            )

        return (of_a,)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        a = operands[0].nbytes
        return Need(value=4 * a, kept=0, gradient=8 * a, hvp=24 * a)


def pseudo_inverse(xp: Any, a: Array, rtol: float | None) -> Array:
    """a^+ by singular values, of which those up to rtol times the greatest count as zero."""
    if a.size == 0:
        return xp.zeros((*a.shape[:-2], a.shape[-1], a.shape[-2]), dtype=a.dtype)
    u, s, vh = svd(xp, a)
    if rtol is None:
        rtol = max(a.shape[-2:]) * float(xp.finfo(s.dtype).eps)
    zero = xp.zeros((), dtype=s.dtype)
    one = xp.ones((), dtype=s.dtype)
    kept = xp.logical_not(s <= rtol * s[..., :1])  # NaN is kept
    inverses = xp.where(kept, one / xp.where(kept, s, one), zero)
    return xp.matmul(adjoint_of(xp, vh) * inverses[..., None, :], adjoint_of(xp, u))


def adjoint_of(xp: Any, x: Array) -> Array:
    """The conjugate transpose of a plain array's last two axes."""
    return xp.conj(xp.matrix_transpose(x))


def pushed(F: Namespace, p: Array, a: Array, da: Array) -> Array:
    """The tangent of the pseudo-inverse p of a."""
    ph, dah = adjoint(F, p), adjoint(F, da)
    along = F.negative(F.matmul(F.matmul(p, da), p))
    left = F.subtract(dah, F.matmul(F.matmul(dah, a), p))
    right = F.subtract(dah, F.matmul(p, F.matmul(a, dah)))
    return plus(F, along, _chain(F, p, ph, left), _chain(F, right, ph, p))


def _chain(F: Namespace, x: Array, y: Array, z: Array) -> Array:
    """The product x y z, in the order that makes the smaller product on the way."""
    if x.shape[-2] <= y.shape[-2]:
        return F.matmul(F.matmul(x, y), z)
    return F.matmul(x, F.matmul(y, z))


@rule("linalg.lstsq")
class Lstsq(Rule):
    """x = a^+ b. The residual is a^+."""

    keeps = True

    def forward(
        self, xp: Any, a: Array, b: Array, rcond: float | None = None
    ) -> tuple[Array, Array]:
        if a.dtype != b.dtype:
            a = xp.astype(a, xp.result_type(a, b))
        p = pseudo_inverse(xp, a, rcond)
        return xp.matmul(p, b), p

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        b: Array,
        da: Array,
        db: Array,
        residual: Array,
        rcond: float | None = None,
    ) -> tuple[Array, Any]:
        p = residual
        dp = None if da is None else pushed(F, p, a, da)
        moved = None if dp is None else F.matmul(dp, b)
        return plus(F, moved, None if db is None else F.matmul(p, db)), dual(p, dp)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        a: Array,
        b: Array,
        residual: Array,
        rcond: float | None = None,
    ) -> Any:
        p = residual
        columns, x = as_columns(F, ct, b), as_columns(F, y, b)
        back = F.matmul(adjoint(F, p), columns)

        def of_a() -> Array:
            rest = F.subtract(as_columns(F, b, b), F.matmul(a, x))
            outside = F.subtract(columns, F.matmul(p, F.matmul(a, columns)))
            return plus(
                F,
                F.negative(F.matmul(back, adjoint(F, x))),
                F.matmul(rest, adjoint(F, F.matmul(p, back))),
                F.matmul(F.matmul(adjoint(F, p), x), adjoint(F, outside)),
            )

        return (of_a, lambda: as_given(F, back, b))

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        a, b, x = operands[0].nbytes, operands[1].nbytes, results[0].nbytes
        return Need(value=4 * a + x, kept=a, gradient=4 * a + 2 * (b + x), hvp=16 * a + 4 * (b + x))
