"""Rules of exponentials and logarithms of each element."""

from __future__ import annotations

import math
from typing import Any, ClassVar

from backhaul_server.engine.rules import Array, Namespace, Pointwise, Rule, plus, rule


@rule("exp")
class Exp(Pointwise):
    """y = e**x, y' = y."""

    function = "exp"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return y


@rule("exp2")
class Exp2(Pointwise):
    """y = 2**x, y' = y log 2."""

    function = "exp2"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.multiply(y, math.log(2))


@rule("expm1")
class Expm1(Pointwise):
    """y = e**x - 1, y' = e**x, which y + 1 would give without its digits where y is near -1."""

    function = "expm1"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.exp(x)


@rule("log")
class Log(Pointwise):
    """y = log x, y' = 1 / x."""

    function = "log"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.reciprocal(x)


@rule("log1p")
class Log1p(Pointwise):
    """y = log(1 + x), y' = 1 / (1 + x)."""

    function = "log1p"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.reciprocal(F.add(x, 1.0))


@rule("log2")
class Log2(Pointwise):
    """y = log2 x, y' = 1 / (x log 2)."""

    function = "log2"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.divide(1 / math.log(2), x)


@rule("log10")
class Log10(Pointwise):
    """y = log10 x, y' = 1 / (x log 10)."""

    function = "log10"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.divide(1 / math.log(10), x)


@rule("logaddexp")
class LogAddExp(Rule):
    """y = log(e**a + e**b), so dy = s(a - b) da + s(b - a) db with the logistic function s."""

    function = "logaddexp"
    scale: ClassVar[float] = 1.0
    """The logarithm of the base."""

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(
            F,
            None if da is None else F.multiply(self._share(F, a, b), da),
            None if db is None else F.multiply(self._share(F, b, a), db),
        )

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (
            lambda: F.multiply(ct, self._share(F, a, b)),
            lambda: F.multiply(ct, self._share(F, b, a)),
        )

    def _share(self, F: Namespace, a: Array, b: Array) -> Array:
        """s(a - b), and a half for equal infinities, which have no difference."""
        equal = F.logical_and(F.equal(a, b), F.isinf(a))
        gap = F.subtract(F.where(equal, 0.0, a), F.where(equal, 0.0, b))
        return F.sigmoid(F.multiply(gap, self.scale))


@rule("logaddexp2")
class LogAddExp2(LogAddExp):
    """y = log2(2**a + 2**b): the same with base 2."""

    function = "logaddexp2"
    scale = math.log(2)
