"""Determinants of square matrices. Batch axes come first."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval, real_dtype
from backhaul_proto.catalog.linalg import square
from backhaul_proto.catalog.ops import Op, Sample, register


def _det(avals: tuple[Aval, ...]) -> Aval:
    each = square(avals[0], "x")
    return aval(each.shape[:-2], each.dtype)


def _slogdet(avals: tuple[Aval, ...]) -> tuple[Aval, ...]:
    each = square(avals[0], "x")
    shape = each.shape[:-2]
    return aval(shape, each.dtype), aval(shape, real_dtype(each.dtype))


def _cofactors(avals: tuple[Aval, ...]) -> Aval:
    return square(avals[0], "x")


register(
    Op(
        "linalg.det",
        ("x",),
        _det,
        "The determinant of square matrices.\n\n"
        "Its gradient and H·v are right for singular matrices too: they are made of minors, which near such "
        "are found from the singular values, and elsewhere from the inverse: Giles (2008), An extended "
        "collection of matrix derivative results, 2.2.4. NaN in a matrix makes its determinant NaN.",
        floating=True,
        samples=(
            Sample(((3, 3),)),
            Sample(((2, 2),)),
            Sample(((2, 4, 4),)),
            Sample(((1, 1),)),
            Sample(((0, 0),)),
            Sample(((0, 2, 2),)),
        ),
    )
)
register(
    Op(
        "cofactors",
        ("x",),
        _cofactors,
        "The matrix of cofactors: the derivative of the determinant with respect to each element.",
        private=True,
    )
)
register(
    Op(
        "linalg.slogdet",
        ("x",),
        _slogdet,
        "The sign of the determinant of square matrices, and the logarithm of its absolute value.\n\n"
        "The sign of a complex determinant is its phase; the derivative of a real one is zero. A singular "
        "matrix has the sign 0 and the logarithm -inf, and no derivative. Derivative: Giles (2008), An "
        "extended collection of matrix derivative results, 2.2.4.\n\n"
        "Raises:\n"
        "    LinearAlgebraError: SINGULAR_MATRIX, when derivatives of a singular matrix's are asked for.",
        floating=True,
        several=True,
        samples=(
            Sample(((3, 3),), domain="well_conditioned"),
            Sample(((2, 2, 2),), domain="well_conditioned"),
            Sample(((1, 1),), domain="nonzero"),
            Sample(((0, 0),)),
        ),
    )
)
register(
    Op(
        "inverse",
        ("x",),
        _cofactors,
        "The inverse, on behalf of the op that is named where there is none.",
        private=True,
    )
)
