"""Ops that rearrange the axes of an array, or add and drop axes of size 1."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, Shape, aval
from backhaul_proto.catalog.ops import Attribute, Ints, Op, Sample, register
from backhaul_proto.catalog.shapes import canonical_axes, canonical_axis
from backhaul_proto.errors import make_error


def permutation(axes: Ints | None, ndim: int) -> Ints:
    """The axes of an operand in the order of the result's, counted from the front; reversed for None."""
    if axes is None:
        return tuple(range(ndim))[::-1]
    found = tuple(canonical_axis(axis, ndim, name="axes") for axis in axes)
    if sorted(found) != list(range(ndim)):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"axes={axes} is no permutation of the {ndim} axes of the array; each must be named once.",
            attribute="axes",
            expected=f"a permutation of 0..{ndim - 1}" if ndim else "()",
            actual=axes,
        )
    return found


def moved(source: int | Ints, destination: int | Ints, ndim: int) -> Ints:
    """The permutation that moves axes, the others keeping their order."""
    listed = [(each,) if isinstance(each, int) else each for each in (source, destination)]
    start, end = (
        tuple(canonical_axis(axis, ndim, name=name) for axis in axes)
        for axes, name in zip(listed, ("source", "destination"), strict=True)
    )
    if len(start) != len(end) or len(set(start)) != len(start) or len(set(end)) != len(end):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"moveaxis: source={source} and destination={destination} must name equally many axes, each "
            "once.",
            attribute="destination",
            expected=len(start),
            actual=len(end),
        )
    order = [axis for axis in range(ndim) if axis not in start]
    for to, axis in sorted(zip(end, start, strict=True)):
        order.insert(to, axis)
    return tuple(order)


def swapped(axis1: int, axis2: int, ndim: int) -> Ints:
    """The permutation that swaps two axes."""
    order = list(range(ndim))
    first = canonical_axis(axis1, ndim, name="axis1")
    second = canonical_axis(axis2, ndim, name="axis2")
    order[first], order[second] = second, first
    return tuple(order)


def permuted(x: Aval, order: Ints) -> Aval:
    """The aval with its axes in this order."""
    return aval([x.shape[axis] for axis in order], x.dtype)


def _permute_dims(avals: tuple[Aval, ...], axes: Ints | None = None) -> Aval:
    return permuted(avals[0], permutation(axes, avals[0].ndim))


def _moveaxis(avals: tuple[Aval, ...], source: int | Ints, destination: int | Ints) -> Aval:
    return permuted(avals[0], moved(source, destination, avals[0].ndim))


def _swapaxes(avals: tuple[Aval, ...], axis1: int, axis2: int) -> Aval:
    return permuted(avals[0], swapped(axis1, axis2, avals[0].ndim))


def _squeeze(avals: tuple[Aval, ...], axis: int | Ints | None = None) -> Aval:
    (x,) = avals
    if axis is None:
        return aval([n for n in x.shape if n != 1], x.dtype)
    gone = canonical_axes(axis, x.ndim)
    if any(x.shape[i] != 1 for i in gone):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"squeeze drops axes of size 1 only; axis={axis} of shape {x.shape} has other sizes.",
            attribute="axis",
            expected=1,
            actual=tuple(x.shape[i] for i in gone),
        )
    return aval([n for i, n in enumerate(x.shape) if i not in gone], x.dtype)


def _expand_dims(avals: tuple[Aval, ...], axis: int | Ints) -> Aval:
    (x,) = avals
    count = 1 if isinstance(axis, int) else len(axis)
    new = canonical_axes(axis, x.ndim + count)
    rest = iter(x.shape)
    shape: Shape = tuple(1 if i in new else next(rest) for i in range(x.ndim + count))
    return aval(shape, x.dtype)


def _ravel(avals: tuple[Aval, ...]) -> Aval:
    return aval((avals[0].size,), avals[0].dtype)


register(
    Op(
        "permute_dims",
        ("x",),
        _permute_dims,
        "x with its axes in another order; reversed when none is named.",
        attributes=(
            Attribute(
                "axes",
                "ints",
                keyword_only=False,
                doc="For each axis of the result, which axis of `x` it is.",
            ),
        ),
        aliases=("transpose",),
        samples=(
            Sample(((2, 3, 4),), {"axes": (1, 2, 0)}),
            Sample(((2, 3, 4),), {"axes": (0, -1, -2)}),
            Sample(((2, 3, 4),)),
            Sample(((3,),)),
            Sample(((),)),
            Sample(((0, 2),)),
        ),
    )
)
register(
    Op(
        "moveaxis",
        ("x",),
        _moveaxis,
        "x with some axes moved, the others keeping their order.",
        attributes=(
            Attribute(
                "source", "axes", required=True, keyword_only=False, doc="Where the axes stand."
            ),
            Attribute(
                "destination",
                "axes",
                required=True,
                keyword_only=False,
                doc="Where they are to stand.",
            ),
        ),
        samples=(
            Sample(((2, 3, 4),), {"source": 0, "destination": -1}),
            Sample(((2, 3, 4),), {"source": (0, 2), "destination": (1, 0)}),
            Sample(((0, 3),), {"source": 1, "destination": 0}),
        ),
    )
)
register(
    Op(
        "swapaxes",
        ("x",),
        _swapaxes,
        "x with two axes swapped.",
        attributes=(
            Attribute("axis1", "int", required=True, keyword_only=False, doc="One axis."),
            Attribute("axis2", "int", required=True, keyword_only=False, doc="The other."),
        ),
        samples=(
            Sample(((2, 3, 4),), {"axis1": 0, "axis2": 2}),
            Sample(((2, 3),), {"axis1": -1, "axis2": -1}),
            Sample(((2, 0),), {"axis1": 0, "axis2": 1}),
        ),
    )
)
register(
    Op(
        "squeeze",
        ("x",),
        _squeeze,
        "x without axes of size 1: those named, or all.",
        attributes=(
            Attribute("axis", "axes", keyword_only=False, doc="The axes to drop, each of size 1."),
        ),
        samples=(
            Sample(((1, 3, 1),)),
            Sample(((1, 3, 1),), {"axis": -1}),
            Sample(((1, 3, 1),), {"axis": (0, 2)}),
            Sample(((),)),
            Sample(((0, 1),), {"axis": 1}),
        ),
    )
)
register(
    Op(
        "expand_dims",
        ("x",),
        _expand_dims,
        "x with new axes of size 1.",
        attributes=(
            Attribute(
                "axis",
                "axes",
                required=True,
                keyword_only=False,
                doc="Where new axes stand in the result.",
            ),
        ),
        samples=(
            Sample(((2, 3),), {"axis": 1}),
            Sample(((2, 3),), {"axis": (0, -1)}),
            Sample(((),), {"axis": 0}),
            Sample(((0,),), {"axis": -1}),
        ),
    )
)
register(
    Op(
        "ravel",
        ("x",),
        _ravel,
        "x's elements in C order, along one axis.",
        samples=(Sample(((2, 3),)), Sample(((),)), Sample(((2, 0),))),
    )
)
