"""Functions of square matrices: exponential and powers. Batch axes come first."""

from __future__ import annotations

from typing import Final, NoReturn

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.linalg import square
from backhaul_proto.catalog.ops import Attribute, Op, Sample, register
from backhaul_proto.errors import make_error

_LARGEST: Final = 2**63 - 1


def _expm(avals: tuple[Aval, ...]) -> Aval:
    return square(avals[0], "x")


def _matrix_power(avals: tuple[Aval, ...], n: int) -> Aval:
    if n < -_LARGEST:  # its opposite is no integer of 64 bits
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"linalg.matrix_power: n={n} is out of range; give {-_LARGEST} or more.",
            attribute="n",
            expected=f"{-_LARGEST} or more",
            actual=n,
        )
    return square(avals[0], "x")


def _never_inferred(avals: tuple[Aval, ...]) -> NoReturn:
    raise TypeError("a private op: rules call it, past the catalog")


register(
    Op(
        "linalg.expm",
        ("x",),
        _expm,
        "The exponential of square matrices.\n\n"
        "By scaling and squaring: Al-Mohy and Higham (2009), A new scaling and squaring algorithm for the "
        "matrix exponential. Derivatives are exponentials of block triangular matrices: Higham (2008), "
        "Functions of Matrices, theorem 3.6. A matrix with NaN or Inf has the exponential NaN.\n\n"
        "Raises:\n"
        "    InvalidArgument: INVALID_VALUE for a finite matrix whose exponential overflows on the way, "
        "once it is asked for.",
        floating=True,
        samples=(
            Sample(((3, 3),)),
            Sample(((2, 2, 2),)),
            Sample(((1, 1),)),
            Sample(((0, 0),)),
            Sample(((0, 2, 2),)),
        ),
    )
)
register(
    Op(
        "linalg.matrix_power",
        ("x",),
        _matrix_power,
        "The integer power of square matrices: of the inverse for a negative one, the identity for 0.\n\n"
        "Derivatives are powers of block triangular matrices: Higham (2008), Functions of Matrices, "
        "theorem 3.6.\n\n"
        "Raises:\n"
        "    LinearAlgebraError: SINGULAR_MATRIX for a negative power of a singular matrix, once the value "
        "is asked for.",
        attributes=(Attribute("n", "int", required=True, keyword_only=False, doc="The exponent."),),
        floating=True,
        samples=(
            Sample(((3, 3),), {"n": 3}),
            Sample(((3, 3),), {"n": -2}, domain="well_conditioned"),
            Sample(((2, 2, 2),), {"n": 5}),
            Sample(((2, 2),), {"n": 0}),
            Sample(((2, 2),), {"n": 1}),
            Sample(((2, 2),), {"n": -1}, domain="well_conditioned"),
            Sample(((0, 0),), {"n": 2}),
            Sample(((0, 2, 2),), {"n": -1}),
        ),
    )
)
register(
    Op(
        "frechet_derivative",
        ("a", "e"),
        _never_inferred,
        "The derivative of a function of matrices at a along e.",
        private=True,
    )
)
