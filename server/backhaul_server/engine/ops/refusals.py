"""What it means when linear algebra fails on its data: a typed error that names the op, or NaN."""

from __future__ import annotations

from typing import Any

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_server.engine.arrays import LinAlgError
from backhaul_server.engine.rules import Array

__all__ = ["LinAlgError", "check_finite", "singular", "svd"]


def singular(xp: Any, op: str, a: Array) -> BackhaulError:
    """The error for a singular matrix among those of ``a``; LAPACK takes some with NaN for singular."""
    which = "the matrix" if len(a.shape) == 2 else "a matrix"
    if not xp.all(xp.isfinite(a)):
        return make_error(
            "SINGULAR_MATRIX",
            f"{op}: {which} of shape {a.shape} counts as singular: it holds NaN or Inf. Look at what it was "
            "computed from.",
            op=op,
            actual=a.shape,
        )
    return make_error(
        "SINGULAR_MATRIX",
        f"{op}: {which} of shape {a.shape} is singular, or so near to it that the result overflows. Look "
        "for rows or columns that are zero or depend on others, add a small multiple of the identity, or "
        "use linalg.pinv or linalg.lstsq.",
        op=op,
        actual=a.shape,
    )


def check_finite(xp: Any, op: str, y: Array, a: Array, *others: Array) -> Array:
    """y, unless it is not finite though what it was computed from is: then a is as good as singular."""
    if not xp.all(xp.isfinite(y)) and all(xp.all(xp.isfinite(x)) for x in (a, *others)):
        raise singular(xp, op, a)
    return y


def svd(xp: Any, a: Array) -> tuple[Array, Array, Array]:
    """The thin singular value decomposition; of matrices that are not finite, NaN as singular values."""
    # LAPACK is not asked: with an infinite element it may never come back (gesdd of 3 × 3 does not).
    finite = xp.all(xp.isfinite(a), axis=(-2, -1), keepdims=True)
    if xp.all(finite):
        u, s, vh = xp.linalg.svd(a, full_matrices=False)
    else:
        zeros = xp.zeros((), dtype=a.dtype)
        u, s, vh = xp.linalg.svd(xp.where(finite, a, zeros), full_matrices=False)
        s = xp.where(finite[..., 0], s, xp.asarray(float("nan"), dtype=s.dtype))
    return u, s, vh
