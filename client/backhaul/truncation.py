"""Truncated decompositions, whose rank may follow from the data."""

from __future__ import annotations

from typing import Any, Final

import numpy as np

from backhaul.handle import Handle
from backhaul.recording import Operand, record_bound
from backhaul.tensor import TrackedTensor
from backhaul_proto.catalog.ops import bind, get
from backhaul_proto.errors import make_error

_SVD_TRUNCATED: Final = get("linalg.svd_truncated")
_SVDVALS: Final = get("linalg.svdvals")


def svd_truncated(
    x: Operand, /, *, rank: int | None = None, cutoff: float | None = None
) -> tuple[TrackedTensor, TrackedTensor, TrackedTensor]:
    """The largest singular values of x with their vectors: (u, s, vh), s in descending order.

    Derivatives are those of the truncated factors exactly, the part of the discarded space included, and
    finite where discarded values are equal or zero. The last value that is kept must differ from the first
    that is not. A loss must not depend on what the decomposition leaves open, the common phase (sign) of a
    column of u and row of vh; where that shows in a derivative, it is GAUGE_DEPENDENT, with how much in the
    details.

    Args:
        x: Tensor of matrices, on its last two axes.
        rank: How many are kept, at most.
        cutoff: What is kept is larger than so many times the largest value, and at least one. How many
            those are depends on the data: the singular values are fetched, in one round trip. Of a stack
            of matrices, all keep as many as the one that keeps most.

    Returns:
        u of shape (..., m, rank), s of shape (..., rank), real, and vh of shape (..., rank, n).

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE: a rank that is none, neither of the two given.
        LinearAlgebraError: DEGENERATE_SPECTRUM, GAUGE_DEPENDENT: when a derivative is asked for that does
            not exist.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> x = bh.Tape().leaf(np.diag([3.0, 2.0, 1e-9]))
        >>> u, s, vh = bh.linalg.svd_truncated(x, cutoff=1e-6)
        >>> s.numpy(), u.shape, vh.shape
        (array([3., 2.]), (3, 2), (2, 3))
    """
    if cutoff is not None:
        kept = _kept(x, cutoff)
        rank = kept if rank is None else min(rank, kept)
    if rank is None:
        raise make_error(
            "INVALID_ATTRIBUTE",
            "svd_truncated needs rank= or cutoff=; linalg.svd gives all singular values.",
            op=_SVD_TRUNCATED.name,
            attribute="rank",
        )
    u, s, vh = record_bound(_SVD_TRUNCATED, (x,), bind(_SVD_TRUNCATED, {"rank": rank}))
    return u, s, vh


def _kept(x: Any, cutoff: Any) -> int:
    """How many singular values are above the cutoff."""
    if not isinstance(cutoff, int | float | np.floating | np.integer) or not 0 <= cutoff < 1:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"svd_truncated: cutoff is {cutoff!r:.100}; it is a number from 0 up, below 1, of which the "
            "largest singular value is 1.",
            op=_SVD_TRUNCATED.name,
            attribute="cutoff",
            actual=cutoff,
        )
    if isinstance(x, Handle):
        values = record_bound(_SVDVALS, (x.detach(),), ())  # type: ignore[attr-defined]  # a tensor
        s = values._tape._fetch(values)[0]
    else:
        s = np.linalg.svd(np.asarray(x), compute_uv=False)
    if not s.size:
        return int(s.shape[-1])
    above = np.sum(s > cutoff * s[..., :1], axis=-1)
    return max(1, int(np.max(above)))
