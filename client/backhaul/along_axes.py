"""Functions of `backhaul_proto.catalog.sorting` and `scans` as NumPy has them: axis None is all elements."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul.recording import Operand, record
from backhaul_proto.catalog.ops import Op, get

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

__all__ = ["argsort", "cumprod", "cumsum", "sort"]

_ARGSORT: Final = get("argsort")
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


def _along(entry: Op, x: Operand, axis: int | None) -> TrackedTensor:
    if axis is None:
        x, axis = record(_RESHAPE, (x,), -1), 0
    return record(
        entry, (x,), *(axis if spec.name == "axis" else None for spec in entry.attributes)
    )
