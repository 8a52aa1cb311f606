"""Ops that describe elements over axes: mean, variance, quantiles."""

from __future__ import annotations

import math

from backhaul_proto.catalog.avals import Aval, aval, real_dtype
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.pointwise import REAL, drawn_from
from backhaul_proto.catalog.reducing import (
    AXES,
    KEEPDIMS,
    NOT_EMPTY,
    Axes,
    check_not_empty,
    reduced,
    reducing,
    reduction,
    with_attributes,
)
from backhaul_proto.catalog.shapes import floating
from backhaul_proto.errors import make_error

_CORRECTION = Attribute(
    "correction",
    "float",
    0.0,
    doc="What the number of elements is lessened by, to divide by it.",
)
_SPREAD = (
    *(each for each in NOT_EMPTY if each.shapes != ((),)),
    Sample(((2, 3),), {"axis": 1, "correction": 1}),
)


def _spread(
    avals: tuple[Aval, ...], axis: Axes = None, correction: float = 0.0, keepdims: bool = False
) -> Aval:
    (x,) = avals
    if not math.isfinite(correction):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"correction={correction} is not finite; it is 0 for the spread of these elements, 1 to "
            "estimate that of what they were drawn from.",
            attribute="correction",
            actual=correction,
        )
    return aval(reduced(x.shape, axis, keepdims), real_dtype(floating(x.dtype)))


def _centred(avals: tuple[Aval, ...], axis: tuple[int, ...]) -> Aval:
    return avals[0]


def _median(avals: tuple[Aval, ...], axis: Axes = None, keepdims: bool = False) -> Aval:
    return _quantile(avals, 0.5, axis, keepdims)


def _quantile(avals: tuple[Aval, ...], q: float, axis: Axes = None, keepdims: bool = False) -> Aval:
    (x,) = avals
    if not 0 <= q <= 1:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"q={q} is not within 0 and 1. Percents are for percentile.",
            attribute="q",
            expected="0..1",
            actual=q,
        )
    result = aval(reduced(x.shape, axis, keepdims), floating(x.dtype))
    check_not_empty(x.shape, axis, result)
    return result


reduction(
    "mean",
    "The mean over axes; NaN for no elements. Integers and bools count as float64.",
    infer=reducing(floating),
    floating=True,
    samples=NOT_EMPTY,
)
register(
    Op(
        "centred",
        ("x",),
        _centred,
        "x less its mean over axes.",
        attributes=(Attribute("axis", "ints", required=True),),
        private=True,
        samples=(Sample(((2, 3),), {"axis": (1,)}), Sample(((2, 3, 2),), {"axis": (0, 2)})),
    )
)
reduction(
    "var",
    "The variance over axes: the mean of abs(x - mean(x))**2, a real number.\n\n"
    "It is exactly 0 where all elements are equal. The sum is divided by the number of elements "
    "less the correction; where that is not positive, the variance is NaN or infinite.",
    infer=_spread,
    floating=True,
    further=(_CORRECTION,),
    samples=_SPREAD,
)
reduction(
    "std",
    "The standard deviation over axes: the square root of `var`.\n\n"
    "Where all elements are equal, its derivatives are 0.",
    infer=_spread,
    floating=True,
    further=(_CORRECTION,),
    samples=_SPREAD,
)
reduction(
    "median",
    "The median over axes, of an even number the mean of the two in the middle; NaN where one is NaN.\n\n"
    "Elements equal to one in the middle share its derivative evenly.",
    infer=_median,
    floating=True,
    kinds=REAL,
    samples=NOT_EMPTY,
    domain="distinct",
)
register(
    Op(
        "quantile",
        ("x",),
        _quantile,
        "The value over axes that a share q of the elements lies below; NaN where one is NaN.\n\n"
        "Between two elements it is interpolated linearly. Elements equal to one of the two share its "
        "derivative evenly.",
        attributes=(
            Attribute(
                "q",
                "float",
                required=True,
                keyword_only=False,
                doc="The share, between 0 and 1: 0.5 gives the median.",
            ),
            AXES,
            KEEPDIMS,
        ),
        floating=True,
        kinds=REAL,
        samples=drawn_from(
            tuple(
                with_attributes(each, q=q)
                for each, q in zip(NOT_EMPTY, (0.3, 0.5, 0.9, 0.0, 0.7, 1.0), strict=True)
            ),
            "distinct",
        ),
    )
)
