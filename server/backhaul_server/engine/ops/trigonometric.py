"""Rules of trigonometric and hyperbolic functions of each element, and their inverses.

Derivatives with roots are written as products of roots, which have the inverses' own branch cuts:
Kahan (1987), Branch cuts for complex elementary functions.
"""

from __future__ import annotations

import math
from typing import Any, Final

from backhaul_server.engine.rules import Array, Linear, Namespace, Pointwise, Rule, plus, rule


@rule("sin")
class Sin(Pointwise):
    """y = sin x, y' = cos x."""

    function = "sin"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.cos(x)


@rule("cos")
class Cos(Pointwise):
    """y = cos x, y' = -sin x."""

    function = "cos"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.negative(F.sin(x))


@rule("tan")
class Tan(Pointwise):
    """y = tan x, y' = 1 + y**2."""

    function = "tan"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.add(F.square(y), 1.0)


@rule("asin")
class Asin(Pointwise):
    """y = asin x, y' = 1 / sqrt((1 - x) (1 + x))."""

    function = "asin"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.rsqrt(_one_minus_square(F, x))


@rule("acos")
class Acos(Pointwise):
    """y = acos x, y' = -1 / sqrt((1 - x) (1 + x))."""

    function = "acos"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.negative(F.rsqrt(_one_minus_square(F, x)))


@rule("atan")
class Atan(Pointwise):
    """y = atan x, y' = 1 / (1 + x**2)."""

    function = "atan"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.reciprocal(F.add(F.square(x), 1.0))


@rule("atan2")
class Atan2(Rule):
    """y is the angle of (b, a), so dy = (b da - a db) / r**2 with r**2 = a**2 + b**2, and 0 where r is."""

    function = "atan2"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(
            F,
            None if da is None else F.multiply(_inverted(F, b, a), da),
            None if db is None else F.negative(F.multiply(_inverted(F, a, b), db)),
        )

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (
            lambda: F.multiply(ct, _inverted(F, b, a)),
            lambda: F.negative(F.multiply(ct, _inverted(F, a, b))),
        )


def _inverted(F: Namespace, a: Array, b: Array) -> Array:
    """The quotient a / (a**2 + b**2), without squares, which overflow; constant 0 at the origin."""
    length = F.hypot(a, b)
    origin = F.equal(length, 0)
    length = F.where(origin, 1.0, length)
    return F.where(origin, 0.0, F.divide(F.divide(a, length), length))


@rule("sinh")
class Sinh(Pointwise):
    """y = sinh x, y' = cosh x."""

    function = "sinh"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.cosh(x)


@rule("cosh")
class Cosh(Pointwise):
    """y = cosh x, y' = sinh x."""

    function = "cosh"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.sinh(x)


@rule("tanh")
class Tanh(Pointwise):
    """y = tanh x, y' = 1 - y**2."""

    function = "tanh"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return _one_minus_square(F, y)


@rule("asinh")
class Asinh(Pointwise):
    """y = asinh x, y' = 1 / sqrt(1 + x**2)."""

    function = "asinh"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        if F.xp.is_complex(x.dtype):
            return F.rsqrt(F.add(F.square(x), 1.0))
        return F.reciprocal(F.hypot(x, 1.0))  # whose square may overflow


@rule("acosh")
class Acosh(Pointwise):
    """y = acosh x, y' = 1 / (sqrt(x - 1) sqrt(x + 1))."""

    function = "acosh"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.multiply(F.rsqrt(F.subtract(x, 1.0)), F.rsqrt(F.add(x, 1.0)))


@rule("atanh")
class Atanh(Pointwise):
    """y = atanh x, y' = 1 / ((1 - x) (1 + x))."""

    function = "atanh"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.reciprocal(_one_minus_square(F, x))


def _one_minus_square(F: Namespace, x: Array) -> Array:
    """1 - x**2, with its digits where x is near 1 or -1."""
    return F.multiply(F.subtract(1.0, x), F.add(x, 1.0))


@rule("deg2rad")
class Deg2Rad(Linear):
    """y = x pi / 180."""

    function = "deg2rad"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.deg2rad(ct),)


@rule("rad2deg")
class Rad2Deg(Linear):
    """y = 180 x / pi."""

    function = "rad2deg"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.rad2deg(ct),)


_NEAR: Final = 0.25
"""Up to which |x| the derivative of sinc is summed as a series: beyond, little cancels in its formula."""

_SINC_SLOPE: Final = tuple(
    (-1) ** k * 2 * k * math.pi ** (2 * k) / math.factorial(2 * k + 1) for k in range(1, 10)
)
"""Of x, x**3, x**5, ... in the derivative of sin(pi x) / (pi x); what follows is below 1e-19 at 0.25."""


@rule("sinc")
class Sinc(Pointwise):
    """y = sin(pi x) / (pi x), y' = (cos(pi x) - y) / x; near 0, its Taylor series."""

    function = "sinc"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        near = F.less(F.abs(x), _NEAR)
        inner, outer = F.where(near, x, 0.0), F.where(near, 1.0, x)
        square = F.square(inner)
        series = F.multiply(square, _SINC_SLOPE[-1])
        for coefficient in _SINC_SLOPE[-2:0:-1]:
            series = F.multiply(F.add(series, coefficient), square)
        series = F.multiply(F.add(series, _SINC_SLOPE[0]), inner)
        direct = F.divide(F.subtract(F.cos(F.multiply(outer, math.pi)), y), outer)
        return F.where(near, series, direct)
