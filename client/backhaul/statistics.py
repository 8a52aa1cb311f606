"""Functions of `backhaul_proto.catalog.statistics` whose arguments the catalog cannot say."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from backhaul import _ops
from backhaul.handle import Handle
from backhaul.recording import Operand, record
from backhaul_proto.catalog.ops import Op, get
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.catalog.shapes import canonical_axes, canonical_axis
from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from backhaul.tensor import TrackedTensor

__all__ = ["average", "percentile", "ptp", "quantile", "std", "var"]

_QUANTILE: Final = get("quantile")
_STD: Final = get("std")
_VAR: Final = get("var")

Axes = int | Sequence[int] | None


def var(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
) -> TrackedTensor:
    """The variance over axes: the mean of abs(x - mean(x))**2, a real number.

    It is exactly 0 where all elements are equal. Where the number of elements is not greater than
    ddof, it is NaN or infinite.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        ddof: What the number of elements is lessened by, to divide by it.
        correction: ddof by the array API's name.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right; both ddof and correction.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([1.0, 2.0, 3.0])
        >>> float(bh.var(x, ddof=1))
        1.0
    """
    return _spread(_VAR, x, axis, ddof, correction, keepdims)


def std(
    x: Operand,
    /,
    axis: Axes = None,
    *,
    ddof: float = 0,
    correction: float | None = None,
    keepdims: bool = False,
) -> TrackedTensor:
    """The standard deviation over axes: the square root of `var`.

    Where all elements are equal, its derivatives are 0.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        ddof: What the number of elements is lessened by, to divide by it.
        correction: ddof by the array API's name.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right; both ddof and correction.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([2.0, 2.0, 2.0])
        >>> y = bh.std(x)
        >>> float(y), x.tape.pullback(y)[x]
        (0.0, array([0., 0., 0.]))
    """
    return _spread(_STD, x, axis, ddof, correction, keepdims)


def _spread(
    entry: Op, x: Operand, axis: Axes, ddof: float, correction: float | None, keepdims: bool
) -> TrackedTensor:
    if correction is not None and ddof:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{entry.name}: ddof and correction are two names of one number; give one of them.",
            op=entry.name,
            attribute="correction",
        )
    return record(entry, (x,), axis, ddof if correction is None else correction, keepdims)


def ptp(x: Operand, /, axis: Axes = None, *, keepdims: bool = False) -> TrackedTensor:
    """The range over axes: the greatest element less the least.

    Args:
        x: Tensor, array or number; real.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> float(bh.ptp(bh.Tape().leaf([1.0, 4.0, 2.0])))
        3.0
    """
    return _ops.subtract(_ops.max(x, axis, keepdims=keepdims), _ops.min(x, axis, keepdims=keepdims))


def quantile(
    x: Operand,
    /,
    q: float | Sequence[float] | NDArray[Any],
    axis: Axes = None,
    *,
    keepdims: bool = False,
) -> TrackedTensor:
    """The values over axes that shares q of the elements lie below, interpolated linearly.

    Elements equal to one of the two that it lies between share that one's derivative evenly.

    Args:
        x: Tensor, array or number; real.
        q: A share between 0 and 1, or a list of them: the result has an axis more then, the first.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> x = bh.Tape().leaf([1.0, 2.0, 3.0, 5.0])
        >>> bh.quantile(x, [0.5, 1.0]).numpy()
        array([2.5, 5. ])
    """
    return _quantiles("quantile", x, q, 1.0, axis, keepdims)


def percentile(
    x: Operand,
    /,
    q: float | Sequence[float] | NDArray[Any],
    axis: Axes = None,
    *,
    keepdims: bool = False,
) -> TrackedTensor:
    """`quantile` with percents in the place of shares.

    Args:
        x: Tensor, array or number; real.
        q: Percents between 0 and 100, one or a list.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> float(bh.percentile(bh.Tape().leaf([1.0, 2.0, 4.0]), 50))
        2.0
    """
    return _quantiles("percentile", x, q, 100.0, axis, keepdims)


def _quantiles(
    name: str, x: Operand, q: Any, whole: float, axis: Axes, keepdims: bool
) -> TrackedTensor:
    shares = None if isinstance(q, Handle) else as_array(q, what=f"q of {name}")
    if (
        shares is None
        or shares.dtype.kind == "c"
        or shares.ndim > 1
        or not np.all((shares >= 0) & (shares <= whole))
    ):
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{name}: q is {q!r:.100}; it is a number from 0 to {whole:g}, or a list of them.",
            op=name,
            attribute="q",
            expected=f"0..{whole:g}",
        )
    found = [
        record(_QUANTILE, (x,), float(each), axis, keepdims) for each in shares.ravel() / whole
    ]
    return found[0] if shares.ndim == 0 else _ops.stack(found)


def average(
    x: Operand, /, axis: Axes = None, weights: Operand | None = None, *, keepdims: bool = False
) -> TrackedTensor:
    """The mean over axes, in which each element has a weight: sum(x * weights) / sum(weights).

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        weights: Tensor, array or number of the shape of x, or with the reduced axes alone; None for equal
            ones.
        keepdims: Whether reduced axes stay, with size 1.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right; SHAPE_MISMATCH for the weights.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import backhaul as bh
        >>> float(bh.average(bh.Tape().leaf([1.0, 2.0]), weights=[3.0, 1.0]))
        1.25
    """
    if weights is None:
        return _ops.mean(x, axis, keepdims=keepdims)
    shape, own = np.shape(x), np.shape(weights)
    if own != shape:
        axes = canonical_axes(
            axis if axis is None or isinstance(axis, int) else tuple(axis), len(shape)
        )
        if own != tuple(shape[i] for i in axes) or axes != _in_given_order(axis, len(shape)):
            raise make_error(
                "SHAPE_MISMATCH",
                f"average: weights of shape {own} fit neither x of shape {shape} nor its axes {axis}, which "
                "must be named in ascending order.",
                op="average",
                operand="weights",
                expected=shape,
                actual=own,
            )
        wide = tuple(n if i in axes else 1 for i, n in enumerate(shape))
        weights = _reshaped(weights, wide)
    total = _ops.sum(_ops.multiply(x, weights), axis, keepdims=keepdims)
    return _ops.divide(total, _summed(weights, axis, keepdims))


def _in_given_order(axis: Axes, ndim: int) -> tuple[int, ...]:
    if axis is None:
        return tuple(range(ndim))
    return tuple(canonical_axis(each, ndim) for each in ([axis] if isinstance(axis, int) else axis))


def _reshaped(weights: Operand, shape: tuple[int, ...]) -> Operand:
    if isinstance(weights, Handle):
        return _ops.reshape(weights, shape)
    return as_array(weights, what="weights of average").reshape(shape)


def _summed(weights: Operand, axis: Axes, keepdims: bool) -> Operand:
    if isinstance(weights, Handle):
        return _ops.sum(weights, axis, keepdims=keepdims)
    over = axis if axis is None or isinstance(axis, int) else tuple(axis)
    return np.sum(as_array(weights, what="weights of average"), axis=over, keepdims=keepdims)
