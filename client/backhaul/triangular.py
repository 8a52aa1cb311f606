"""Triangular systems, with SciPy's arguments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from backhaul.recording import record
from backhaul_proto.catalog.ops import get
from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from backhaul.recording import Operand
    from backhaul.tensor import TrackedTensor

_SOLVE_TRIANGULAR: Final = get("linalg.solve_triangular")
_TRANSPOSITIONS: Final = ("N", "T", "C")


def solve_triangular(
    a: Operand,
    b: Operand,
    /,
    trans: int | str = 0,
    lower: bool = False,
    unit_diagonal: bool = False,
) -> TrackedTensor:
    """The x with a x = b, for triangular matrices a, of which the other triangle is not read.

    b is a vector when it has one axis, and matrices otherwise; other axes broadcast. The gradient of a is
    zero where a is not read. Derivative: Giles (2008), An extended collection of matrix derivative
    results, 2.3.1.

    Args:
        a: Tensor, array or number.
        b: Tensor, array or number.
        trans: 0 or 'N' for a x = b, 1 or 'T' for a^T x = b, 2 or 'C' for a^H x = b.
        lower: Whether a is lower triangular.
        unit_diagonal: Whether the diagonal is taken to be ones, and not read.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: SINGULAR_MATRIX for finite operands of which the result would not be finite,
            once it is asked for.

    Example:
        >>> import backhaul as bh
        >>> a = bh.Tape().leaf([[2.0, 0.0], [1.0, 4.0]])
        >>> bh.linalg.solve_triangular(a, [2.0, 5.0], lower=True).numpy()
        array([1., 1.])
    """
    if type(trans) is int and 0 <= trans < len(_TRANSPOSITIONS):
        trans = _TRANSPOSITIONS[trans]
    return record(_SOLVE_TRIANGULAR, (a, b), trans, lower, unit_diagonal)


def cho_solve(c_and_lower: tuple[Operand, bool], b: Operand, /) -> TrackedTensor:
    """The x with a x = b, for a whose Cholesky factor is given.

    Args:
        c_and_lower: the factor and whether it is the lower one: ``(cholesky(a), True)``.
        b: Tensor, array or number: a vector when it has one axis, else matrices.

    Raises:
        InvalidArgument: an operand or attribute that cannot be right.
        MissingNode: an operand is on another tape, or was released.
        LinearAlgebraError: SINGULAR_MATRIX, once the value is asked for.

    Example:
        >>> import backhaul as bh
        >>> a = bh.Tape().leaf([[4.0, 2.0], [2.0, 5.0]])
        >>> bh.linalg.cho_solve((bh.linalg.cholesky(a), True), [6.0, 7.0]).numpy()
        array([1., 1.])
    """
    given: Any = c_and_lower
    if not isinstance(given, Sequence) or len(given) != 2:
        raise make_error(
            "INVALID_ATTRIBUTE",
            "cho_solve takes a pair first, (cholesky(a), True): the factor, and whether it is lower.",
            op="cho_solve",
            attribute="c_and_lower",
        )
    c, lower = given
    first, second = ("N", "C") if lower else ("C", "N")
    return solve_triangular(c, solve_triangular(c, b, first, lower), second, lower)
