"""Norms of matrices, and NumPy's norm of either kind, by the ops that they are made of."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from backhaul import _ops
from backhaul.recording import Operand, record
from backhaul_proto.catalog.avals import FLOAT64
from backhaul_proto.catalog.ops import get
from backhaul_proto.catalog.shapes import canonical_axis, reduced_shape
from backhaul_proto.errors import BackhaulError, make_error

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

__all__ = ["matrix_norm", "norm"]

_SVDVALS: Final = get("linalg.svdvals")
_VECTOR_NORM: Final = get("linalg.vector_norm")

Order = float | str | None


def matrix_norm(
    x: Operand, /, *, keepdims: bool = False, ord: float | str = "fro"
) -> TrackedTensor:
    """The norm of matrices, the last two axes of x: a real number each.

    Args:
        x: Tensor, array or number of two axes or more.
        keepdims: Whether the two axes stay, with size 1.
        ord: 'fro' for the root of the sum of squares, 1 and -1 for the greatest and the least sum of absolute
            values of a column, inf and -inf for those of a row, 2 and -2 for the greatest and the least
            singular value, 'nuc' for the sum of the singular values.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([[3.0, 0.0], [0.0, -4.0]])
        >>> float(bh.linalg.matrix_norm(x)), float(bh.linalg.matrix_norm(x, ord=1))
        (5.0, 4.0)
    """
    ndim = np.ndim(x)
    if ndim < 2:
        raise make_error(
            "SHAPE_MISMATCH",
            f"matrix_norm: x must have at least two axes, not shape {np.shape(x)}; vector_norm is for one.",
            op="linalg.matrix_norm",
            operand="x",
            actual=np.shape(x),
        )
    return _of_matrix(x, ord, ndim - 2, ndim - 1, keepdims)


def norm(
    x: Operand,
    /,
    ord: Order = None,
    axis: int | Sequence[int] | None = None,
    keepdims: bool = False,
) -> TrackedTensor:
    """The norm of a vector or a matrix, as NumPy's: `vector_norm` over one axis, `matrix_norm` over two.

    Args:
        x: Tensor, array or number.
        ord: The order; None for the root of the sum of squares.
        axis: The axis of vectors, or the two of matrices. Without it, x is one vector or matrix by its number
            of axes; with ord None too, all its elements are one vector.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([[3.0, 4.0], [0.0, 12.0]])
        >>> float(bh.linalg.norm(x)), bh.linalg.norm(x, 1, axis=1).numpy()
        (13.0, array([ 7., 12.]))
    """
    if axis is None and ord is None:
        return record(_VECTOR_NORM, (x,), None, keepdims, 2.0)
    ndim = np.ndim(x)
    axes: Any = range(ndim) if axis is None else axis
    axes = [axes] if isinstance(axes, int) else list(axes)
    if len(axes) == 1:
        if isinstance(ord, str):
            raise _no_such_order(ord, "a vector, whose order is a number")
        return record(_VECTOR_NORM, (x,), axes, keepdims, 2.0 if ord is None else ord)
    if len(axes) == 2:
        rows, columns = (canonical_axis(each, ndim) for each in axes)
        if rows != columns:
            return _of_matrix(x, "fro" if ord is None else ord, rows, columns, keepdims)
    raise make_error(
        "INVALID_ATTRIBUTE",
        f"norm: axis={axes} of an array of {ndim} dimension(s) names no vector and no matrix; give one axis "
        "or two different ones.",
        op="linalg.norm",
        attribute="axis",
        actual=axes,
    )


def _of_matrix(x: Operand, ord: Any, rows: int, columns: int, keepdims: bool) -> TrackedTensor:
    comparable = isinstance(ord, str | float | int | np.number)  # an array's == is no truth
    if not comparable:
        raise _no_such_order(ord, "a matrix; there are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf")
    if ord in ("fro", "f"):
        return record(_VECTOR_NORM, (x,), (rows, columns), keepdims, 2.0)
    if ord in (1, -1, math.inf, -math.inf):
        sizes = _ops.abs(_inexact(x))
        sums = _ops.sum(sizes, rows if abs(ord) == 1 else columns, keepdims=True)
        pick = _ops.max if ord > 0 else _ops.min
        return pick(sums, (rows, columns), keepdims=keepdims)
    if ord in (2, -2, "nuc"):
        shape = np.shape(x)
        values = record(_SVDVALS, (_ops.moveaxis(x, (rows, columns), (-2, -1)),))
        found = (_ops.sum if ord == "nuc" else _ops.max if ord > 0 else _ops.min)(values, -1)
        kept = reduced_shape(shape, (rows, columns), True)
        return _ops.reshape(found, kept) if keepdims else found
    raise _no_such_order(ord, "a matrix; there are 'fro', 'nuc', 1, -1, 2, -2, inf and -inf")


def _inexact(x: Any) -> Operand:
    """Integers as float64, as a norm is a real number."""
    dtype = np.asarray(x).dtype if not hasattr(x, "dtype") else x.dtype
    return x if dtype.kind in "fc" else _ops.astype(x, FLOAT64)


def _no_such_order(ord: object, of: str) -> BackhaulError:
    return make_error(
        "INVALID_ATTRIBUTE",
        f"norm: ord={ord!r} is no order of {of}.",
        op="linalg.norm",
        attribute="ord",
        actual=ord,
    )
