"""Ops that repeat, shift or reverse elements along axes."""

from __future__ import annotations

import math
from typing import Final

import numpy as np

from backhaul_proto.catalog.avals import Aval, aval
from backhaul_proto.catalog.ops import Attribute, Ints, Op, Sample, register
from backhaul_proto.catalog.shapes import canonical_axes, canonical_axis
from backhaul_proto.errors import make_error

MODES: Final = ("constant", "edge", "reflect", "symmetric", "wrap")


def _flip(avals: tuple[Aval, ...], axis: int | Ints | None = None) -> Aval:
    canonical_axes(axis, avals[0].ndim)
    return avals[0]


def shifts(shift: int | Ints, axis: int | Ints | None, ndim: int) -> dict[int, int]:
    """For each axis, how far it is rolled; axes that are named twice add up, as in NumPy.

    Without an axis it is that of the array laid flat.
    """
    by = (shift,) if isinstance(shift, int) else shift
    axes = (axis,) if isinstance(axis, int) else axis
    if axes is None:
        axes, ndim = (0,), 1
    if len(by) != len(axes) and 1 not in (len(by), len(axes)):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"roll: {len(by)} shifts and {len(axes)} axes were given; they must be equally many, or one.",
            attribute="shift",
            expected=len(axes),
            actual=len(by),
        )
    count = max(len(by), len(axes)) if by and axes else 0
    total: dict[int, int] = {}
    for i in range(count):
        at = canonical_axis(axes[i % len(axes)], ndim)
        total[at] = total.get(at, 0) + by[i % len(by)]
    return total


def _roll(avals: tuple[Aval, ...], shift: int | Ints, axis: int | Ints | None = None) -> Aval:
    shifts(shift, axis, avals[0].ndim)
    return avals[0]


def _tile(avals: tuple[Aval, ...], reps: int | Ints) -> Aval:
    (x,) = avals
    counts = (reps,) if isinstance(reps, int) else reps
    if any(n < 0 for n in counts):
        raise _negative("tile", "reps", reps)
    rank = max(x.ndim, len(counts))
    shape = (1,) * (rank - x.ndim) + x.shape
    counts = (1,) * (rank - len(counts)) + counts
    return aval([n * count for n, count in zip(shape, counts, strict=True)], x.dtype)


def _repeat(avals: tuple[Aval, ...], repeats: int | Ints, axis: int | None = None) -> Aval:
    (x,) = avals
    shape = (x.size,) if axis is None else x.shape
    at = 0 if axis is None else canonical_axis(axis, x.ndim)
    counts = repeat_counts(repeats, shape[at])
    length = counts * shape[at] if isinstance(counts, int) else sum(counts)
    return aval([*shape[:at], length, *shape[at + 1 :]], x.dtype)


def repeat_counts(repeats: int | Ints, n: int) -> int | Ints:
    """How often each of n elements is repeated; a number when all are repeated equally."""
    if not isinstance(repeats, int):
        if len(repeats) == 1:
            repeats = repeats[0]
        elif len(repeats) != n:
            raise make_error(
                "SHAPE_MISMATCH",
                f"repeat: {len(repeats)} counts were given for an axis of size {n}; give one for each "
                "element, or one for all.",
                expected=n,
                actual=len(repeats),
            )
    if any(count < 0 for count in ((repeats,) if isinstance(repeats, int) else repeats)):
        raise _negative("repeat", "repeats", repeats)
    return repeats


def _negative(op: str, attribute: str, given: object) -> Exception:
    return make_error(
        "INVALID_ATTRIBUTE",
        f"{op}: {attribute}={given!s:.100} has a negative count.",
        attribute=attribute,
        actual=f"{given!s:.100}",
    )


def _pad(
    avals: tuple[Aval, ...], pad_width: tuple[Ints, ...], mode: str, constant_values: float
) -> Aval:
    (x,) = avals
    if mode not in MODES:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"pad: there is no mode {mode!r:.60} here; choose one of {', '.join(MODES)}.",
            attribute="mode",
            expected=MODES,
            actual=f"{mode!r:.60}",
        )
    if len(pad_width) != x.ndim or any(len(widths) != 2 or min(widths) < 0 for widths in pad_width):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"pad: pad_width={pad_width!s:.100} for an array of {x.ndim} axes; it is a pair of widths, "
            "none negative, for each axis.",
            attribute="pad_width",
            expected=f"{x.ndim} pairs",
            actual=f"{pad_width!s:.100}",
        )
    if mode == "constant":
        _check_constant(constant_values, x)
    else:
        for axis, (n, widths) in enumerate(zip(x.shape, pad_width, strict=True)):
            if not n and any(widths):
                raise make_error(
                    "SHAPE_MISMATCH",
                    f"pad: axis {axis} has size 0, so there is nothing to fill it with in mode {mode!r}.",
                    actual=x.shape,
                )
    return aval([n + sum(widths) for n, widths in zip(x.shape, pad_width, strict=True)], x.dtype)


def _check_constant(constant: float, x: Aval) -> None:
    """Integers are added to integers, cut to whole numbers as NumPy does."""
    if x.dtype.kind not in "iu":
        return
    limits = np.iinfo(x.dtype)
    if not (math.isfinite(constant) and limits.min <= int(constant) <= limits.max):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"pad: constant_values={constant} cannot be held in {x.dtype}; convert the array first.",
            attribute="constant_values",
            expected=x.dtype,
            actual=constant,
        )


_AXES = Attribute("axis", "axes", keyword_only=False, doc="Axis or axes; all when left out.")

register(
    Op(
        "flip",
        ("x",),
        _flip,
        "x with its elements in reverse order along axes.",
        attributes=(_AXES,),
        samples=(
            Sample(((2, 3),)),
            Sample(((2, 3, 4),), {"axis": (0, -1)}),
            Sample(((3,),), {"axis": 0}),
            Sample(((),)),
            Sample(((0, 2),), {"axis": 0}),
        ),
    )
)
register(
    Op(
        "roll",
        ("x",),
        _roll,
        "x with its elements shifted along axes; those that leave at the end come in at the beginning.",
        attributes=(
            Attribute(
                "shift",
                "axes",
                required=True,
                keyword_only=False,
                doc="By how many places, for each axis.",
            ),
            Attribute(
                "axis",
                "axes",
                keyword_only=False,
                doc="Axis or axes; as if `x` were flat when left out. Along none nothing is shifted.",
            ),
        ),
        samples=(
            Sample(((2, 3),), {"shift": 2}),
            Sample(((),), {"shift": 1, "axis": ()}),
            Sample(((2, 3),), {"shift": (1, -2), "axis": (0, 1)}),
            Sample(((2, 3),), {"shift": 4, "axis": (1, -1)}),
            Sample(((0,),), {"shift": 1, "axis": 0}),
        ),
    )
)
register(
    Op(
        "tile",
        ("x",),
        _tile,
        "x laid side by side a number of times along each axis.",
        attributes=(
            Attribute(
                "reps",
                "axes",
                required=True,
                keyword_only=False,
                doc="How often, for the last axes; new axes come in front when there are more.",
            ),
        ),
        samples=(
            Sample(((2, 3),), {"reps": (2, 1)}),
            Sample(((2, 3),), {"reps": 2}),
            Sample(((2,),), {"reps": (3, 2)}),
            Sample(((2,),), {"reps": 0}),
            Sample(((),), {"reps": (2,)}),
        ),
    )
)
register(
    Op(
        "repeat",
        ("x",),
        _repeat,
        "x with each element repeated.",
        attributes=(
            Attribute(
                "repeats",
                "axes",
                required=True,
                keyword_only=False,
                doc="How often: one number for all, or one for each element along the axis.",
            ),
            Attribute(
                "axis", "int", keyword_only=False, doc="The axis; `x` is flat when left out."
            ),
        ),
        samples=(
            Sample(((2, 3),), {"repeats": 2}),
            Sample(((2, 3),), {"repeats": 3, "axis": 0}),
            Sample(((2, 3),), {"repeats": (2, 0, 1), "axis": -1}),
            Sample(((2,),), {"repeats": 0}),
            Sample(((),), {"repeats": (2,)}),
        ),
    )
)
register(
    Op(
        "pad",
        ("x",),
        _pad,
        "x with elements added before and after it along its axes.",
        attributes=(
            Attribute(
                "pad_width",
                "int_lists",
                required=True,
                keyword_only=False,
                doc="For each axis, how many before and after.",
            ),
            Attribute("mode", "string", "constant", keyword_only=False, doc=f"{', '.join(MODES)}."),
            Attribute("constant_values", "float", 0.0, doc="What is added in mode constant."),
        ),
        samples=(
            Sample(((2, 3),), {"pad_width": ((1, 0), (2, 1))}),
            Sample(((2,),), {"pad_width": ((1, 2),), "constant_values": 3.0}),
            Sample(((2, 3),), {"pad_width": ((1, 0), (2, 4)), "mode": "edge"}),
            Sample(((2, 3),), {"pad_width": ((3, 0), (0, 4)), "mode": "reflect"}),
            Sample(((2, 3),), {"pad_width": ((1, 5), (0, 4)), "mode": "symmetric"}),
            Sample(((2, 3),), {"pad_width": ((0, 3), (4, 0)), "mode": "wrap"}),
            Sample(((1,),), {"pad_width": ((2, 2),), "mode": "reflect"}),
            Sample(((0, 2),), {"pad_width": ((1, 1), (0, 0))}),
            Sample(((),), {"pad_width": ()}),
        ),
    )
)
