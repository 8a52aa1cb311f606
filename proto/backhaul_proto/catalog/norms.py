"""Norms of vectors."""

from __future__ import annotations

import math

from backhaul_proto.catalog.avals import Aval, aval, real_dtype
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.reducing import (
    AXES,
    KEEPDIMS,
    REDUCTIONS,
    Axes,
    check_not_empty,
    reduced,
)
from backhaul_proto.catalog.shapes import floating
from backhaul_proto.errors import make_error


def _vector_norm(
    avals: tuple[Aval, ...], axis: Axes = None, keepdims: bool = False, ord: float = 2.0
) -> Aval:
    (x,) = avals
    if math.isnan(ord):
        raise make_error(
            "INVALID_ATTRIBUTE", "ord is NaN; it is a number or infinite.", attribute="ord"
        )
    result = aval(reduced(x.shape, axis, keepdims), real_dtype(floating(x.dtype)))
    if ord < 0:
        check_not_empty(x.shape, axis, result)
    return result


register(
    Op(
        "linalg.vector_norm",
        ("x",),
        _vector_norm,
        "The length of vectors over axes, sum(abs(x)**ord)**(1/ord), a real number.\n\n"
        "The greatest absolute value for inf, the least for -inf, the number of elements that are not 0 for "
        "0. First and second derivatives with respect to elements that are 0 are 0 (but for ord 2, whose "
        "second is 1 / norm), and so are all of them where the norm is 0; equals share those of inf and "
        "-inf evenly.",
        attributes=(
            AXES,
            KEEPDIMS,
            Attribute("ord", "float", 2.0, doc="The order: any number, inf and -inf included."),
        ),
        floating=True,
        samples=(
            *REDUCTIONS,
            *(
                Sample(((2, 3),), {"axis": 1, "ord": order}, "nonzero")
                for order in (1, 3, 1.5, 0.5, -2, 0)
            ),
            Sample(((2, 3),), {"axis": 1, "ord": math.inf}, "distinct"),
            Sample(((2, 3),), {"axis": 1, "ord": -math.inf}, "distinct"),
        ),
    )
)
