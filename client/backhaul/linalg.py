"""Linear algebra, named as in the array API: ``bh.linalg.cholesky``.

Generated from the catalog by tools/gen_ops.py: `make ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul.recording import record
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from backhaul.recording import Operand
    from backhaul.tensor import TrackedTensor

__all__ = ["cholesky", "diagonal", "trace"]

_CHOLESKY: Final = get("linalg.cholesky")
_DIAGONAL: Final = get("linalg.diagonal")
_TRACE: Final = get("linalg.trace")


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


def diagonal(x: Operand, /, *, offset: int = 0) -> TrackedTensor:
    """A diagonal of x's last two axes, as the last axis of the result.

    Args:
        x: Tensor, array or number.
        offset: Which diagonal; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.linalg.diagonal(x, offset=-1).shape
        (1,)
    """
    return record(_DIAGONAL, (x,), offset)


def trace(x: Operand, /, *, offset: int = 0) -> TrackedTensor:
    """The sum of a diagonal of x's last two axes.

    Args:
        x: Tensor, array or number.
        offset: Which diagonal; the main one is 0, those above it are positive.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 3)))
        >>> bh.linalg.trace(x, offset=1).shape
        ()
    """
    return record(_TRACE, (x,), offset)
