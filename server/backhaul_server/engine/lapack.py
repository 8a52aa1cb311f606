"""Factorisations and triangular solves on stacks of matrices, for NumPy arrays.

NumPy keeps no factorisation. SciPy's functions take single matrices, and on small ones thirty times as
long as what they call; LAPACK's getrs, trtrs and laswp start threads for a matrix of two columns. So LU
is LAPACK's getrf, and what follows is BLAS's trsm. Failures are numpy.linalg.LinAlgError.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import blas, lapack

Array = Any

SMALL: Final = 16
"""Up to this size a stack is factorised anew for each solve: that is one call for all of it, and takes
less time than one call for each matrix with the factors that it has."""


def _routines(module: Any, name: str) -> Mapping[np.dtype, Callable[..., Any]]:
    """The routine for each dtype."""
    prefixes = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
    return {np.dtype(dtype): getattr(module, prefix + name) for dtype, prefix in prefixes.items()}


_GETRF: Final = _routines(lapack, "getrf")
_TRSM: Final = _routines(blas, "trsm")
_TRANSPOSITIONS: Final = {"N": 0, "T": 1, "C": 2}


class Factors(NamedTuple):
    """LU factors of a matrix or a stack of them.

    A tuple, so that what a tape holds is counted with them (`tape_memory`).

    Attributes:
        matrix: what was factorised.
        lu: L and U of each matrix; empty when it is factorised anew for each solve.
        rows: of each, the order in which its rows stand in L U.
    """

    matrix: Array
    lu: tuple[Array, ...]
    rows: tuple[Array, ...]


def lu_factor(a: Array) -> Factors:
    """The LU factorisation of square matrices.

    Raises:
        LinAlgError: one is singular, as far as its factors tell.
    """
    n = a.shape[-1]
    if a.size == 0 or (a.ndim > 2 and n <= SMALL):
        return Factors(a, (), ())
    getrf = _GETRF[a.dtype]
    found = [getrf(each) for each in a.reshape((-1, n, n))]
    if any(info for _, _, info in found):
        raise np.linalg.LinAlgError("singular matrix")
    rows = tuple(_rows(pivots) for _, pivots, _ in found)
    return Factors(a, tuple(lu for lu, _, _ in found), rows)


def _rows(pivots: Array) -> Array:
    """The permutation that successive exchanges of rows make."""
    column = np.arange(len(pivots), dtype=np.float64)[:, None]
    return lapack.dlaswp(column, pivots)[:, 0].astype(np.intp)


def lu_solve(factors: Factors, b: Array, *, adjoint: bool = False) -> Array:
    """The x with a x = b, or a^H x = b, on the last two axes of both.

    Raises:
        LinAlgError: a matrix is singular that was not factorised before.
    """
    a = factors.matrix
    if not factors.lu:
        return np.linalg.solve(a.mT.conj() if adjoint else a, b)
    dtype = a.dtype
    trsm = _TRSM[dtype]

    def solve(number: int, right: Array) -> Array:
        lu, rows = factors.lu[number], factors.rows[number]
        if adjoint:
            y = trsm(1, lu, right, trans_a=2)
            x = np.empty_like(y)
            x[rows] = trsm(1, lu, y, lower=1, trans_a=2, diag=1)
            return x
        y = trsm(1, lu, right[rows], lower=1, diag=1)
        return trsm(1, lu, y)

    return _each(solve, a.shape[:-2], b.astype(dtype, copy=False))


def solve_triangular(
    a: Array, b: Array, *, lower: bool, trans: str = "N", unit_diagonal: bool = False
) -> Array:
    """The x with a x = b (a^T x = b for trans "T", a^H x = b for "C"), on the last two axes of both.

    It is not finite where an element of a diagonal is zero.
    """
    dtype = np.result_type(a, b)
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    trsm, how = _TRSM[dtype], _TRANSPOSITIONS[trans]
    matrices = a.reshape((math.prod(a.shape[:-2]), *a.shape[-2:]))

    def solve(number: int, right: Array) -> Array:
        return trsm(1, matrices[number], right, lower=lower, trans_a=how, diag=unit_diagonal)

    return _each(solve, a.shape[:-2], b)


def _each(solve: Callable[[int, Array], Array], stack: tuple[int, ...], b: Array) -> Array:
    """``solve(number, right)`` for each matrix of b and the number of the matrix of the stack beside it."""
    if not stack and b.ndim == 2 and b.size:
        return solve(0, b)
    batch = np.broadcast_shapes(stack, b.shape[:-2])
    rights = np.broadcast_to(b, batch + b.shape[-2:])
    out = np.empty(rights.shape, b.dtype)
    if out.size:
        which = np.broadcast_to(np.arange(math.prod(stack)).reshape(stack), batch)
        for index in np.ndindex(batch):
            out[index] = solve(int(which[index]), rights[index])
    return out


def expm(a: Array) -> Array:
    """The exponential of square matrices; NaN for one that is not finite, or whose exponential overflows."""
    finite = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    if not finite.all():
        return np.where(finite, expm(np.where(finite, a, 0)), np.nan).astype(a.dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return scipy.linalg.expm(a)
