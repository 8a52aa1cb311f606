"""Whole numbers near each element, remainders, signs: what is constant between its jumps."""

from __future__ import annotations

from typing import Final

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.pointwise import (
    NUMBERS,
    REAL,
    REAL_NUMBERS,
    as_is,
    binary,
    drawn_from,
    numeric,
    unary,
)
from backhaul_proto.errors import make_error

_PIECEWISE = "\n\nThe derivative is 0, at the jumps too."


_MOST_DECIMALS: Final = 400
"""No double has more, before the point or behind it; NumPy would count up to any number."""


def _round(avals: tuple[Aval, ...], decimals: int) -> Aval:
    if abs(decimals) > _MOST_DECIMALS:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"round: decimals={decimals} is beyond what a number has; give {-_MOST_DECIMALS} to "
            f"{_MOST_DECIMALS}.",
            attribute="decimals",
            expected=f"{-_MOST_DECIMALS}..{_MOST_DECIMALS}",
            actual=decimals,
        )
    return avals[0]


unary(
    "floor",
    "The greatest whole number that is not above each element." + _PIECEWISE,
    infer=as_is,
    kinds=REAL_NUMBERS,
    domain="distinct",
)
unary(
    "ceil",
    "The least whole number that is not below each element." + _PIECEWISE,
    infer=as_is,
    kinds=REAL_NUMBERS,
    domain="distinct",
)
unary(
    "trunc",
    "Each element without its fraction." + _PIECEWISE,
    infer=as_is,
    kinds=REAL_NUMBERS,
    domain="distinct",
)
register(
    Op(
        "round",
        ("x",),
        _round,
        "The nearest number with so many decimals, halves to the even one." + _PIECEWISE,
        attributes=(
            Attribute(
                "decimals",
                "int",
                0,
                keyword_only=False,
                doc="Decimals that stay; a negative number rounds to tens, hundreds, ...",
            ),
        ),
        kinds=NUMBERS,
        aliases=("around",),
        samples=(
            Sample(((2, 3),), domain="distinct"),
            Sample(((2,),), {"decimals": 2}, domain="distinct", kinds="f"),
            Sample(((),)),
            Sample(((0, 2),)),
        ),
    )
)
unary(
    "sign",
    "-1, 0 or 1 by the sign of each element; x / abs(x), and 0 at 0, for a complex one.\n\n"
    "The derivative is 0 for real elements, and at 0.",
    infer=as_is,
    kinds=NUMBERS,
    domain="nonzero",
)
binary(
    "floor_divide",
    "The greatest whole number that is not above x1 / x2." + _PIECEWISE,
    infer=numeric,
    kinds=REAL,
    samples=(Sample(((2, 3), (3,))), Sample(((), ())), Sample(((0, 3), (3,)))),
    domain=("distinct", "above_one"),
)
register(
    Op(
        "remainder",
        ("x1", "x2"),
        numeric,
        "x1 - x2 * floor(x1 / x2), element by element: it has the sign of x2.",
        promotes=True,
        kinds=REAL,
        aliases=("mod",),
        samples=drawn_from(
            (Sample(((2, 3), (3,))), Sample(((), ())), Sample(((0, 3), (3,)))),
            ("distinct", "above_one"),
        ),
    )
)
