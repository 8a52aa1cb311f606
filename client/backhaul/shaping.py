"""Functions that shape, join and split, made of ops, with NumPy's signatures."""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

import numpy as np

from backhaul import _ops
from backhaul.handle import Handle
from backhaul.indexing import shape_of
from backhaul.recording import Operand, record
from backhaul_proto.catalog.ops import get
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.catalog.shapes import broadcast_shapes, canonical_axis
from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

__all__ = [
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "broadcast_arrays",
    "column_stack",
    "concat",
    "concatenate",
    "dsplit",
    "dstack",
    "fliplr",
    "flipud",
    "hsplit",
    "hstack",
    "pad",
    "rot90",
    "vsplit",
    "vstack",
]

_CONCAT: Final = get("concat")
_PAD: Final = get("pad")
_EXACT: Final = 2**53  # integers up to which float64 holds them all


# ---------------------------------------------------------------- joining


def concat(arrays: Sequence[Operand], /, axis: int | None = 0) -> TrackedTensor:
    """Arrays joined along an axis that they have.

    Args:
        arrays: Tensors and arrays, at least one of them a tensor.
        axis: The axis; None joins them flat.

    Raises:
        InvalidArgument: shapes that do not fit (SHAPE_MISMATCH), or an axis that is not there.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.ones((2, 3)))
        >>> bh.concat([x, np.zeros((1, 3))]).shape
        (3, 3)
    """
    if axis is None:
        flat = [_ops.ravel(x) if isinstance(x, Handle) else _array(x).ravel() for x in arrays]
        return record(_CONCAT, flat, 0)
    return record(_CONCAT, (*arrays,), axis)


concatenate = concat


def hstack(arrays: Sequence[Operand], /) -> TrackedTensor:
    """Arrays joined along their second axis; vectors along their only one.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.ones(2))
        >>> bh.hstack([x, 3.0]).shape
        (3,)
    """
    whole = [_at_least(1, x) for x in arrays]
    return concat(whole, axis=0 if whole and len(shape_of(whole[0])) == 1 else 1)


def vstack(arrays: Sequence[Operand], /) -> TrackedTensor:
    """Arrays joined along their first axis, vectors as rows.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.ones(2))
        >>> bh.vstack([x, np.zeros((3, 2))]).shape
        (4, 2)
    """
    return concat([_at_least(2, x) for x in arrays], axis=0)


def dstack(arrays: Sequence[Operand], /) -> TrackedTensor:
    """Arrays joined along their third axis, matrices as if they had one of size 1.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.ones((2, 3)))
        >>> bh.dstack([x, x]).shape
        (2, 3, 2)
    """
    return concat([_at_least(3, x) for x in arrays], axis=2)


def column_stack(arrays: Sequence[Operand], /) -> TrackedTensor:
    """Matrices joined along their second axis, vectors as columns.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.ones(2))
        >>> bh.column_stack([x, np.zeros((2, 3))]).shape
        (2, 4)
    """
    columns = [_reshaped(x, (-1, 1)) if len(shape_of(x)) < 2 else x for x in arrays]
    return concat(columns, axis=1)


# ---------------------------------------------------------------- splitting


def array_split(
    x: Operand, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> tuple[TrackedTensor, ...]:
    """`x` taken apart along an axis into parts that may differ by one in size; else as `split`.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> [part.shape for part in bh.array_split(bh.Tape().leaf(np.ones(5)), 2)]
        [(3,), (2,)]
    """
    if isinstance(indices_or_sections, int | np.integer) and indices_or_sections > 0:
        shape, count = shape_of(x), int(indices_or_sections)
        each, more = divmod(shape[canonical_axis(axis, len(shape))], count)
        points = [i * each + min(i, more) for i in range(1, count)]
        return _ops.split(x, points, axis)
    return _ops.split(x, indices_or_sections, axis)


def hsplit(x: Operand, /, indices_or_sections: int | Sequence[int]) -> tuple[TrackedTensor, ...]:
    """`x` taken apart along its second axis, a vector along its only one; else as `split`.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> [part.shape for part in bh.hsplit(bh.Tape().leaf(np.ones((2, 3))), [1])]
        [(2, 1), (2, 2)]
    """
    return _ops.split(x, indices_or_sections, 0 if len(shape_of(x)) == 1 else 1)


def vsplit(x: Operand, /, indices_or_sections: int | Sequence[int]) -> tuple[TrackedTensor, ...]:
    """`x` taken apart along its first axis; else as `split`.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> [part.shape for part in bh.vsplit(bh.Tape().leaf(np.ones((2, 3))), 2)]
        [(1, 3), (1, 3)]
    """
    return _ops.split(x, indices_or_sections, 0)


def dsplit(x: Operand, /, indices_or_sections: int | Sequence[int]) -> tuple[TrackedTensor, ...]:
    """`x` taken apart along its third axis; else as `split`.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> [part.shape for part in bh.dsplit(bh.Tape().leaf(np.ones((1, 1, 2))), 2)]
        [(1, 1, 1), (1, 1, 1)]
    """
    return _ops.split(x, indices_or_sections, 2)


# ---------------------------------------------------------------- shapes


def atleast_1d(*arrays: Operand) -> Any:
    """A tensor with one axis or more: a number gets one. Several give a tuple.

    Example:
        >>> import backhaul as bh
        >>> bh.atleast_1d(bh.Tape().leaf(1.0)).shape
        (1,)
    """
    return _each(1, arrays)


def atleast_2d(*arrays: Operand) -> Any:
    """A tensor with two axes or more: new ones stand in front. Several give a tuple.

    Example:
        >>> import backhaul as bh
        >>> bh.atleast_2d(bh.Tape().leaf([1.0, 2.0])).shape
        (1, 2)
    """
    return _each(2, arrays)


def atleast_3d(*arrays: Operand) -> Any:
    """A tensor with three axes or more: a vector is in the middle, a matrix in front. Several give a tuple.

    Example:
        >>> import backhaul as bh
        >>> bh.atleast_3d(bh.Tape().leaf([1.0, 2.0])).shape
        (1, 2, 1)
    """
    return _each(3, arrays)


def broadcast_arrays(*arrays: Operand) -> tuple[TrackedTensor, ...]:
    """The arrays repeated to their common shape, all as tensors.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.ones((3, 1)))
        >>> [each.shape for each in bh.broadcast_arrays(x, np.ones(2))]
        [(3, 2), (3, 2)]
    """
    tape = next((each._tape for each in arrays if isinstance(each, Handle)), None)
    if tape is None:
        raise make_error(
            "INVALID_VALUE",
            "broadcast_arrays: no operand is on a tape, so there is nothing to record it on. Use NumPy.",
        )
    whole = [each if isinstance(each, Handle) else tape.constant(each) for each in arrays]
    shape = broadcast_shapes([shape_of(each) for each in whole])
    return tuple(_ops.broadcast_to(each, shape) for each in whole)


def fliplr(x: Operand, /) -> TrackedTensor:
    """`x` with its second axis backwards.

    Example:
        >>> import backhaul as bh
        >>> bh.fliplr(bh.Tape().leaf([[1.0, 2.0]])).numpy()
        array([[2., 1.]])
    """
    canonical_axis(1, len(shape_of(x)))
    return _ops.flip(x, 1)


def flipud(x: Operand, /) -> TrackedTensor:
    """`x` with its first axis backwards.

    Example:
        >>> import backhaul as bh
        >>> bh.flipud(bh.Tape().leaf([1.0, 2.0])).numpy()
        array([2., 1.])
    """
    return _ops.flip(x, 0)


def rot90(x: Operand, /, k: int = 1, axes: Sequence[int] = (0, 1)) -> TrackedTensor:
    """`x` turned by 90 degrees in the plane of two axes, k times, from the first towards the second.

    Example:
        >>> import backhaul as bh
        >>> bh.rot90(bh.Tape().leaf([[1.0, 2.0]])).numpy()
        array([[2.],
               [1.]])
    """
    if len(axes) != 2:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"rot90: axes={axes!s:.60}; a plane has two.",
            attribute="axes",
            expected=2,
            actual=len(axes),
        )
    first, second = axes
    match operator.index(k) % 4:
        case 0:
            return _ops.flip(x, ())
        case 1:
            return _ops.swapaxes(_ops.flip(x, second), first, second)
        case 2:
            return _ops.flip(x, (first, second))
        case _:
            return _ops.flip(_ops.swapaxes(x, first, second), second)


def pad(
    x: Operand,
    /,
    pad_width: Any,
    mode: Literal["constant", "edge", "reflect", "symmetric", "wrap"] = "constant",
    *,
    constant_values: Any = 0,
) -> TrackedTensor:
    """`x` with elements added before and after it along its axes.

    Args:
        x: Tensor, array or number.
        pad_width: How many: a number for all ends; a pair (before, after) for each axis alike; or a pair
            for each axis.
        mode: What is added: a constant, the element at the end, or elements of `x` from its end on,
            reflected (without or, symmetric, with the element at the end) or from its other end.
        constant_values: What is added in mode constant, in the forms that `pad_width` has.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> bh.pad(bh.Tape().leaf([1.0, 2.0]), (1, 2)).numpy()
        array([0., 1., 2., 0., 0.])
    """
    if isinstance(constant_values, Handle):
        raise make_error(
            "INVALID_VALUE",
            "pad: constant_values is a tensor, whose gradient would be lost. Join with bh.concat, or give "
            "its value.",
        )
    shape = shape_of(x)
    widths = _pairs(pad_width, len(shape))
    whole = isinstance(constant_values, int | np.integer) and abs(int(constant_values)) <= _EXACT
    if whole or isinstance(constant_values, float | np.floating):
        return record(_PAD, (x,), widths, mode, float(constant_values))
    padded = record(_PAD, (x,), widths, mode, 0.0)
    if mode != "constant":
        return padded
    outside = np.pad(np.zeros(shape, padded.dtype), widths, constant_values=constant_values)
    return _ops.add(padded, outside)


def _pairs(pad_width: Any, ndim: int) -> tuple[tuple[int, int], ...]:
    """A pair of widths for each axis; NumPy broadcasts to them."""
    given = np.asarray(pad_width)
    if given.dtype.kind in "iu" or not given.size:
        try:
            pairs = np.broadcast_to(given.astype(np.int64), (ndim, 2)).tolist()
            return tuple((before, after) for before, after in pairs)
        except ValueError:
            pass
    raise make_error(
        "INVALID_ATTRIBUTE",
        f"pad: pad_width is {pad_width!s:.100}; it is an integer, a pair of them, or a pair for each of "
        f"{ndim} axes.",
        attribute="pad_width",
        expected=f"{ndim} pairs",
        actual=f"{pad_width!s:.100}",
    )


# ---------------------------------------------------------------- what these share

_AT_LEAST: Final[dict[int, Callable[..., Any]]] = {
    1: np.atleast_1d,
    2: np.atleast_2d,
    3: np.atleast_3d,
}


def _each(ndim: int, arrays: Sequence[Operand]) -> Any:
    whole = tuple(_at_least(ndim, x) for x in arrays)
    return whole[0] if len(whole) == 1 else whole


def _at_least(ndim: int, x: Operand) -> Any:
    """The tensor or array with this many axes or more, new ones where NumPy puts them."""
    if not isinstance(x, Handle):
        return _AT_LEAST[ndim](_array(x))
    shape = shape_of(x)
    if len(shape) >= ndim:
        return x
    front = {0: (1,) * ndim, 1: (1,) * (ndim > 1) + shape + (1,) * (ndim > 2), 2: (*shape, 1)}
    return _reshaped(x, front[len(shape)])


def _reshaped(x: Operand, shape: Sequence[int]) -> Any:
    return _ops.reshape(x, shape) if isinstance(x, Handle) else _array(x).reshape(shape)


def _array(x: Operand) -> np.ndarray[Any, Any]:
    return as_array(x, what="an operand")
