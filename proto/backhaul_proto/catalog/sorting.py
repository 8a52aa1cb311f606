"""Ops that put elements into order along an axis."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.pointwise import REAL, drawn_from
from backhaul_proto.catalog.reducing import ALONG_AXIS, LAST_AXIS, along_axis, count


def _positions(avals: tuple[Aval, ...], axis: int = -1) -> Aval:
    return aval(along_axis(avals, axis).shape, count(avals[0].dtype))


def _permuted(avals: tuple[Aval, ...], axis: int, inverse: bool = False) -> Aval:
    return avals[0]


register(
    Op(
        "sort",
        ("x",),
        along_axis,
        "The elements in ascending order along an axis, NaN last.\n\n"
        "Each takes its derivative along; equals, in the order in which they stand.",
        attributes=(LAST_AXIS,),
        kinds=REAL,
        samples=drawn_from(ALONG_AXIS, "distinct"),
    )
)
register(
    Op(
        "argsort",
        ("x",),
        _positions,
        "Where the elements stand that `sort` gives along an axis, as int64; equals in their order.",
        attributes=(LAST_AXIS,),
        kinds=REAL,
        samples=drawn_from(ALONG_AXIS, "distinct"),
        differentiable=False,
    )
)
register(
    Op(
        "permute_along_axis",
        ("x", "order"),
        _permuted,
        "y[i] = x[order[i]] along an axis, for a permutation at each place of the other axes; as the inverse "
        "y[order[i]] = x[i].",
        attributes=(
            Attribute("axis", "int", required=True),
            Attribute("inverse", "bool", False),
        ),
        private=True,
        samples=tuple(
            Sample(
                ((2, 3), (2, 3)),
                {"axis": 1, "inverse": inverse},
                constants={1: [[2, 0, 1], [0, 2, 1]]},
            )
            for inverse in (False, True)
        ),
    )
)
