"""Factorisations and triangular solves on stacks of matrices, for NumPy arrays.

NumPy keeps no factorisation, and SciPy's functions take single matrices and thirty times as long as
LAPACK's own on small ones, so LAPACK is called directly. They raise numpy.linalg.LinAlgError.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

Array = Any

SMALL: Final = 16
"""Up to this size a stack is factorised anew for each solve: that is one call for all of it, and takes
less time than one call for each matrix with the factors that it has."""


def _routines(name: str) -> Mapping[np.dtype, Callable[..., Any]]:
    """The LAPACK routine for each dtype."""
    prefixes = {"float32": "s", "float64": "d", "complex64": "c", "complex128": "z"}
    return {np.dtype(dtype): getattr(lapack, prefix + name) for dtype, prefix in prefixes.items()}


_GETRF: Final = _routines("getrf")
_GETRS: Final = _routines("getrs")
_TRTRS: Final = _routines("trtrs")
_TRANSPOSITIONS: Final = {"N": 0, "T": 1, "C": 2}


@dataclass(frozen=True, slots=True)
class Factors:
    """LU factors of a matrix or a stack of them.

    Attributes:
        matrix: what was factorised.
        lu: L and U of each matrix; empty when it is factorised anew for each solve.
        pivots: of each.
    """

    matrix: Array
    lu: tuple[Array, ...]
    pivots: tuple[Array, ...]


def lu_factor(a: Array) -> Factors:
    """The LU factorisation of square matrices.

    Raises:
        LinAlgError: one is singular, as far as its factors tell.
    """
    n = a.shape[-1]
    if n == 0 or (a.ndim > 2 and n <= SMALL):
        return Factors(a, (), ())
    getrf = _GETRF[a.dtype]
    found = [getrf(each) for each in a.reshape((-1, n, n))]
    if any(info for _, _, info in found):
        raise np.linalg.LinAlgError("singular matrix")
    return Factors(a, tuple(lu for lu, _, _ in found), tuple(pivots for _, pivots, _ in found))


def lu_solve(factors: Factors, b: Array, *, adjoint: bool = False) -> Array:
    """The x with a x = b, or a^H x = b; b's last two axes are a matrix, or b a vector (one axis).

    Raises:
        LinAlgError: a matrix is singular that was not factorised before.
    """
    a = factors.matrix
    if not factors.lu:
        return np.linalg.solve(a.mT.conj() if adjoint else a, b)
    dtype = np.result_type(a, b)
    b = b.astype(dtype, copy=False)
    getrs = _GETRS[dtype]
    trans = 2 if adjoint else 0
    if a.ndim == 2 and b.ndim <= 2 and b.size:
        return getrs(factors.lu[0], factors.pivots[0], b, trans)[0]
    vector = b.ndim == 1
    columns = b[:, None] if vector else b
    batch = np.broadcast_shapes(a.shape[:-2], columns.shape[:-2])
    numbers = np.broadcast_to(np.arange(len(factors.lu)).reshape(a.shape[:-2]), batch)
    stack = np.broadcast_to(columns, batch + columns.shape[-2:])
    out = np.empty(stack.shape, dtype)
    for index in np.ndindex(batch if out.size else (0,)):
        number = numbers[index]
        out[index] = getrs(factors.lu[number], factors.pivots[number], stack[index], trans)[0]
    return out[..., 0] if vector else out


def solve_triangular(
    a: Array, b: Array, *, lower: bool, trans: str = "N", unit_diagonal: bool = False
) -> Array:
    """The x with a x = b (a^T x = b for trans "T", a^H x = b for "C"), on the last two axes of both.

    Raises:
        LinAlgError: an element of a diagonal is zero.
    """
    dtype = np.result_type(a, b)
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    if b.size == 0 or 0 in batch:
        return np.zeros((*batch, *b.shape[-2:]), dtype)
    trtrs = _TRTRS[dtype]

    def solve(left: Array, right: Array) -> Array:
        x, info = trtrs(left, right, lower, _TRANSPOSITIONS[trans], unit_diagonal)
        if info:
            raise np.linalg.LinAlgError("singular matrix")
        return x

    if not batch:
        return solve(a, b)
    lefts = np.broadcast_to(a, batch + a.shape[-2:])
    rights = np.broadcast_to(b, batch + b.shape[-2:])
    out = np.empty(rights.shape, dtype)
    for index in np.ndindex(batch):
        out[index] = solve(lefts[index], rights[index])
    return out


def expm(a: Array) -> Array:
    """The exponential of square matrices; NaN for one that is not finite, or whose exponential overflows."""
    finite = np.isfinite(a).all(axis=(-2, -1), keepdims=True)
    if not finite.all():
        return np.where(finite, expm(np.where(finite, a, 0)), np.nan).astype(a.dtype, copy=False)
    with np.errstate(over="ignore", invalid="ignore", under="ignore"):
        return scipy.linalg.expm(a)
