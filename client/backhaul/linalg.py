"""Linear algebra, named as in the array API: ``bh.linalg.cholesky``.

Generated from the catalog by tools/gen_ops.py: `make ops`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul._ops import cross as cross
from backhaul._ops import matmul as matmul
from backhaul._ops import tensordot as tensordot
from backhaul._ops import vecdot as vecdot
from backhaul.norms import matrix_norm as matrix_norm
from backhaul.norms import norm as norm
from backhaul.recording import record, record_several
from backhaul.triangular import cho_solve as cho_solve
from backhaul.triangular import solve_triangular as solve_triangular
from backhaul.truncation import svd_truncated as svd_truncated
from backhaul_proto.catalog.ops import get

if TYPE_CHECKING:
    from collections.abc import Sequence

    from backhaul.recording import Operand
    from backhaul.tensor import TrackedTensor

__all__ = [
    "cho_solve",
    "cholesky",
    "cross",
    "det",
    "diagonal",
    "eigh",
    "eigvalsh",
    "expm",
    "inv",
    "lstsq",
    "matmul",
    "matrix_norm",
    "matrix_power",
    "multi_dot",
    "norm",
    "outer",
    "pinv",
    "qr",
    "slogdet",
    "solve",
    "solve_triangular",
    "svd",
    "svd_truncated",
    "svdvals",
    "tensordot",
    "trace",
    "vecdot",
    "vector_norm",
]

_CHOLESKY: Final = get("linalg.cholesky")
_DET: Final = get("linalg.det")
_DIAGONAL: Final = get("linalg.diagonal")
_EIGH: Final = get("linalg.eigh")
_EIGVALSH: Final = get("linalg.eigvalsh")
_EXPM: Final = get("linalg.expm")
_INV: Final = get("linalg.inv")
_LSTSQ: Final = get("linalg.lstsq")
_MATRIX_POWER: Final = get("linalg.matrix_power")
_MULTI_DOT: Final = get("linalg.multi_dot")
_OUTER: Final = get("linalg.outer")
_PINV: Final = get("linalg.pinv")
_QR: Final = get("linalg.qr")
_SLOGDET: Final = get("linalg.slogdet")
_SOLVE: Final = get("linalg.solve")
_SVD: Final = get("linalg.svd")
_SVDVALS: Final = get("linalg.svdvals")
_TRACE: Final = get("linalg.trace")
_VECTOR_NORM: Final = get("linalg.vector_norm")


def cholesky(x: Operand, /, *, upper: bool = False) -> TrackedTensor:
    """The lower triangular L with x = L L^H, for Hermitian positive definite x.

    x is taken to be Hermitian (only its lower triangle is read, the upper one for ``upper``) and
    its gradient is Hermitian.
    Derivative: Murray (2016), Differentiation of the Cholesky decomposition, arXiv:1602.07527.

    Args:
        x: Tensor, array or number.
        upper: Whether to give U with x = U^H U instead.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: NOT_POSITIVE_DEFINITE, once the value is asked for.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> bh.linalg.cholesky(x, upper=True).shape
        (3, 3)
    """
    return record(_CHOLESKY, (x,), upper)


def det(x: Operand, /) -> TrackedTensor:
    """The determinant of square matrices.

    Its gradient and H·v are right for singular matrices too: they are made of minors, which near
    such are found from the singular values, and elsewhere from the inverse: Giles (2008), An
    extended collection of matrix derivative results, 2.2.4. NaN in a matrix makes its determinant
    NaN.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> bh.linalg.det(x).shape
        ()
    """
    return record(_DET, (x,))


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


def eigh(x: Operand, /) -> tuple[TrackedTensor, ...]:
    """Eigenvalues in ascending order, and eigenvectors in the columns of a unitary matrix: (w, v).

    x is taken to be Hermitian: (x + x^H) / 2 is decomposed, and gradients are Hermitian.

    A loss must not depend on what the decomposition leaves open: the phase (sign) of each
    eigenvector, and any basis of equal eigenvalues. Where that shows in a derivative, it is
    GAUGE_DEPENDENT, with how much in the details.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: DEGENERATE_SPECTRUM, GAUGE_DEPENDENT: when a derivative is asked for
            that does not exist.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> [each.shape for each in bh.linalg.eigh(x)]
        [(3,), (3, 3)]
    """
    return record_several(_EIGH, (x,))


def eigvalsh(x: Operand, /) -> TrackedTensor:
    """Eigenvalues in ascending order of x, which is taken to be Hermitian.

    Gradients are Hermitian. A loss that is symmetric in equal eigenvalues has its gradient and H·v
    there too.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: DEGENERATE_SPECTRUM, GAUGE_DEPENDENT: when a derivative is asked for
            that does not exist.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> bh.linalg.eigvalsh(x).shape
        (3,)
    """
    return record(_EIGVALSH, (x,))


def expm(x: Operand, /) -> TrackedTensor:
    """The exponential of square matrices.

    By scaling and squaring: Al-Mohy and Higham (2009), A new scaling and squaring algorithm for the
    matrix exponential. Derivatives are exponentials of block triangular matrices: Higham (2008),
    Functions of Matrices, theorem 3.6. A matrix with NaN or Inf has the exponential NaN.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        InvalidArgument: INVALID_VALUE for a finite matrix whose exponential overflows on the way,
            once it is asked for.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> bh.linalg.expm(x).shape
        (3, 3)
    """
    return record(_EXPM, (x,))


def inv(x: Operand, /) -> TrackedTensor:
    """The inverse of square matrices.

    Derivative: Giles (2008), An extended collection of matrix derivative results, 2.2.3. A matrix
    with NaN gives NaN, or counts as singular.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: SINGULAR_MATRIX for finite operands of which the result would not be
            finite, once it is asked for.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> bh.linalg.inv(x).shape
        (3, 3)
    """
    return record(_INV, (x,))


def lstsq(a: Operand, b: Operand, /, rcond: float | None = None) -> TrackedTensor:
    """The x that makes ``|a x - b|`` least, and of several such the one with the least norm.

    b is a vector when it has one axis, and matrices otherwise; other axes broadcast. It is pinv(a)
    b, and so are its derivatives: they are those at constant rank, see `pinv`. NumPy's residuals,
    rank and singular values are not given.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.
        rcond: Singular values up to this part of the greatest count as zero; left out, max(rows,
            columns) times the dtype's epsilon.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((2, 3, 2)))
        >>> b = tape.leaf(np.ones((3,)))
        >>> bh.linalg.lstsq(a, b, 0.001).shape
        (2, 2)
    """
    return record(_LSTSQ, (a, b), rcond)


def matrix_power(x: Operand, /, n: int) -> TrackedTensor:
    """The integer power of square matrices: of the inverse for a negative one, the identity for 0.

    Derivatives are powers of block triangular matrices: Higham (2008), Functions of Matrices,
    theorem 3.6.

    Args:
        x: Tensor, array or number.
        n: The exponent.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: SINGULAR_MATRIX for a negative power of a singular matrix, once the
            value is asked for.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> bh.linalg.matrix_power(x, 3).shape
        (3, 3)
    """
    return record(_MATRIX_POWER, (x,), n)


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


def pinv(x: Operand, /, rtol: float | None = None) -> TrackedTensor:
    """The Moore-Penrose pseudo-inverse of matrices.

    Its derivative is that at constant rank: Golub and Pereyra (1973), The differentiation of
    pseudo-inverses and nonlinear least squares problems whose variables separate, equation 4.12.
    NaN in a matrix makes its pseudo-inverse NaN.

    Args:
        x: Tensor, array or number.
        rtol: Singular values up to this part of the greatest count as zero; left out, max(rows,
            columns) times the dtype's epsilon.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((2, 4, 2)))
        >>> bh.linalg.pinv(x, 0.001).shape
        (2, 2, 4)
    """
    return record(_PINV, (x,), rtol)


def qr(x: Operand, /) -> tuple[TrackedTensor, ...]:
    """The thin QR decomposition (q, r): x = q r, q with orthonormal columns, r upper triangular.

    Derivatives are those of an x whose first columns, as many as q has, are independent.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: SINGULAR_MATRIX, when a derivative is asked for that does not exist.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((4, 3)))
        >>> [each.shape for each in bh.linalg.qr(x)]
        [(4, 3), (3, 3)]
    """
    return record_several(_QR, (x,))


def slogdet(x: Operand, /) -> tuple[TrackedTensor, ...]:
    """The sign of the determinant of square matrices, and the logarithm of its absolute value.

    The sign of a complex determinant is its phase; the derivative of a real one is zero. A singular
    matrix has the sign 0 and the logarithm -inf, and no derivative. Derivative: Giles (2008), An
    extended collection of matrix derivative results, 2.2.4.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: SINGULAR_MATRIX, when derivatives of a singular matrix's are asked for.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((3, 3)))
        >>> [each.shape for each in bh.linalg.slogdet(x)]
        [(), ()]
    """
    return record_several(_SLOGDET, (x,))


def solve(a: Operand, b: Operand, /) -> TrackedTensor:
    """The x with a x = b, for square matrices a.

    b is a vector when it has one axis, and matrices otherwise; other axes broadcast. The
    factorisation of a is kept for the derivatives: Giles (2008), An extended collection of matrix
    derivative results, 2.3.1. A matrix with NaN gives NaN, or counts as singular.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: SINGULAR_MATRIX for finite operands of which the result would not be
            finite, once it is asked for.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> a = tape.leaf(np.ones((3, 3)))
        >>> b = tape.leaf(np.ones((3, 2)))
        >>> bh.linalg.solve(a, b).shape
        (3, 2)
    """
    return record(_SOLVE, (a, b))


def svd(x: Operand, /) -> tuple[TrackedTensor, ...]:
    """The thin singular value decomposition (u, s, vh) with x = u diag(s) vh, s in descending order.

    A loss must not depend on what the decomposition leaves open: a common phase (sign) of a column
    of u and row of vh, and any basis of equal singular values. Where that shows in a derivative, it
    is GAUGE_DEPENDENT, with how much in the details.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: DEGENERATE_SPECTRUM, GAUGE_DEPENDENT: when a derivative is asked for
            that does not exist.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((4, 3)))
        >>> [each.shape for each in bh.linalg.svd(x)]
        [(4, 3), (3,), (3, 3)]
    """
    return record_several(_SVD, (x,))


def svdvals(x: Operand, /) -> TrackedTensor:
    """The singular values in descending order.

    A loss that is symmetric in equal singular values has its gradient and H·v there too.

    Args:
        x: Tensor, array or number.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: DEGENERATE_SPECTRUM, GAUGE_DEPENDENT: when a derivative is asked for
            that does not exist.

    Example:
        >>> import numpy as np, backhaul as bh
        >>> tape = bh.Tape()
        >>> x = tape.leaf(np.ones((4, 3)))
        >>> bh.linalg.svdvals(x).shape
        (3,)
    """
    return record(_SVDVALS, (x,))


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
