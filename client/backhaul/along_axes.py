"""Functions of `backhaul_proto.catalog.sorting` and `scans` with NumPy's arguments."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np

from backhaul import _ops
from backhaul.handle import Handle
from backhaul.recording import Operand, record
from backhaul.shaping import concat
from backhaul_proto.catalog.ops import Op, get
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.catalog.shapes import canonical_axis
from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

__all__ = ["argsort", "cumprod", "cumsum", "diff", "sort", "trapezoid"]

_ARGSORT: Final = get("argsort")
_DIFF: Final = get("diff")
_PROD: Final = get("cumulative_prod")
_RESHAPE: Final = get("reshape")
_SORT: Final = get("sort")
_SUM: Final = get("cumulative_sum")


def sort(x: Operand, /, axis: int | None = -1) -> TrackedTensor:
    """The elements in ascending order along an axis, NaN last.

    Each takes its derivative along; equals, in the order in which they stand.

    Args:
        x: Tensor, array or number; real.
        axis: The axis; None for the elements in C order.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> bh.sort(bh.Tape().leaf([3.0, 1.0, 2.0])).numpy()
        array([1., 2., 3.])
    """
    return _along(_SORT, x, axis)


def argsort(x: Operand, /, axis: int | None = -1) -> TrackedTensor:
    """Where the elements stand that `sort` gives, as int64; equals in their order.

    Args:
        x: Tensor, array or number; real.
        axis: The axis; None for the elements in C order.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> bh.argsort(bh.Tape().leaf([3.0, 1.0, 2.0])).numpy()
        array([1, 2, 0])
    """
    return _along(_ARGSORT, x, axis)


def cumsum(x: Operand, /, axis: int | None = None) -> TrackedTensor:
    """The sums of the elements up to each; see `cumulative_sum`.

    Args:
        x: Tensor, array or number.
        axis: The axis; None for the elements in C order.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> bh.cumsum(bh.Tape().leaf([[1.0, 2.0], [3.0, 4.0]])).numpy()
        array([ 1.,  3.,  6., 10.])
    """
    return _along(_SUM, x, axis)


def cumprod(x: Operand, /, axis: int | None = None) -> TrackedTensor:
    """The products of the elements up to each; see `cumulative_prod`.

    Args:
        x: Tensor, array or number.
        axis: The axis; None for the elements in C order.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> bh.cumprod(bh.Tape().leaf([[1.0, 2.0], [3.0, 4.0]]), axis=1).numpy()
        array([[ 1.,  2.],
               [ 3., 12.]])
    """
    return _along(_PROD, x, axis)


def diff(
    x: Operand,
    /,
    n: int = 1,
    axis: int = -1,
    *,
    prepend: Operand | None = None,
    append: Operand | None = None,
) -> TrackedTensor:
    """The differences x[i + 1] - x[i] along an axis, taken n times.

    Args:
        x: Tensor, array or number.
        n: How often differences are taken.
        axis: The axis.
        prepend: What is put before x along the axis first: an array, or one number for all lanes.
        append: What is put after it.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([1.0, 4.0, 9.0])
        >>> bh.diff(x).numpy(), bh.diff(x, prepend=0.0).numpy()
        (array([3., 5.]), array([1., 3., 5.]))
    """
    ends = [_edge(x, prepend, axis), x, _edge(x, append, axis)]
    given = [each for each in ends if each is not None]
    return record(_DIFF, (x if len(given) == 1 else concat(given, axis),), n, axis)


def _edge(x: Operand, given: Operand | None, axis: int) -> Operand | None:
    """What is put beside x: one number becomes one element of each lane."""
    if given is None or np.ndim(given):
        return given
    shape = list(np.shape(x))
    shape[canonical_axis(axis, len(shape))] = 1
    if isinstance(given, Handle):
        return _ops.broadcast_to(given, shape)
    return np.broadcast_to(given, shape)


def trapezoid(
    y: Operand, /, x: Operand | None = None, dx: Operand = 1.0, axis: int = -1
) -> TrackedTensor:
    """The integral along an axis by the trapezoidal rule.

    Args:
        y: Tensor, array or number: the values of what is integrated.
        x: Where they are taken: of the shape of y, or of one axis; None for places dx apart.
        dx: The distance of the places, when x is None.
        axis: The axis.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> float(bh.trapezoid(bh.Tape().leaf([1.0, 2.0, 3.0]), x=[4.0, 6.0, 8.0]))
        8.0
    """
    y = y if isinstance(y, Handle) else as_array(y, what="y of trapezoid")
    at = canonical_axis(axis, np.ndim(y))
    before: Any = (slice(None),) * at
    widths = dx if x is None else _widths(x, np.ndim(y), at)
    heights = _ops.add if isinstance(y, Handle) else np.add
    both = heights(y[(*before, slice(1, None))], y[(*before, slice(None, -1))])
    return _ops.sum(_ops.multiply(_ops.multiply(widths, both), 0.5), at)


def _widths(x: Operand, ndim: int, axis: int) -> Operand:
    """The distances between places, along the axis."""
    x = x if isinstance(x, Handle) else as_array(x, what="x of trapezoid")
    if np.ndim(x) == 0:
        raise make_error(
            "SHAPE_MISMATCH",
            "trapezoid: x must be the places of the samples, along an axis, not one number; for a "
            "distance between them give dx=.",
            op="trapezoid",
            operand="x",
            actual=(),
        )
    if np.ndim(x) != 1:
        return np.diff(x, axis=axis)
    return np.reshape(np.diff(x), (-1, *(1,) * (ndim - 1 - axis)))


def _along(entry: Op, x: Operand, axis: int | None) -> TrackedTensor:
    if axis is None:
        x, axis = record(_RESHAPE, (x,), -1), 0
    return record(
        entry, (x,), *(axis if spec.name == "axis" else None for spec in entry.attributes)
    )
