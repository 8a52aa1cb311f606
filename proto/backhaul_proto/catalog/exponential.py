"""Exponentials and logarithms of each element."""

from __future__ import annotations

from backhaul_proto.catalog.pointwise import REAL, binary, unary
from backhaul_proto.catalog.shapes import broadcasting_floats

unary("exp", "The exponential e**x of each element.")
unary("exp2", "2**x of each element.")
unary("expm1", "exp(x) - 1 of each element, accurate near 0.")
unary("log", "The natural logarithm of each element.", domain="positive")
unary("log1p", "log(1 + x) of each element, accurate near 0.", domain="positive")
unary("log2", "The logarithm to base 2 of each element.", domain="positive")
unary("log10", "The logarithm to base 10 of each element.", domain="positive")
binary(
    "logaddexp",
    "log(exp(x1) + exp(x2)), element by element, without overflow.\n\n"
    "Infinities are taken: where both are -inf, so is the result, and each has half the derivative.",
    infer=broadcasting_floats,
    kinds=REAL,
)
binary(
    "logaddexp2",
    "log2(2**x1 + 2**x2), element by element, without overflow.",
    infer=broadcasting_floats,
    kinds=REAL,
)
