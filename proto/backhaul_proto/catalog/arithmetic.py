"""Arithmetic on each element: sums, products, quotients, powers, roots, absolute values."""

from __future__ import annotations

from backhaul_proto.catalog.ops import Sample
from backhaul_proto.catalog.pointwise import (
    BINARY,
    NUMBERS,
    REAL,
    as_is,
    binary,
    drawn_from,
    numeric,
    real,
    unary,
)
from backhaul_proto.catalog.shapes import broadcasting_floats

binary("add", "The sum x1 + x2, element by element, with broadcasting.")
binary("subtract", "The difference x1 - x2, element by element, with broadcasting.", infer=numeric)
binary("multiply", "The product x1 * x2, element by element, with broadcasting.")
binary(
    "divide",
    "The quotient x1 / x2, element by element, with broadcasting. Integers are divided as float64.",
    infer=broadcasting_floats,
    domain=("any", "nonzero"),
    aliases=("true_divide",),
)
binary(
    "pow",
    "The power x1 ** x2, element by element, with broadcasting.\n\n"
    "Where x1 ** x2 is 0, and at 0 ** 0, the derivative with respect to x2 is 0. With respect to x1 it "
    "is that of a polynomial for exponents 0, 1, 2, ..., at any base: 2 * x1 for x1 ** 2, 0 for x1 ** 0. "
    "At a negative real base the derivative with respect to x2 is NaN: there is none.\n\n"
    "Raises:\n"
    "InvalidArgument: INVALID_VALUE, once the value is asked for, for an integer array to a negative "
    "integer power.",
    infer=numeric,
    samples=(
        *drawn_from(BINARY, "positive"),
        Sample(((2, 3), ()), domain="nonzero", constants={1: 3}),
        Sample(((2, 3), (3,)), domain="nonzero", constants={1: [-2, 0, 1]}),
        Sample(((2,), (2,)), domain=("nonzero", "any"), kinds="c"),
    ),
    aliases=("power",),
)
unary("negative", "The negative -x, element by element.", infer=numeric)
unary("positive", "The same number +x, element by element.", infer=as_is, kinds=NUMBERS)
unary(
    "abs",
    "The absolute value of each element, a real number. Its derivative at 0 is 0.",
    infer=real,
    domain="nonzero",
    aliases=("absolute",),
)
unary("square", "The square x * x of each element.", infer=as_is, kinds=NUMBERS)
unary("sqrt", "The square root of each element; NaN for a negative real.", domain="positive")
unary("rsqrt", "The reciprocal of the square root of each element.", domain="positive")
unary("cbrt", "The real cube root of each element.", kinds=REAL, domain="positive")
unary("reciprocal", "1 / x, element by element. Integers count as float64.", domain="nonzero")
binary(
    "hypot",
    "The length sqrt(x1**2 + x2**2) of a vector with these coordinates, without overflow on the way.\n\n"
    "Its derivatives at (0, 0) are 0.",
    infer=broadcasting_floats,
    kinds=REAL,
    domain="nonzero",
)
