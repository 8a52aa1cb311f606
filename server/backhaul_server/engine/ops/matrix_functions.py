"""Rules of functions of matrices, whose derivatives are the same function of larger matrices.

Higham (2008), Functions of Matrices, theorem 3.6: f of the block matrix [[a, e], [0, a]] has f(a) on
its diagonal, and above it the derivative L(a, e) of f at a along e. For f with real coefficients the
adjoint of L(a, .) is L(a^H, .).
"""

from __future__ import annotations

from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import make_error
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops.linalg import adjoint
from backhaul_server.engine.ops.refusals import LinAlgError, check_finite, singular
from backhaul_server.engine.rules import RULES, Array, Namespace, Rule, rule, zeros_like


class MatrixFunction(Rule):
    """Base of functions of square matrices."""

    def jvp(self, F: Namespace, y: Array, a: Array, da: Array, **keywords: Any) -> Array:
        return F.frechet_derivative(a, da, of=self.name, **keywords)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, **keywords: Any) -> Any:
        return (lambda: F.frechet_derivative(adjoint(F, a), ct, of=self.name, **keywords),)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        a = operands[0].nbytes
        return Need(value=8 * a, kept=0, gradient=4 * 9 * a, hvp=16 * 9 * a)


@rule("linalg.expm")
class Expm(MatrixFunction):
    """y = exp(a)."""

    def forward(self, xp: Any, a: Array) -> Array:
        y = xp.expm(a)
        if xp.any(xp.isnan(y)) and xp.all(xp.isfinite(a)):
            raise make_error(
                "INVALID_VALUE",
                f"linalg.expm: the exponential of a matrix of shape {a.shape} overflows on the way, its "
                f"elements being as large as {float(xp.max(xp.abs(a))):.3g}. Scale it down.",
                op=self.name,
                operand=0,
            )
        return y


@rule("linalg.matrix_power")
class MatrixPower(MatrixFunction):
    """y = a^n."""

    def forward(self, xp: Any, a: Array, n: int) -> Array:
        try:
            y = xp.linalg.matrix_power(a, n)
        except LinAlgError:
            raise singular(xp, self.name, a) from None
        return y if n >= 0 else check_finite(xp, self.name, y, a)


@rule("frechet_derivative")
class FrechetDerivative(Rule):
    """L(a, e) of the function whose op is ``of``; its own derivative is found in the same way."""

    def forward(self, xp: Any, a: Array, e: Array, of: str, **keywords: Any) -> Array:
        scale = _scale(xp, a, e)
        y = RULES[of].forward(xp, _block(xp, a, e * scale), **keywords)
        return _corner(y) / scale

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        e: Array,
        da: Array,
        de: Array,
        of: str,
        **keywords: Any,
    ) -> Array:
        if da is None:
            return F.frechet_derivative(a, de, of=of, **keywords)
        xp = F.xp
        scale = _scale(xp, a, e)
        moved = zeros_like(F, e) if de is None else de * scale
        blocks = _block(xp, a, e * scale), _block(xp, da, moved)
        return _corner(F.frechet_derivative(*blocks, of=of, **keywords)) / scale


def _block(xp: Any, a: Array, e: Array) -> Array:
    above = xp.concat([a, e], axis=-1)
    below = xp.concat([xp.zeros_like(a), a], axis=-1)
    return xp.concat([above, below], axis=-2)


def _corner(y: Array) -> Array:
    n = y.shape[-1] // 2
    return y[..., :n, n:]


def _scale(xp: Any, a: Array, e: Array) -> Array:
    """What keeps e from being larger than a, or than 1: L is linear in it, and rounding is not."""
    if a.size == 0:
        return xp.ones((), dtype=e.dtype)
    of_a = xp.max(xp.abs(a), axis=(-2, -1), keepdims=True)
    of_e = xp.max(xp.abs(e), axis=(-2, -1), keepdims=True)
    one = xp.ones((), dtype=of_e.dtype)
    bound = xp.maximum(of_a, one)
    large = of_e > bound
    return xp.astype(xp.where(large, bound / xp.where(large, of_e, one), one), e.dtype)
