"""Rules of special functions. Derivatives: DLMF, chapters 5 (gamma) and 7 (error functions)."""

from __future__ import annotations

import math
from typing import Any, Final

from backhaul_server.engine.rules import Array, Namespace, Pointwise, Rule, plus, rule

_TWO_OVER_ROOT_PI: Final = 2 / math.sqrt(math.pi)


@rule("erf")
class Erf(Pointwise):
    """y = erf x, y' = 2 / sqrt(pi) e**-x**2 (DLMF 7.2.1)."""

    function = "erf"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.multiply(F.exp(F.negative(F.square(x))), _TWO_OVER_ROOT_PI)


@rule("erfc")
class Erfc(Pointwise):
    """y = 1 - erf x."""

    function = "erfc"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.multiply(F.exp(F.negative(F.square(x))), -_TWO_OVER_ROOT_PI)


@rule("erfinv")
class Erfinv(Pointwise):
    """erf y = x, y' = sqrt(pi) / 2 e**y**2."""

    function = "erfinv"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.multiply(F.exp(F.square(y)), 1 / _TWO_OVER_ROOT_PI)


@rule("lgamma")
class LGamma(Pointwise):
    """y = log |gamma(x)|, y' = digamma(x) (DLMF 5.2.2)."""

    function = "lgamma"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.digamma(x)


@rule("digamma")
class Digamma(Pointwise):
    """y = digamma(x), y' = polygamma(1, x) (DLMF 5.15.1)."""

    function = "digamma"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.polygamma(x, order=1)


@rule("polygamma")
class Polygamma(Rule):
    """y is the derivative of digamma of an order, y' that of the next."""

    function = "polygamma"

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, order: int) -> Array:
        return F.multiply(dx, F.polygamma(x, order=order + 1))

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, order: int) -> Any:
        return (lambda: F.multiply(ct, F.polygamma(x, order=order + 1)),)


@rule("xlogy")
class XLogY(Rule):
    """y = a log b, so dy = log(b) da + a / b db; all is 0 where a is 0 and b not positive."""

    function = "xlogy"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(
            F,
            None if da is None else F.multiply(self._log(F, a, b), da),
            None if db is None else F.multiply(self._ratio(F, a, b), db),
        )

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (
            lambda: F.multiply(ct, self._log(F, a, b)),
            lambda: F.multiply(ct, self._ratio(F, a, b)),
        )

    def _log(self, F: Namespace, a: Array, b: Array) -> Array:
        nothing = _nothing(F, a, b)
        return F.where(nothing, 0.0, F.log(F.where(nothing, 1.0, b)))

    def _ratio(self, F: Namespace, a: Array, b: Array) -> Array:
        nothing = _nothing(F, a, b)
        return F.where(nothing, 0.0, F.divide(a, F.where(nothing, 1.0, b)))


def _nothing(F: Namespace, a: Array, b: Array) -> Array:
    return F.logical_and(F.equal(a, 0), F.less_equal(b, 0))


@rule("xlog1py")
class XLog1pY(XLogY):
    """y = a log(1 + b): the same at 1 + b, whose logarithm is taken from b."""

    function = "xlog1py"

    def _log(self, F: Namespace, a: Array, b: Array) -> Array:
        nothing = _nothing(F, a, F.add(b, 1.0))
        return F.where(nothing, 0.0, F.log1p(F.where(nothing, 0.0, b)))

    def _ratio(self, F: Namespace, a: Array, b: Array) -> Array:
        return super()._ratio(F, a, F.add(b, 1.0))
