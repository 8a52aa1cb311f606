"""Sums of exponentials along axes, and the shares in them."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.pointwise import REAL_NUMBERS, floats
from backhaul_proto.catalog.reducing import (
    ALONG_AXIS,
    NOT_EMPTY,
    Axes,
    along_axis,
    reducing,
    reduction,
)
from backhaul_proto.catalog.shapes import canonical_axes, floating

_AXES = Attribute(
    "axis",
    "axes",
    keyword_only=False,
    doc="Axis or axes over which the exponentials are summed; all of them when left out.",
)
_AXIS = Attribute("axis", "int", -1, keyword_only=False, doc="The axis to sum along.")
_SHARES = (
    Sample(((2, 3),)),
    Sample(((2, 3),), {"axis": -1}),
    Sample(((2, 3, 2),), {"axis": (0, 1)}),
    Sample(((),)),
    Sample(((2, 0),), {"axis": 1}),
)


def _shares(avals: tuple[Aval, ...], axis: Axes = None) -> Aval:
    canonical_axes(axis, avals[0].ndim)
    return floats(avals)


def _cumulative(avals: tuple[Aval, ...], axis: int = -1) -> Aval:
    along_axis(avals, axis)
    return floats(avals)


reduction(
    "logsumexp",
    "log(sum(exp(x))) over axes, without overflow; -inf for no elements.\n\n"
    "Elements that are -inf add nothing. Where the result is infinite, its derivatives are 0. Of complex x "
    "it is the principal logarithm.",
    infer=reducing(floating),
    floating=True,
    samples=NOT_EMPTY,
)
for _name, _doc in (
    (
        "softmax",
        "exp(x) / sum(exp(x)) over axes, without overflow: shares that add up to 1.\n\n"
        "NaN where all elements are -inf, or one is inf: there are no shares then.",
    ),
    (
        "log_softmax",
        "x - logsumexp(x) over axes: the logarithm of `softmax`, accurate for small shares.\n\n"
        "NaN where all elements are -inf, or one is inf: there are no shares then.",
    ),
):
    register(
        Op(
            _name,
            ("x",),
            _shares,
            _doc,
            attributes=(_AXES,),
            floating=True,
            samples=_SHARES,
        )
    )
register(
    Op(
        "cumulative_logsumexp",
        ("x",),
        _cumulative,
        "log(cumulative_sum(exp(x))) along an axis, without overflow: NumPy's logaddexp.accumulate.\n\n"
        "Where the result is infinite, its derivatives are 0.",
        attributes=(_AXIS,),
        floating=True,
        kinds=REAL_NUMBERS,
        samples=ALONG_AXIS,
    )
)
