"""Linear algebra on the last two axes, with any batch axes before them."""

from __future__ import annotations

from backhaul_proto.catalog.avals import FLOAT64, Aval, aval
from backhaul_proto.catalog.manipulation import matrix_shape
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.catalog.promotion import promote
from backhaul_proto.catalog.shapes import broadcast_shapes
from backhaul_proto.errors import make_error


def square(each: Aval, operand: str) -> Aval:
    """The aval of an operand that must be a square matrix or a stack of them; integers as float64."""
    shape = matrix_shape(each, operand)
    if shape[-1] != shape[-2]:
        raise make_error(
            "SHAPE_MISMATCH",
            f"{operand} must be square in its last two axes, not {shape[-2]} by {shape[-1]}.",
            operand=operand,
            actual=shape,
        )
    return each if each.inexact else aval(shape, FLOAT64)


def _matmul(avals: tuple[Aval, ...]) -> Aval:
    a, b = (each.shape for each in avals)
    for operand, shape in (("x1", a), ("x2", b)):
        if not shape:
            raise make_error(
                "SHAPE_MISMATCH",
                f"matmul: {operand} is 0-d; it must have at least one axis. Use multiply for a factor.",
                operand=operand,
            )
    inner = b[-2] if len(b) > 1 else b[0]
    if a[-1] != inner:
        raise make_error(
            "SHAPE_MISMATCH",
            f"matmul: x1 of shape {a} has {a[-1]} columns, x2 of shape {b} has {inner} rows; "
            "they must agree.",
            expected=a[-1],
            actual=inner,
        )
    batch = broadcast_shapes([a[:-2], b[:-2]])
    rows = a[-2:-1] if len(a) > 1 else ()
    columns = b[-1:] if len(b) > 1 else ()
    return aval((*batch, *rows, *columns), promote(*avals))


def _cholesky(avals: tuple[Aval, ...], upper: bool) -> Aval:
    return square(avals[0], "x")


register(
    Op(
        "matmul",
        ("x1", "x2"),
        _matmul,
        "The matrix product of the last two axes, other axes broadcasting.\n\n"
        "A vector is a row on the left and a column on the right.",
        promotes=True,
        aliases=("linalg.matmul",),
        samples=(
            Sample(((2, 3), (3, 4))),
            Sample(((3,), (3, 2))),
            Sample(((2, 3), (3,))),
            Sample(((3,), (3,))),
            Sample(((2, 1, 2, 3), (4, 3, 2))),
            Sample(((2, 0), (0, 3))),
        ),
    )
)
register(
    Op(
        "linalg.cholesky",
        ("x",),
        _cholesky,
        "The lower triangular L with x = L L^H, for Hermitian positive definite x.\n\n"
        "x is taken to be Hermitian (only its lower triangle is read, the upper one for ``upper``) and its "
        "gradient is Hermitian.\n"
        "Derivative: Murray (2016), Differentiation of the Cholesky decomposition, arXiv:1602.07527.\n\n"
        "Raises:\n"
        "    LinearAlgebraError: NOT_POSITIVE_DEFINITE, once the value is asked for.",
        attributes=(
            Attribute("upper", "bool", False, doc="Whether to give U with x = U^H U instead."),
        ),
        floating=True,
        samples=(
            Sample(((3, 3),), domain="positive_definite"),
            Sample(((2, 3, 3),), domain="positive_definite"),
            Sample(((3, 3),), {"upper": True}, domain="positive_definite"),
            Sample(((1, 1),), domain="positive_definite"),
            Sample(((0, 0),), domain="positive_definite"),
        ),
    )
)
