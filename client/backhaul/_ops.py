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
    "cross",
    "dot",
    "imag",
    "inner",
    "kron",
    "matmul",
    "matrix_transpose",
    "matvec",
    "multiply",
    "negative",
    "outer",
    "real",
    "reshape",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "tensordot",
    "tril",
    "unstack",
    "vdot",
    "vecdot",
    "vecmat",
]

_ADD: Final = get("add")
_ASTYPE: Final = get("astype")
_BROADCAST_TO: Final = get("broadcast_to")
_CONJ: Final = get("conj")
_CROSS: Final = get("cross")
_DOT: Final = get("dot")
_IMAG: Final = get("imag")
_INNER: Final = get("inner")
_KRON: Final = get("kron")
_MATMUL: Final = get("matmul")
_MATRIX_TRANSPOSE: Final = get("matrix_transpose")
_MATVEC: Final = get("matvec")
_MULTIPLY: Final = get("multiply")
_NEGATIVE: Final = get("negative")
_OUTER: Final = get("outer")
_REAL: Final = get("real")
_RESHAPE: Final = get("reshape")
_STACK: Final = get("stack")
_STOP_GRADIENT: Final = get("stop_gradient")
_SUBTRACT: Final = get("subtract")
_SUM: Final = get("sum")
_TENSORDOT: Final = get("tensordot")
_TRIL: Final = get("tril")
_UNSTACK: Final = get("unstack")
_VDOT: Final = get("vdot")
_VECDOT: Final = get("vecdot")
_VECMAT: Final = get("vecmat")


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


def cross(x1: Operand, x2: Operand, /, *, axis: int = -1) -> TrackedTensor:
    """The cross product of vectors in three dimensions, other axes broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.
        axis: The axis that the vectors lie along.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((3, 2)))
        >>> x2 = tape.leaf(np.ones((3, 2)))
        >>> bh.cross(x1, x2, axis=0).shape
        (3, 2)
    """
    return record(_CROSS, (x1, x2), axis)


def dot(a: Operand, b: Operand, /) -> TrackedTensor:
    """NumPy's dot: the sum of products over the last axis of a and the last but one of b.

    Of vectors their inner product (without conjugation), of matrices the matrix product, with a 0-d
    operand the product. Unlike `matmul`, further axes do not go together: the result has those of
    a, then those of b.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2, 3)))
        >>> b = tape.leaf(np.ones((3, 4)))
        >>> bh.dot(a, b).shape
        (2, 4)
    """
    return record(_DOT, (a, b))


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


def inner(a: Operand, b: Operand, /) -> TrackedTensor:
    """The sum of products over the last axis of both, without conjugation.

    The result has the other axes of a, then those of b.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((3,)))
        >>> b = tape.leaf(np.ones((3,)))
        >>> bh.inner(a, b).shape
        ()
    """
    return record(_INNER, (a, b))


def kron(a: Operand, b: Operand, /) -> TrackedTensor:
    """The Kronecker product: blocks of b, scaled by the elements of a.

    Along each axis the size is the product of a's and b's; the array with fewer axes gets further
    ones of size 1 in front. NumPy's: there are no batch axes.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2, 3)))
        >>> b = tape.leaf(np.ones((3, 2)))
        >>> bh.kron(a, b).shape
        (6, 6)
    """
    return record(_KRON, (a, b))


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


def matvec(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Matrices times vectors: x1 over its last two axes, x2 over its last, other axes broadcasting.

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
        >>> x2 = tape.leaf(np.ones((3,)))
        >>> bh.matvec(x1, x2).shape
        (2,)
    """
    return record(_MATVEC, (x1, x2))


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


def outer(a: Operand, b: Operand, /) -> TrackedTensor:
    """The products of all elements of a with all of b, both arrays flattened: a matrix.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2,)))
        >>> b = tape.leaf(np.ones((3,)))
        >>> bh.outer(a, b).shape
        (2, 3)
    """
    return record(_OUTER, (a, b))


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


def tensordot(
    a: Operand, b: Operand, /, axes: int | Sequence[int | Sequence[int]] = 2
) -> TrackedTensor:
    """The sum of products over pairs of axes of a and b.

    The result has the other axes of a, then those of b.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.
        axes: How many: the last of a with the first of b, in order. Or two lists: the axes of a,
            and those of b that they go with.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2, 3)))
        >>> b = tape.leaf(np.ones((3, 4)))
        >>> bh.tensordot(a, b, 1).shape
        (2, 4)
    """
    return record(_TENSORDOT, (a, b), axes)


def tril(x: Operand, /, k: int = 0) -> TrackedTensor:
    """The lower triangles of x's last two axes, zeros above.

    Args:
        x: Tensor, array or number.
        k: The last diagonal that is kept; 0 is the main one, 1 above it.

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


def vdot(a: Operand, b: Operand, /) -> TrackedTensor:
    """The sum of conj(a) b over all elements, both arrays flattened.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((3,)))
        >>> b = tape.leaf(np.ones((3,)))
        >>> bh.vdot(a, b).shape
        ()
    """
    return record(_VDOT, (a, b))


def vecdot(x1: Operand, x2: Operand, /, *, axis: int = -1) -> TrackedTensor:
    """The sum of conj(x1) x2 along an axis, other axes broadcasting.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.
        axis: The axis that the vectors lie along.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((3, 2)))
        >>> x2 = tape.leaf(np.ones((3, 2)))
        >>> bh.vecdot(x1, x2, axis=0).shape
        (2,)
    """
    return record(_VECDOT, (x1, x2), axis)


def vecmat(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """Conjugated vectors times matrices: x1 over its last axis, x2 over its last two.

    Other axes broadcast.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2,)))
        >>> x2 = tape.leaf(np.ones((2, 3)))
        >>> bh.vecmat(x1, x2).shape
        (3,)
    """
    return record(_VECMAT, (x1, x2))
