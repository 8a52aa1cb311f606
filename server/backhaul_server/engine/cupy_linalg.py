"""Factorisations and triangular solves by cuSOLVER and cuBLAS, on stacks of matrices.

CuPy's functions of ``cupyx.scipy.linalg`` take no two shapes that broadcast, and its LU factorisation
single matrices. Failures are numpy.linalg.LinAlgError.
"""

from __future__ import annotations

import warnings
from typing import Any, NamedTuple

import cupy
import numpy as np

Array = Any

# It is raised as an error below.
warnings.filterwarnings("ignore", "Diagonal number .* is exactly zero", RuntimeWarning)


class Factors(NamedTuple):
    """LU factors of a matrix; of a stack the matrices themselves.

    A tuple, so that what a tape holds is counted with them (`tape_memory`).

    Attributes:
        matrix: what was factorised.
        lu: L and U; empty where it is factorised anew for each solve: then that is one call for a stack.
        pivots: of each, the exchanges of rows.
    """

    matrix: Array
    lu: tuple[Array, ...]
    pivots: tuple[Array, ...]


def lu_factor(a: Array) -> Factors:
    """The LU factorisation of square matrices.

    Raises:
        LinAlgError: one is singular, as far as its factors tell.
    """
    if a.size == 0 or a.ndim > 2:
        return Factors(a, (), ())
    from cupyx.scipy import linalg

    lu, pivots = linalg.lu_factor(a, check_finite=False)
    if bool(cupy.any(cupy.diagonal(lu) == 0)):
        raise np.linalg.LinAlgError("singular matrix")
    return Factors(a, (lu,), (pivots,))


def lu_solve(factors: Factors, b: Array, *, adjoint: bool = False) -> Array:
    """The x with a x = b, or a^H x = b, on the last two axes of both.

    Raises:
        LinAlgError: a matrix is singular that was not factorised before.
    """
    a = factors.matrix
    b = b.astype(a.dtype, copy=False)
    if not factors.lu:
        a, b = _broadcast(cupy.conj(a.mT) if adjoint else a, b)
        return cupy.linalg.solve(a, b) if b.size else cupy.empty_like(b)
    if not b.size:
        return cupy.empty_like(b)
    from cupyx.scipy import linalg

    return _as_columns(
        lambda right: linalg.lu_solve(
            (factors.lu[0], factors.pivots[0]), right, 2 if adjoint else 0, check_finite=False
        ),
        b,
    )


def solve_triangular(
    a: Array, b: Array, *, lower: bool, trans: str = "N", unit_diagonal: bool = False
) -> Array:
    """The x with a x = b (a^T x = b for trans "T", a^H x = b for "C"), on the last two axes of both.

    It is not finite where an element of a diagonal is zero.
    """
    dtype = cupy.result_type(a, b)
    a, b = a.astype(dtype, copy=False), b.astype(dtype, copy=False)
    from cupyx.scipy import linalg

    def solve(a: Array, b: Array) -> Array:
        return linalg.solve_triangular(a, b, trans, lower, unit_diagonal)

    if a.ndim == 2:
        return _as_columns(lambda right: solve(a, right), b) if b.size else cupy.empty_like(b)
    a, b = _broadcast(a, b)
    return solve(a, b) if b.size else cupy.empty_like(b)


def _as_columns(solve: Any, b: Array) -> Array:
    """``solve(b)`` for one matrix: a stack of right sides is one right side with more columns."""
    if b.ndim == 2:
        return solve(b)
    front = cupy.moveaxis(b, -2, 0)
    return cupy.moveaxis(solve(front.reshape(len(front), -1)).reshape(front.shape), 0, -2)


def _broadcast(a: Array, b: Array) -> tuple[Array, Array]:
    """Both as stacks of the same shape."""
    batch = np.broadcast_shapes(a.shape[:-2], b.shape[:-2])
    return (
        cupy.broadcast_to(a, batch + a.shape[-2:]),
        cupy.broadcast_to(b, batch + b.shape[-2:]),
    )
