"""Linear algebra, named as in the array API: ``bh.linalg.cholesky``.

Generated from the catalog by tools/gen_ops.py: `make ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul._ops import cross as cross
from backhaul._ops import matmul as matmul
from backhaul._ops import tensordot as tensordot
from backhaul._ops import vecdot as vecdot
from backhaul.recording import record
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.recording import Operand
    from backhaul.tensor import TrackedTensor

__all__ = ["cholesky", "cross", "matmul", "multi_dot", "outer", "tensordot", "vecdot"]

_CHOLESKY: Final = get("linalg.cholesky")
_MULTI_DOT: Final = get("linalg.multi_dot")
_OUTER: Final = get("linalg.outer")


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


def multi_dot(arrays: Sequence[Operand], /) -> TrackedTensor:
    """The matrix product of two arrays or more, in the order that takes the fewest operations.

    The first and the last may be vectors: a row, and a column.

    Args:
        arrays: Tensors, arrays or numbers.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x0 = tape.leaf(np.ones((2, 3)))
        >>> x1 = tape.leaf(np.ones((3, 4)))
        >>> x2 = tape.leaf(np.ones((4, 2)))
        >>> bh.linalg.multi_dot([x0, x1, x2]).shape
        (2, 2)
    """
    return record(_MULTI_DOT, (*arrays,))


def outer(x1: Operand, x2: Operand, /) -> TrackedTensor:
    """The products of all elements of the vector x1 with all of the vector x2: a matrix.

    Args:
        x1: Tensor, array or number.
        x2: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x1 = tape.leaf(np.ones((2,)))
        >>> x2 = tape.leaf(np.ones((3,)))
        >>> bh.linalg.outer(x1, x2).shape
        (2, 3)
    """
    return record(_OUTER, (x1, x2))
