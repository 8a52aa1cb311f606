"""Ops that choose among their operands, element by element."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Op, Sample, register
from backhaul_proto.catalog.pointwise import REAL, binary
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes, broadcasting

_CONDITION = [[True, False, True], [False, True, True]]


def _where(avals: tuple[Aval, ...]) -> Aval:
    return aval(broadcast_shapes([each.shape for each in avals]), promote(*avals[1:]))


register(
    Op(
        "where",
        ("condition", "x1", "x2"),
        _where,
        "x1 where the condition is true (not 0), else x2, element by element, with broadcasting.\n\n"
        "No gradient flows to the condition, nor to what was not chosen, whatever stands there.",
        promotes=(1, 2),
        samples=(
            Sample(((2, 3), (2, 3), (2, 3)), constants={0: _CONDITION}),
            Sample(((2, 3), (3,), ()), constants={0: _CONDITION}),
            Sample(((), (2,), (2, 1)), constants={0: False}),
            Sample(((), (), ()), constants={0: True}),
            Sample(((1, 2), (0, 2), (1, 2)), constants={0: [[True, False]]}),
        ),
    )
)
register(
    Op(
        "clip",
        ("x", "lower", "upper"),
        broadcasting,
        "x brought within bounds: the lower bound where x is below it, the upper where it is above.\n\n"
        "The bounds belong to the interval: at them the derivative with respect to x is 1. Beyond one, the "
        "derivative with respect to that bound is 1. Where the lower is above the upper, the upper is taken.",
        promotes=True,
        kinds=REAL,
        samples=(
            Sample(((2, 3), (), ()), domain="distinct", constants={1: -1, 2: 1}),
            Sample(((2, 3), (3,), (2, 1)), domain=("distinct", "unit", "above_one")),
            Sample(((), (), ()), domain=("any", "unit", "above_one")),
            Sample(((0, 3), (3,), ())),
        ),
    )
)
binary(
    "maximum",
    "The greater of x1 and x2, element by element; NaN where one is NaN.\n\n"
    "Equals share the derivative evenly.",
    kinds=REAL,
)
binary(
    "minimum",
    "The lesser of x1 and x2, element by element; NaN where one is NaN.\n\n"
    "Equals share the derivative evenly.",
    kinds=REAL,
)
binary(
    "fmax",
    "As `maximum`, but a NaN gives way to a number.",
    kinds=REAL,
)
binary(
    "fmin",
    "As `minimum`, but a NaN gives way to a number.",
    kinds=REAL,
)
