"""Rules of arithmetic on each element.

Broadcasting needs no thought here: the passes bring tangents and cotangents to their arrays' shapes.
"""

from __future__ import annotations

from typing import Any

from backhaul_proto.errors import make_error
from backhaul_server.engine.rules import (
    Array,
    Bilinear,
    Linear,
    Namespace,
    Pointwise,
    Rule,
    plus,
    rule,
)


@rule("add")
class Add(Rule):
    """y = a + b."""

    function = "add"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(F, da, db)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: ct, lambda: ct)


@rule("subtract")
class Subtract(Rule):
    """y = a - b."""

    function = "subtract"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(F, da, None if db is None else F.negative(db))

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: ct, lambda: F.negative(ct))


@rule("multiply")
class Multiply(Bilinear):
    """y = a b."""

    function = "multiply"

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: F.multiply(ct, F.conj(b)), lambda: F.multiply(ct, F.conj(a)))


@rule("divide")
class Divide(Rule):
    """y = a / b, so dy = (da - y db) / b."""

    function = "divide"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        moved = None if db is None else F.negative(F.multiply(y, db))
        return F.divide(plus(F, da, moved), b)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        def of_a() -> Array:
            return F.divide(ct, F.conj(b))

        return (of_a, lambda: F.negative(F.multiply(of_a(), F.conj(y))))


@rule("pow")
class Pow(Rule):
    """y = a**p, so dy = p a**(p - 1) da + y log(a) dp."""

    def forward(self, xp: Any, a: Array, p: Array) -> Array:
        try:
            return xp.pow(a, p)
        except ValueError:
            raise make_error(
                "INVALID_VALUE",
                f"pow: integers ({a.dtype}) have no negative integer powers; convert the base to "
                "float64 with astype().",
                op="pow",
            ) from None

    def jvp(self, F: Namespace, y: Array, a: Array, p: Array, da: Array, dp: Array) -> Array:
        return plus(
            F,
            None if da is None else F.multiply(_by_base(F, a, p), da),
            None if dp is None else F.multiply(_by_exponent(F, y, a, p), dp),
        )

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, p: Array) -> Any:
        return (
            lambda: F.multiply(ct, F.conj(_by_base(F, a, p))),
            lambda: F.multiply(ct, F.conj(_by_exponent(F, y, a, p))),
        )


def _by_base(F: Namespace, a: Array, p: Array) -> Array:
    """The slope p a**(p - 1); constant 0 for a**0 at a = 0, where 0 a**-1 is no number."""
    tiny = F.xp.finfo(a.dtype).smallest_normal  # below it too, 1 / a may be infinite
    constant = F.logical_and(F.equal(p, 0), F.less(F.abs(a), tiny))
    power = F.pow(F.where(constant, 1.0, a), F.subtract(p, 1.0))
    return F.multiply(F.where(constant, 0.0, p), power)


def _by_exponent(F: Namespace, y: Array, a: Array, p: Array) -> Array:
    """The slope y log a; 0 where y is 0, as in the limit from a > 0, and at 0**0."""
    origin = F.logical_and(F.equal(a, 0), F.equal(p, 0))
    flat = F.logical_or(F.equal(y, 0), origin)
    return F.multiply(y, F.log(F.where(flat, 1.0, a)))


@rule("negative")
class Negative(Linear):
    """y = -x."""

    function = "negative"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.negative(ct),)


@rule("positive")
class Positive(Linear):
    """y = +x."""

    function = "positive"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: ct,)


@rule("abs")
class Abs(Rule):
    """y = |x|, so dy = Re(conj(s) dx) with s = x / |x|, its sign, which is 0 at 0."""

    function = "abs"

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array) -> Array:
        return F.real(F.multiply(F.conj(F.sign(x)), dx))

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.multiply(ct, F.sign(x)),)


@rule("square")
class Square(Pointwise):
    """y = x**2, y' = 2 x."""

    function = "square"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.multiply(x, 2.0)


@rule("sqrt")
class Sqrt(Pointwise):
    """y = sqrt x, y' = 1 / (2 y): infinite at 0."""

    function = "sqrt"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.divide(0.5, y)


@rule("rsqrt")
class Rsqrt(Pointwise):
    """y = 1 / sqrt x, y' = -y / (2 x)."""

    def forward(self, xp: Any, x: Array) -> Array:
        return xp.reciprocal(xp.sqrt(x))

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.divide(F.multiply(y, -0.5), x)


@rule("cbrt")
class Cbrt(Pointwise):
    """y = x**(1/3), y' = 1 / (3 y**2): infinite at 0."""

    function = "cbrt"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.divide(1 / 3, F.square(y))


@rule("reciprocal")
class Reciprocal(Pointwise):
    """y = 1 / x, y' = -y**2."""

    function = "reciprocal"

    def derivative(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.negative(F.square(y))


@rule("hypot")
class Hypot(Rule):
    """y = sqrt(a**2 + b**2), so dy = (a da + b db) / y, and 0 where y is."""

    function = "hypot"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(
            F,
            None if da is None else F.multiply(_cosine(F, y, a), da),
            None if db is None else F.multiply(_cosine(F, y, b), db),
        )

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (
            lambda: F.multiply(ct, _cosine(F, y, a)),
            lambda: F.multiply(ct, _cosine(F, y, b)),
        )


def _cosine(F: Namespace, y: Array, a: Array) -> Array:
    """The quotient a / y; constant 0 where y is 0."""
    zero = F.equal(y, 0)
    return F.where(zero, 0.0, F.divide(a, F.where(zero, 1.0, y)))
