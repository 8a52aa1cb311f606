"""Rules of activation functions."""

from __future__ import annotations

import math
from typing import Any, Final

from backhaul_server.engine.rules import Array, Namespace, Pointwise, Rule, rule

_ROOT_HALF: Final = math.sqrt(0.5)
_NORMAL_PEAK: Final = 1 / math.sqrt(2 * math.pi)


@rule("sigmoid")
class Sigmoid(Pointwise):
    """y = s(x) = 1 / (1 + e**-x), y' = s(x) s(-x), which keeps its digits where y is near 1."""

    function = "sigmoid"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.multiply(y, F.sigmoid(F.negative(x)))


@rule("log_sigmoid")
class LogSigmoid(Pointwise):
    """y = log s(x), y' = s(-x)."""

    function = "log_sigmoid"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.sigmoid(F.negative(x))


@rule("softplus")
class Softplus(Pointwise):
    """y = log(1 + e**x), y' = s(x)."""

    def forward(self, xp: Any, x: Array) -> Array:
        return xp.logaddexp(x, 0.0)

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.sigmoid(x)


@rule("relu")
class Relu(Rule):
    """y = max(x, 0); the derivative at 0 is 0."""

    def forward(self, xp: Any, x: Array) -> Array:
        return xp.maximum(x, 0)

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array) -> Array:
        return F.where(F.less_equal(x, 0), 0.0, dx)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.where(F.less_equal(x, 0), 0.0, ct),)


@rule("gelu")
class Gelu(Pointwise):
    """y = x P(x), y' = P(x) + x p(x), with the normal distribution P and its density p."""

    def forward(self, xp: Any, x: Array) -> Array:
        return _above_minus_infinity(xp, x) * (xp.erfc(x * -_ROOT_HALF) * 0.5)

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        x = _finite(F, x)
        distribution = F.multiply(F.erfc(F.multiply(x, -_ROOT_HALF)), 0.5)
        density = F.multiply(F.exp(F.multiply(F.square(x), -0.5)), _NORMAL_PEAK)
        return F.add(distribution, F.multiply(x, density))


@rule("silu")
class Silu(Pointwise):
    """y = x s(x), y' = s(x) (1 + x s(-x)).  Elfwing et al. (2018), Sigmoid-weighted linear units, eq. 5."""

    def forward(self, xp: Any, x: Array) -> Array:
        return _above_minus_infinity(xp, x) * xp.sigmoid(x)

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        x = _finite(F, x)
        inner = F.multiply(x, F.sigmoid(F.negative(x)))
        return F.multiply(F.sigmoid(x), F.add(inner, 1.0))


def _above_minus_infinity(xp: Any, x: Array) -> Array:
    """X with the least finite number for -inf, whose product with 0 is NaN."""
    return xp.maximum(x, float(xp.finfo(x.dtype).min))


def _finite(F: Namespace, x: Array) -> Array:
    """X within numbers whose squares are finite: beyond, the derivative is its limit."""
    greatest = math.sqrt(float(F.xp.finfo(x.dtype).max)) / 2
    least, most = (F.xp.asarray(each, dtype=x.dtype) for each in (-greatest, greatest))
    return F.clip(x, least, most)
