"""Shape rules that several entries share: broadcasting, axes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from backhaul_proto.catalog.avals import FLOAT64, Aval, Shape, aval
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.errors import make_error


def broadcast_shapes(shapes: Sequence[Shape]) -> Shape:
    """NumPy's broadcasting.

    Raises:
        InvalidArgument: SHAPE_MISMATCH with all the shapes.
    """
    first = shapes[0]
    if all(shape == first for shape in shapes):
        return first
    rank = max(map(len, shapes))
    result: list[int] = []
    for axis in range(rank):
        size = 1
        for shape in shapes:
            own = axis - rank + len(shape)
            n = shape[own] if own >= 0 else 1
            if n != 1:
                if size not in (1, n):
                    listed = " and ".join(map(str, shapes))
                    raise make_error(
                        "SHAPE_MISMATCH",
                        f"Shapes {listed} do not broadcast: axis {axis - rank} is {size} in one "
                        f"and {n} in another. Equal sizes or 1 would do; reshape one of them.",
                        expected=size,
                        actual=n,
                    )
                size = n
        result.append(size)
    return tuple(result)


def broadcasting(avals: tuple[Aval, ...]) -> Aval:
    """Infer of an elementwise op: shapes broadcast, dtypes promote."""
    return aval(broadcast_shapes([each.shape for each in avals]), promote(*avals))


def floating(dtype: np.dtype) -> np.dtype:
    """The dtype that an op computes in which has no integer results."""
    return dtype if dtype.kind in "fc" else FLOAT64


def broadcasting_floats(avals: tuple[Aval, ...]) -> Aval:
    """As `broadcasting`, of an op that has no integer results: integers and bools count as float64."""
    shape = broadcast_shapes([each.shape for each in avals])
    return aval(shape, floating(promote(*avals)))


def canonical_axis(axis: int, ndim: int, *, name: str = "axis") -> int:
    """The axis counted from the front.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE when it is out of range.
    """
    if not -ndim <= axis < ndim:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{name}={axis} is out of range for an array of {ndim} dimension(s).",
            attribute=name,
            expected=f"{-ndim}..{ndim - 1}" if ndim else "none",
            actual=axis,
        )
    return axis % ndim


def canonical_axes(axes: int | tuple[int, ...] | None, ndim: int) -> tuple[int, ...]:
    """The axes counted from the front, in ascending order; all of them for None."""
    if axes is None:
        return tuple(range(ndim))
    listed = (axes,) if isinstance(axes, int) else axes
    found = sorted(canonical_axis(axis, ndim) for axis in listed)
    if len(set(found)) != len(found):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"axis={listed} names an axis twice.",
            attribute="axis",
            actual=listed,
        )
    return tuple(found)


def reduced_shape(shape: Shape, axes: tuple[int, ...], keepdims: bool) -> Shape:
    """The shape after reducing over these (canonical) axes."""
    if keepdims:
        return tuple(1 if i in axes else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in axes)
