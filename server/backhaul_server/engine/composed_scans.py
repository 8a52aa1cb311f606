"""What runs along an axis, in the array API's own terms."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Array = Any


def cumulative_logsumexp(xp: Any, x: Array, axis: int) -> Array:
    """The logarithm of the cumulative sum of exponentials.

    By doubling: after k passes an element has the sum of the 2**k up to it, so there are as many passes as
    the axis's size has binary digits (Hillis and Steele, Data parallel algorithms, 1986).
    """
    y = xp.moveaxis(x, axis, -1)
    reach, n = 1, y.shape[-1]
    while reach < n:
        added = xp.logaddexp(y[..., reach:], y[..., :-reach])
        y = xp.concat([y[..., :reach], added], axis=-1)
        reach *= 2
    return xp.moveaxis(y, -1, axis)


def linear_recurrence(xp: Any, a: Array, b: Array, *, axis: int, reverse: bool = False) -> Array:
    """The y with y[i] = a[i] y[i - 1] + b[i] along the axis, 0 before it; from its end when reversed.

    One element after the other, so that no product is taken that the recurrence has not: in a tree of
    products some overflow where y does not.
    """
    dtype = xp.result_type(a, b)
    terms = xp.unstack(xp.astype(b, dtype), axis=axis)
    factors = xp.unstack(xp.astype(a, dtype), axis=axis)
    order = range(len(terms) - 1, -1, -1) if reverse else range(len(terms))
    found = list(terms)
    before = None
    for i in order:
        if before is not None:
            found[i] = factors[i] * before + terms[i]
        before = found[i]
    return xp.stack(found, axis=axis) if found else xp.astype(b, dtype)


COMPOSED_SCANS: Final[Mapping[str, Callable[..., Any]]] = {
    "cumulative_logsumexp": cumulative_logsumexp,
    "linear_recurrence": linear_recurrence,
}
"""By the names that rules use."""
