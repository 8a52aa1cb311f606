"""Ops that reduce over axes."""

from __future__ import annotations

import numpy as np

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.shapes import canonical_axes, reduced_shape

_REDUCTION = (
    Attribute(
        "axis",
        "axes",
        keyword_only=False,
        doc="Axis or axes to reduce over; all of them when left out.",
    ),
    Attribute("keepdims", "bool", False, doc="Whether reduced axes stay, with size 1."),
)


def _sum(
    avals: tuple[Aval, ...], axis: int | tuple[int, ...] | None = None, keepdims: bool = False
) -> Aval:
    x = avals[0]
    shape = reduced_shape(x.shape, canonical_axes(axis, x.ndim), keepdims)
    if x.inexact:
        return aval(shape, x.dtype)
    return aval(shape, np.dtype("uint64" if x.dtype.kind == "u" else "int64"))


register(
    Op(
        "sum",
        ("x",),
        _sum,
        "The sum over axes. Bool and integer arrays sum to 64-bit integers.",
        attributes=_REDUCTION,
        samples=(
            Sample(((2, 3),)),
            Sample(((2, 3),), {"axis": 1}),
            Sample(((2, 3, 4),), {"axis": (0, -1)}),
            Sample(((2, 3),), {"axis": 0, "keepdims": True}),
            Sample(((),)),
            Sample(((0, 2),)),
        ),
    )
)
