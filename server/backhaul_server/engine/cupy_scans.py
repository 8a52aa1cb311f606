"""Linear recurrences along an axis of CuPy's arrays."""

from __future__ import annotations

from typing import Any

import cupy

Array = Any

KERNEL = cupy.ElementwiseKernel(
    "raw T a, raw T b, int64 n, int64 step, bool reverse",
    "raw T y",
    """
    const long long lane = i;
    const long long first = (lane / step) * n * step + lane % step;
    T before = b[first + (reverse ? n - 1 : 0) * step];
    y[first + (reverse ? n - 1 : 0) * step] = before;
    for (long long k = 1; k < n; ++k) {
        const long long at = first + (reverse ? n - 1 - k : k) * step;
        before = a[at] * before + b[at];
        y[at] = before;
    }
    """,
    "backhaul_linear_recurrence",
)
"""A thread a lane, each along its lane element by element; ``step`` elements lie between two of a lane."""


def linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool = False) -> Array:
    """The y with y[i] = a[i] y[i - 1] + b[i] along the axis, 0 before it; from its end when reversed.

    One element after the other, so that no product is taken that the recurrence has not: in a tree of
    products some overflow where y does not.
    """
    dtype = cupy.result_type(a, b)
    a, b = cupy.ascontiguousarray(a, dtype), cupy.ascontiguousarray(b, dtype)
    y = cupy.empty(b.shape, dtype)
    n = b.shape[axis]
    if y.size:
        step = b.strides[axis] // b.itemsize
        KERNEL(a, b, n, step, reverse, y, size=y.size // n)
    return y
