"""Linear algebra, named as in the array API: ``bh.linalg.cholesky``.

Generated from the catalog by tools/gen_ops.py: `make ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul.norms import matrix_norm as matrix_norm
from backhaul.norms import norm as norm
from backhaul.recording import record
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.recording import Operand
    from backhaul.tensor import TrackedTensor

__all__ = ["cholesky", "matrix_norm", "norm", "vector_norm"]

_CHOLESKY: Final = get("linalg.cholesky")
_VECTOR_NORM: Final = get("linalg.vector_norm")


def cholesky(x: Operand, /) -> TrackedTensor:
    """The lower triangular L with x = L L^H, for Hermitian positive definite x.

    x is taken to be Hermitian (only its lower triangle is read) and its gradient is Hermitian.
    Derivative: Murray (2016), Differentiation of the Cholesky decomposition, arXiv:1602.07527.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: NOT_POSITIVE_DEFINITE, once the value is asked for.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> bh.linalg.cholesky(x).shape
        (3, 3)
    """
    return record(_CHOLESKY, (x,))


def vector_norm(
    x: Operand,
    /,
    axis: int | Sequence[int] | None = None,
    *,
    keepdims: bool = False,
    ord: float = 2.0,
) -> TrackedTensor:
    """The length of vectors over axes, sum(abs(x)**ord)**(1/ord), a real number.

    The greatest absolute value for inf, the least for -inf, the number of elements that are not 0
    for 0. First and second derivatives with respect to elements that are 0 are 0 (but for ord 2,
    whose second is 1 / norm), and so are all of them where the norm is 0; equals share those of inf
    and -inf evenly.

    Args:
        x: Tensor, array or number.
        axis: Axis or axes to reduce over; all of them when left out.
        keepdims: Whether reduced axes stay, with size 1.
        ord: The order: any number, inf and -inf included.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.linalg.vector_norm(x, 1).shape
        (2,)
    """
    return record(_VECTOR_NORM, (x,), axis, keepdims, ord)
