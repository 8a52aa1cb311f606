"""Linear recurrences along an axis of NumPy arrays."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy.linalg import lapack

Array = np.ndarray[Any, Any]

_SOLVERS: Final = {
    "f": lapack.stbtrs,
    "d": lapack.dtbtrs,
    "F": lapack.ctbtrs,
    "D": lapack.ztbtrs,
}
"""By the dtype's character, what solves a triangular system with few diagonals."""


def linear_recurrence(a: Array, b: Array, *, axis: int, reverse: bool = False) -> Array:
    """The y with y[i] = a[i] y[i - 1] + b[i] along the axis, 0 before it; from its end when reversed.

    One element after the other, so that no product is taken that the recurrence has not: in a tree of
    products some overflow where y does not. It goes along the shorter way: step by step for all lanes at
    once, or lane by lane in LAPACK, for which this is a system of two diagonals.
    """
    dtype = np.result_type(a, b)
    y = np.empty(b.shape, dtype)
    if not y.size:
        return y
    factors, terms, results = (np.moveaxis(each, axis, 0) for each in (a, b, y))
    if reverse:
        factors, terms, results = factors[::-1], terms[::-1], results[::-1]
    if len(terms) <= terms[0].size:
        results[0] = terms[0]
        for i in range(1, len(terms)):
            np.multiply(factors[i], results[i - 1], out=results[i])
            results[i] += terms[i]
        return y
    solve = _SOLVERS[dtype.char]
    band = np.empty((2, len(terms)), dtype, order="F")
    for lane in np.ndindex(terms.shape[1:]):
        at = (slice(None), *lane)
        band[0], band[1, :-1] = 1, -factors[at][1:]
        results[at] = solve(band, terms[at], uplo="L", diag="U")[0]
    return y
