"""Rules of ops that are constant between jumps, and of remainders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.rules import (
    RULES,
    Array,
    Cotangents,
    Namespace,
    Rule,
    Steps,
    plus,
    rule,
)


class _Rounding(Steps):
    """Base of roundings, which leave integers as they are (NumPy before 2.1 made them floats)."""

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        return (self if avals[0].inexact else RULES["positive"]), {}


@rule("floor")
class Floor(_Rounding):
    """y is the greatest whole number with y <= x."""

    function = "floor"


@rule("ceil")
class Ceil(_Rounding):
    """y is the least whole number with y >= x."""

    function = "ceil"


@rule("trunc")
class Trunc(_Rounding):
    """y is x without its fraction."""

    function = "trunc"


@rule("round")
class Round(Steps):
    """y is the number with so many decimals that is nearest to x."""

    function = "round"


@rule("sign")
class Sign(Rule):
    """y = x / |x|, and 0 at 0: steps for real x; for complex, dy = (dx - y Re(conj(y) dx)) / |x|."""

    function = "sign"

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array) -> Array:
        return _across(F, y, x, dx) if F.xp.is_complex(x.dtype) else None

    def cotangents(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        operands: Sequence[Array],
        needs: Sequence[bool],
        **keywords: Any,
    ) -> Cotangents:
        (x,) = operands
        if not F.xp.is_complex(x.dtype):
            return [F.xp.zeros(x.shape, dtype=x.dtype)]
        return [_across(F, y, x, ct)]  # it is its own adjoint


def _across(F: Namespace, y: Array, x: Array, dx: Array) -> Array:
    """The part of dx across the direction y of x, divided by |x|; 0 at 0."""
    zero = F.equal(x, 0)
    size = F.abs(F.where(zero, 1.0, x))
    along = F.multiply(y, F.real(F.multiply(F.conj(y), dx)))
    return F.where(zero, 0.0, F.divide(F.subtract(dx, along), size))


@rule("floor_divide")
class FloorDivide(Steps):
    """y is the greatest whole number with y <= a / b."""

    function = "floor_divide"


@rule("remainder")
class Remainder(Rule):
    """y = a - b floor(a / b), so dy = da - floor(a / b) db between the jumps."""

    function = "remainder"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        moved = None if db is None else F.negative(F.multiply(F.floor_divide(a, b), db))
        return plus(F, da, moved)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: ct, lambda: F.negative(F.multiply(ct, F.floor_divide(a, b))))
