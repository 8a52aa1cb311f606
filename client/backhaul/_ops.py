"""The ops of the catalog as functions.

Generated from the catalog by tools/gen_ops.py: `make ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul.recording import record, record_several
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from collections.abc import Sequence

    from numpy.typing import DTypeLike

    from backhaul.recording import Operand
    from backhaul.tensor import TrackedTensor

__all__ = [
    "add",
    "astype",
    "broadcast_to",
    "conj",
    "diag",
    "diagonal",
    "expand_dims",
    "flip",
    "imag",
    "matmul",
    "matrix_transpose",
    "moveaxis",
    "multiply",
    "negative",
    "permute_dims",
    "ravel",
    "real",
    "repeat",
    "reshape",
    "roll",
    "split",
    "squeeze",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "swapaxes",
    "tile",
    "trace",
    "transpose",
    "tril",
    "triu",
    "unstack",
]

_ADD: Final = get("add")
_ASTYPE: Final = get("astype")
_BROADCAST_TO: Final = get("broadcast_to")
_CONJ: Final = get("conj")
_DIAG: Final = get("diag")
_DIAGONAL: Final = get("diagonal")
_EXPAND_DIMS: Final = get("expand_dims")
_FLIP: Final = get("flip")
_IMAG: Final = get("imag")
_MATMUL: Final = get("matmul")
_MATRIX_TRANSPOSE: Final = get("matrix_transpose")
_MOVEAXIS: Final = get("moveaxis")
_MULTIPLY: Final = get("multiply")
_NEGATIVE: Final = get("negative")
_PERMUTE_DIMS: Final = get("permute_dims")
_RAVEL: Final = get("ravel")
_REAL: Final = get("real")
_REPEAT: Final = get("repeat")
_RESHAPE: Final = get("reshape")
_ROLL: Final = get("roll")
_SPLIT: Final = get("split")
_SQUEEZE: Final = get("squeeze")
_STACK: Final = get("stack")
_STOP_GRADIENT: Final = get("stop_gradient")
_SUBTRACT: Final = get("subtract")
_SUM: Final = get("sum")
_SWAPAXES: Final = get("swapaxes")
_TILE: Final = get("tile")
_TRACE: Final = get("trace")
_TRIL: Final = get("tril")
_TRIU: Final = get("triu")
_UNSTACK: Final = get("unstack")


def add(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The sum x1 + x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.add(x1, x2).shape
        (2, 3)
    """
    return record(_ADD, (x1, x2))


def astype(x: Operand, /, dtype: DTypeLike) -> TrackedTensor:
    """`x` converted to another dtype.

    A complex x stays complex: take `real` first.

    Args:
        x: Tensor, array or number.
        dtype: The new dtype.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.astype(x, 'complex128').shape
        (2, 3)
    """
    return record(_ASTYPE, (x,), dtype)


def broadcast_to(x: Operand, /, shape: Sequence[int]) -> TrackedTensor:
    """`x` repeated along new axes and axes of size 1, to the given shape.

    Args:
        x: Tensor, array or number.
        shape: The new shape.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3,)))
        >>> bh.broadcast_to(x, (2, 3)).shape
        (2, 3)
    """
    return record(_BROADCAST_TO, (x,), shape)


def conj(x: Operand, /) -> TrackedTensor:
    """The complex conjugate of each element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.conj(x).shape
        (2, 3)
    """
    return record(_CONJ, (x,))


def diag(x: Operand, /, k: int = 0) -> TrackedTensor:
    """The matrix with the vector x on a diagonal, or a diagonal of the matrix x.

    Args:
        x: Tensor, array or number.
        k: Which diagonal; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2,)))
        >>> bh.diag(x, -2).shape
        (4, 4)
    """
    return record(_DIAG, (x,), k)


def diagonal(x: Operand, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TrackedTensor:
    """A diagonal through two axes of x, as the last axis of the result.

    Args:
        x: Tensor, array or number.
        offset: Which diagonal; the main one is 0, those above it are positive.
        axis1: The axis of the rows.
        axis2: The axis of the columns.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.diagonal(x, 1).shape
        (2,)
    """
    return record(_DIAGONAL, (x,), offset, axis1, axis2)


def expand_dims(x: Operand, /, axis: int | Sequence[int]) -> TrackedTensor:
    """`x` with new axes of size 1.

    Args:
        x: Tensor, array or number.
        axis: Where new axes stand in the result.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.expand_dims(x, 1).shape
        (2, 1, 3)
    """
    return record(_EXPAND_DIMS, (x,), axis)


def flip(x: Operand, /, axis: int | Sequence[int] | None = None) -> TrackedTensor:
    """`x` with its elements in reverse order along axes.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes; all when left out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.flip(x, (0, -1)).shape
        (2, 3, 4)
    """
    return record(_FLIP, (x,), axis)


def imag(x: Operand, /) -> TrackedTensor:
    """The imaginary part of each element; zeros when x is real.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.imag(x).shape
        (2, 3)
    """
    return record(_IMAG, (x,))


def matmul(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The matrix product of the last two axes, other axes broadcasting.

    A vector is a row on the left and a column on the right.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((3, 4)))
        >>> bh.matmul(x1, x2).shape
        (2, 4)
    """
    return record(_MATMUL, (x1, x2))


def matrix_transpose(x: Operand, /) -> TrackedTensor:
    """`x` with its last two axes swapped.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.matrix_transpose(x).shape
        (3, 2)
    """
    return record(_MATRIX_TRANSPOSE, (x,))


def moveaxis(
    x: Operand, /, source: int | Sequence[int], destination: int | Sequence[int]
) -> TrackedTensor:
    """`x` with some axes moved, the others keeping their order.

    Args:
        x: Tensor, array or number.
        source: Where the axes stand.
        destination: Where they are to stand.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.moveaxis(x, 0, -1).shape
        (3, 4, 2)
    """
    return record(_MOVEAXIS, (x,), source, destination)


def multiply(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The product x1 * x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.multiply(x1, x2).shape
        (2, 3)
    """
    return record(_MULTIPLY, (x1, x2))


def negative(x: Operand, /) -> TrackedTensor:
    """The negative -x, element by element.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.negative(x).shape
        (2, 3)
    """
    return record(_NEGATIVE, (x,))


def permute_dims(x: Operand, /, axes: Sequence[int] | None = None) -> TrackedTensor:
    """`x` with its axes in another order; reversed when none is named.

    Args:
        x: Tensor, array or number.
        axes: For each axis of the result, which axis of `x` it is.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.permute_dims(x, (1, 2, 0)).shape
        (3, 4, 2)
    """
    return record(_PERMUTE_DIMS, (x,), axes)


def ravel(x: Operand, /) -> TrackedTensor:
    """X's elements in C order, along one axis.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.ravel(x).shape
        (6,)
    """
    return record(_RAVEL, (x,))


def real(x: Operand, /) -> TrackedTensor:
    """The real part of each element; x itself when x is real.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.real(x).shape
        (2, 3)
    """
    return record(_REAL, (x,))


def repeat(x: Operand, /, repeats: int | Sequence[int], axis: int | None = None) -> TrackedTensor:
    """`x` with each element repeated.

    Args:
        x: Tensor, array or number.
        repeats: How often: one number for all, or one for each element along the axis.
        axis: The axis; `x` is flat when left out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.repeat(x, 2).shape
        (12,)
    """
    return record(_REPEAT, (x,), repeats, axis)


def reshape(x: Operand, /, shape: int | Sequence[int]) -> TrackedTensor:
    """`x` with another shape and the same elements in C order.

    Args:
        x: Tensor, array or number.
        shape: The new shape; one size may be -1 and is worked out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.reshape(x, (3, -1)).shape
        (3, 2)
    """
    return record(_RESHAPE, (x,), shape)


def roll(
    x: Operand, /, shift: int | Sequence[int], axis: int | Sequence[int] | None = None
) -> TrackedTensor:
    """`x` with its elements shifted along axes; those that leave at the end come in at the beginning.

    Args:
        x: Tensor, array or number.
        shift: By how many places, for each axis.
        axis: Axis or axes; as if `x` were flat when left out.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.roll(x, 2).shape
        (2, 3)
    """
    return record(_ROLL, (x,), shift, axis)


def split(
    x: Operand, /, indices_or_sections: int | Sequence[int], axis: int = 0
) -> tuple[TrackedTensor, ...]:
    """`x` taken apart along an axis, as a tuple.

    Points to split at must not decrease; where NumPy lets them, its parts overlap.

    Args:
        x: Tensor, array or number.
        indices_or_sections: The number of equal parts, or the points to split at.
        axis: The axis.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((4, 2)))
        >>> [each.shape for each in bh.split(x, 2)]
        [(2, 2), (2, 2)]
    """
    return record_several(_SPLIT, (x,), indices_or_sections, axis)


def squeeze(x: Operand, /, axis: int | Sequence[int] | None = None) -> TrackedTensor:
    """`x` without axes of size 1: those named, or all.

    Args:
        x: Tensor, array or number.
        axis: The axes to drop, each of size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((1, 3, 1)))
        >>> bh.squeeze(x, -1).shape
        (1, 3)
    """
    return record(_SQUEEZE, (x,), axis)


def stack(arrays: Sequence[Operand], /, axis: int = 0) -> TrackedTensor:
    """Arrays of equal shape joined along a new axis.

    Args:
        arrays: Tensors, arrays or numbers.
        axis: Where the new axis stands in the result.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x0 = tape.leaf(np.ones((2,)))
        >>> x1 = tape.leaf(np.ones((2,)))
        >>> x2 = tape.leaf(np.ones((2,)))
        >>> bh.stack([x0, x1, x2], -1).shape
        (2, 3)
    """
    return record(_STACK, (*arrays,), axis)


def stop_gradient(x: Operand, /) -> TrackedTensor:
    """`x` as a constant: no gradient flows through it.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.stop_gradient(x).shape
        (2, 3)
    """
    return record(_STOP_GRADIENT, (x,))


def subtract(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The difference x1 - x2, element by element, with broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2, 3)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.subtract(x1, x2).shape
        (2, 3)
    """
    return record(_SUBTRACT, (x1, x2))


def sum(
    x: Operand, /, axis: int | Sequence[int] | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The sum over axes. Bool and integer arrays sum to 64-bit integers.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.sum(x, 1).shape
        (2,)
    """
    return record(_SUM, (x,), axis, keepdims)


def swapaxes(x: Operand, /, axis1: int, axis2: int) -> TrackedTensor:
    """`x` with two axes swapped.

    Args:
        x: Tensor, array or number.
        axis1: One axis.
        axis2: The other.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.swapaxes(x, 0, 2).shape
        (4, 3, 2)
    """
    return record(_SWAPAXES, (x,), axis1, axis2)


def tile(x: Operand, /, reps: int | Sequence[int]) -> TrackedTensor:
    """`x` laid side by side a number of times along each axis.

    Args:
        x: Tensor, array or number.
        reps: How often, for the last axes; new axes come in front when there are more.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.tile(x, (2, 1)).shape
        (4, 3)
    """
    return record(_TILE, (x,), reps)


def trace(x: Operand, /, offset: int = 0, axis1: int = 0, axis2: int = 1) -> TrackedTensor:
    """The sum of a diagonal through two axes of x.

    Args:
        x: Tensor, array or number.
        offset: Which diagonal; the main one is 0, those above it are positive.
        axis1: The axis of the rows.
        axis2: The axis of the columns.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.trace(x, 1).shape
        ()
    """
    return record(_TRACE, (x,), offset, axis1, axis2)


def tril(x: Operand, /, k: int = 0) -> TrackedTensor:
    """The lower triangles of x's last two axes, zeros above.

    Args:
        x: Tensor, array or number.
        k: The outermost diagonal that is kept; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.tril(x, 1).shape
        (2, 3, 4)
    """
    return record(_TRIL, (x,), k)


def triu(x: Operand, /, k: int = 0) -> TrackedTensor:
    """The upper triangles of x's last two axes, zeros below.

    Args:
        x: Tensor, array or number.
        k: The outermost diagonal that is kept; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3, 4)))
        >>> bh.triu(x, 1).shape
        (2, 3, 4)
    """
    return record(_TRIU, (x,), k)


def unstack(x: Operand, /, *, axis: int = 0) -> tuple[TrackedTensor, ...]:
    """The arrays that x consists of along an axis, as a tuple.

    Args:
        x: Tensor, array or number.
        axis: The axis that goes.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> [each.shape for each in bh.unstack(x, axis=1)]
        [(2,), (2,), (2,)]
    """
    return record_several(_UNSTACK, (x,), axis)


transpose = permute_dims
