"""Ops that run along an axis: cumulative sums and products, differences."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.pointwise import NUMBERS
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.reducing import ALONG_AXIS, LAST_AXIS, accumulated
from backhaul_proto.catalog.shapes import canonical_axis
from backhaul_proto.errors import make_error

_AXIS = Attribute("axis", "int", doc="The axis; it may be left out when there is but one.")
_REVERSE = Attribute(
    "reverse", "bool", False, doc="Whether to go from the last element to the first."
)
_SCANS = (
    Sample(((2, 3),), {"axis": -1}),
    Sample(((2, 3, 2),), {"axis": 1, "reverse": True}),
    Sample(((4,),)),
    Sample(((1,),)),
    Sample(((0, 2),), {"axis": 0}),
    Sample(((2, 0),), {"axis": 0}),
)


def _cumulative(avals: tuple[Aval, ...], axis: int | None = None, reverse: bool = False) -> Aval:
    (x,) = avals
    if axis is None and x.ndim != 1:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"An array of {x.ndim} dimension(s) has no one axis to accumulate along; give axis=.",
            attribute="axis",
            actual=None,
        )
    if axis is not None:
        canonical_axis(axis, x.ndim)
    return aval(x.shape, accumulated(x.dtype))


def _diff(avals: tuple[Aval, ...], n: int = 1, axis: int = -1) -> Aval:
    (x,) = avals
    at = canonical_axis(axis, x.ndim)
    if n < 0:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"n={n} differences cannot be taken; give 0 or more.",
            attribute="n",
            expected="0 or more",
            actual=n,
        )
    return aval((*x.shape[:at], max(x.shape[at] - n, 0), *x.shape[at + 1 :]), x.dtype)


def _recurrence(avals: tuple[Aval, ...], axis: int, reverse: bool = False) -> Aval:
    return aval(avals[0].shape, promote(*avals))


def _shift(avals: tuple[Aval, ...], axis: int, fill: float = 0.0, reverse: bool = False) -> Aval:
    return avals[0]


def _diff_adjoint(avals: tuple[Aval, ...], n: int, axis: int) -> Aval:
    (x,) = avals
    return aval((*x.shape[:axis], x.shape[axis] + n, *x.shape[axis + 1 :]), x.dtype)


register(
    Op(
        "cumulative_sum",
        ("x",),
        _cumulative,
        "The sums of the elements up to each, along an axis.\n\n"
        "Bool and integer arrays sum to 64-bit integers.",
        attributes=(_AXIS, _REVERSE),
        samples=_SCANS,
    )
)
register(
    Op(
        "cumulative_prod",
        ("x",),
        _cumulative,
        "The products of the elements up to each, along an axis.\n\n"
        "Bool and integer arrays multiply to 64-bit integers. Its derivatives are products of other "
        "elements: right where some are 0.",
        attributes=(_AXIS, _REVERSE),
        samples=_SCANS,
    )
)
register(
    Op(
        "diff",
        ("x",),
        _diff,
        "The differences x[i + 1] - x[i] along an axis, taken n times.",
        attributes=(
            Attribute("n", "int", 1, keyword_only=False, doc="How often differences are taken."),
            LAST_AXIS,
        ),
        kinds=NUMBERS,
        samples=(Sample(((2, 4),), {"n": 2}), *ALONG_AXIS, Sample(((2, 3),), {"n": 5, "axis": 0})),
    )
)
register(
    Op(
        "diff_adjoint",
        ("x",),
        _diff_adjoint,
        "The adjoint of diff.",
        attributes=(
            Attribute("n", "int", required=True),
            Attribute("axis", "int", required=True),
        ),
        private=True,
        samples=(Sample(((2, 3),), {"n": 2, "axis": 1}),),
    )
)
register(
    Op(
        "shift_along_axis",
        ("x",),
        _shift,
        "x moved by one along an axis: y[i] = x[i - 1], and the fill at the beginning; y[i] = x[i + 1] and "
        "the fill at the end when reversed.",
        attributes=(
            Attribute("axis", "int", required=True),
            Attribute("fill", "float", 0.0),
            _REVERSE,
        ),
        private=True,
        samples=(
            Sample(((2, 3),), {"axis": 1}),
            Sample(((2, 3),), {"axis": 0, "fill": 1.0, "reverse": True}),
        ),
    )
)
register(
    Op(
        "linear_recurrence",
        ("a", "b"),
        _recurrence,
        "The y with y[i] = a[i] y[i - 1] + b[i] along an axis, y[-1] = 0 before it; from the end with "
        "y[i + 1] when reversed.",
        attributes=(Attribute("axis", "int", required=True), _REVERSE),
        promotes=True,
        private=True,
        samples=(
            Sample(((2, 3), (2, 3)), {"axis": 1}),
            Sample(((2, 3), (2, 3)), {"axis": 0, "reverse": True}),
            Sample(((5,), (5,)), {"axis": 0}),
            Sample(((0, 2), (0, 2)), {"axis": 0}),
        ),
    )
)
