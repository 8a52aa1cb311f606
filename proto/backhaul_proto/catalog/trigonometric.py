"""Trigonometric and hyperbolic functions of each element, and their inverses."""

from __future__ import annotations

from backhaul_proto.catalog.pointwise import REAL, binary, unary
from backhaul_proto.catalog.shapes import broadcasting_floats

unary("sin", "The sine of each element.")
unary("cos", "The cosine of each element.")
unary("tan", "The tangent of each element.", domain="unit")
unary("asin", "The inverse sine of each element, in radians.", domain="unit", aliases=("arcsin",))
unary("acos", "The inverse cosine of each element, in radians.", domain="unit", aliases=("arccos",))
unary(
    "atan", "The inverse tangent of each element, in radians.", domain="unit", aliases=("arctan",)
)
binary(
    "atan2",
    "The angle of the point (x2, x1) from the first axis, in radians within [-pi, pi].\n\n"
    "Its derivatives at (0, 0) are 0.",
    infer=broadcasting_floats,
    kinds=REAL,
    domain="nonzero",
    aliases=("arctan2",),
)
unary("sinh", "The hyperbolic sine of each element.")
unary("cosh", "The hyperbolic cosine of each element.")
unary("tanh", "The hyperbolic tangent of each element.", domain="unit")
unary("asinh", "The inverse hyperbolic sine of each element.", domain="unit", aliases=("arcsinh",))
unary(
    "acosh",
    "The inverse hyperbolic cosine of each element.",
    domain="above_one",
    aliases=("arccosh",),
)
unary(
    "atanh", "The inverse hyperbolic tangent of each element.", domain="unit", aliases=("arctanh",)
)
unary("deg2rad", "Degrees as radians: x * pi / 180.", kinds=REAL, aliases=("radians",))
unary("rad2deg", "Radians as degrees: x * 180 / pi.", kinds=REAL, aliases=("degrees",))
unary("sinc", "sin(pi x) / (pi x) of each element, and 1 at 0, as NumPy has it.", domain="nonzero")
