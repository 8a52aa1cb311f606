"""Ops that join arrays, or take one apart."""

from __future__ import annotations

from typing import Final

from backhaul_proto.bounds import MAX_RESULTS, check_count
from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Ints, Op, Sample, register
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import canonical_axis
from backhaul_proto.errors import make_error

_MOST_EMPTY: Final = 1024
"""Parts of an axis of size 0: a few bytes of a request must not ask for millions of arrays."""


def _stack(avals: tuple[Aval, ...], axis: int) -> Aval:
    if not avals:
        raise make_error("OPERAND_COUNT", "stack needs at least one array.", expected=1, actual=0)
    shape = avals[0].shape
    for position, each in enumerate(avals):
        if each.shape != shape:
            raise make_error(
                "SHAPE_MISMATCH",
                f"stack needs equal shapes: operand {position} has {each.shape}, operand 0 has {shape}.",
                operand=position,
                expected=shape,
                actual=each.shape,
            )
    at = canonical_axis(axis, len(shape) + 1)
    return aval((*shape[:at], len(avals), *shape[at:]), promote(*avals))


def _unstack(avals: tuple[Aval, ...], axis: int) -> tuple[Aval, ...]:
    shape = avals[0].shape
    at = canonical_axis(axis, len(shape))
    if not shape[at]:
        raise make_error(
            "SHAPE_MISMATCH",
            f"unstack: axis {axis} of shape {shape} has size 0, so there is no array to give.",
            actual=shape,
        )
    check_count("results of a step", shape[at], MAX_RESULTS)
    return (aval(shape[:at] + shape[at + 1 :], avals[0].dtype),) * shape[at]


def _concat(avals: tuple[Aval, ...], axis: int) -> Aval:
    if not avals:
        raise make_error("OPERAND_COUNT", "concat needs at least one array.", expected=1, actual=0)
    first = avals[0].shape
    if not first:
        raise make_error(
            "SHAPE_MISMATCH",
            "concat joins along an axis, and operand 0 is 0-d. Join numbers with stack, or give axis=None.",
            operand=0,
        )
    at = canonical_axis(axis, len(first))
    for position, each in enumerate(avals):
        shape = each.shape
        if len(shape) != len(first) or (shape[:at], shape[at + 1 :]) != (
            first[:at],
            first[at + 1 :],
        ):
            raise make_error(
                "SHAPE_MISMATCH",
                f"concat along axis {axis} needs shapes that agree in all other axes: operand "
                f"{position} has {shape}, operand 0 has {first}.",
                operand=position,
                expected=first,
                actual=shape,
            )
    joined = sum(each.shape[at] for each in avals)
    return aval((*first[:at], joined, *first[at + 1 :]), promote(*avals))


def split_sizes(n: int, indices_or_sections: int | Ints) -> Ints:
    """The sizes of the parts of an axis of this size.

    Raises:
        InvalidArgument: SHAPE_MISMATCH for parts that are not equal, INVALID_ATTRIBUTE for points that
            decrease or for no part at all.
    """
    if isinstance(indices_or_sections, int):
        count = indices_or_sections
        if count < 1:
            raise make_error(
                "INVALID_ATTRIBUTE",
                f"split: {count} parts were asked for; there must be one at least.",
                attribute="indices_or_sections",
                actual=count,
            )
        if n % count or count > max(n, _MOST_EMPTY):
            raise make_error(
                "SHAPE_MISMATCH",
                f"split: an axis of size {n} is not divided equally into {count} parts. Give the points "
                "to split at, or take array_split.",
                expected=f"a divisor of {n}",
                actual=count,
            )
        check_count("results of a step", count, MAX_RESULTS)
        return (n // count,) * count
    check_count("results of a step", len(indices_or_sections) + 1, MAX_RESULTS)
    points = [slice(None, each).indices(n)[1] for each in indices_or_sections]
    if points != sorted(points):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"split: the points {indices_or_sections} decrease along an axis of size {n}, so that parts "
            "would overlap. Index for such parts.",
            attribute="indices_or_sections",
            actual=indices_or_sections,
        )
    return tuple(end - start for start, end in zip([0, *points], [*points, n], strict=True))


def _split(avals: tuple[Aval, ...], indices_or_sections: int | Ints, axis: int) -> tuple[Aval, ...]:
    (x,) = avals
    at = canonical_axis(axis, x.ndim)
    sizes = split_sizes(x.shape[at], indices_or_sections)
    return tuple(aval((*x.shape[:at], n, *x.shape[at + 1 :]), x.dtype) for n in sizes)


register(
    Op(
        "stack",
        ("*arrays",),
        _stack,
        "Arrays of equal shape joined along a new axis.",
        attributes=(
            Attribute(
                "axis",
                "int",
                0,
                keyword_only=False,
                doc="Where the new axis stands in the result.",
            ),
        ),
        promotes=True,
        samples=(Sample(((2, 3), (2, 3))), Sample(((2,), (2,), (2,)), {"axis": -1}), Sample(((),))),
    )
)
register(
    Op(
        "unstack",
        ("x",),
        _unstack,
        "The arrays that x consists of along an axis, as a tuple.",
        attributes=(Attribute("axis", "int", 0, doc="The axis that goes."),),
        several=True,
        samples=(Sample(((2, 3),)), Sample(((2, 3),), {"axis": 1}), Sample(((2,),))),
    )
)
register(
    Op(
        "concat",
        ("*arrays",),
        _concat,
        "Arrays joined along an axis that they have.",
        attributes=(
            Attribute("axis", "int", 0, keyword_only=False, doc="The axis; None joins them flat."),
        ),
        promotes=True,
        aliases=("concatenate",),
        samples=(
            Sample(((2, 3), (1, 3))),
            Sample(((2, 1), (2, 0), (2, 3)), {"axis": -1}),
            Sample(((2,),)),
        ),
    )
)
register(
    Op(
        "split",
        ("x",),
        _split,
        "x taken apart along an axis, as a tuple.\n\n"
        "Points to split at must not decrease; where NumPy lets them, its parts overlap.",
        attributes=(
            Attribute(
                "indices_or_sections",
                "axes",
                required=True,
                keyword_only=False,
                doc="The number of equal parts, or the points to split at.",
            ),
            Attribute("axis", "int", 0, keyword_only=False, doc="The axis."),
        ),
        several=True,
        samples=(
            Sample(((4, 2),), {"indices_or_sections": 2}),
            Sample(((2, 5),), {"indices_or_sections": (1, -2), "axis": 1}),
            Sample(((3,),), {"indices_or_sections": (0, 7)}),
        ),
    )
)
