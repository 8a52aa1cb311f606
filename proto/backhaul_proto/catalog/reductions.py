"""Ops that reduce over axes: sums, products, the greatest and the least, truth."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attribute, Op, register
from backhaul_proto.catalog.pointwise import REAL, drawn_from
from backhaul_proto.catalog.reducing import (
    KEEPDIMS,
    NOT_EMPTY,
    accumulated,
    choosing,
    count,
    reducing,
    reduction,
    same,
    truth,
)

_CHOICES = tuple(each for each in NOT_EMPTY if not isinstance(each.attributes.get("axis"), tuple))
_POSITION = Attribute(
    "axis",
    "int",
    keyword_only=False,
    doc="The axis to search along; when left out, the elements in C order.",
)


def _position(avals: tuple[Aval, ...], axis: int | None = None, keepdims: bool = False) -> Aval:
    found = choosing(count)(avals, axis=axis, keepdims=keepdims)
    assert isinstance(found, Aval)
    return found


reduction(
    "sum",
    "The sum over axes. Bool and integer arrays sum to 64-bit integers.",
    infer=reducing(accumulated),
)
reduction(
    "prod",
    "The product over axes. Bool and integer arrays multiply to 64-bit integers.\n\n"
    "Its first and second derivatives are products of the other elements: right where some are 0.",
    infer=reducing(accumulated),
)
reduction(
    "max",
    "The greatest element over axes; NaN where one is NaN.\n\nEquals share the derivative evenly.",
    infer=choosing(same),
    kinds=REAL,
    samples=NOT_EMPTY,
    domain="distinct",
    aliases=("amax",),
)
reduction(
    "min",
    "The least element over axes; NaN where one is NaN.\n\nEquals share the derivative evenly.",
    infer=choosing(same),
    kinds=REAL,
    samples=NOT_EMPTY,
    domain="distinct",
    aliases=("amin",),
)
for _name, _doc, _result in (
    ("all", "Whether all elements over axes are true (not 0); true for none.", truth),
    ("any", "Whether some element over axes is true (not 0); false for none.", truth),
    ("count_nonzero", "How many elements over axes are not 0, as int64.", count),
):
    reduction(_name, _doc, infer=reducing(_result), differentiable=False)
for _name, _doc in (
    (
        "argmax",
        "Where the greatest element along an axis stands, as int64.\n\n"
        "Of equals it is the first; NaN counts as greater than any number.",
    ),
    (
        "argmin",
        "Where the least element along an axis stands, as int64.\n\n"
        "Of equals it is the first; NaN counts as less than any number.",
    ),
):
    register(
        Op(
            _name,
            ("x",),
            _position,
            _doc,
            attributes=(_POSITION, KEEPDIMS),
            kinds=REAL,
            samples=drawn_from(_CHOICES, "distinct"),
            differentiable=False,
        )
    )
