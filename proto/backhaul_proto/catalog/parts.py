"""Parts of complex numbers."""

from __future__ import annotations

from backhaul_proto.catalog.avals import Aval, aval, real_dtype
from backhaul_proto.catalog.pointwise import as_is, floats, real, unary


def _angle(avals: tuple[Aval, ...]) -> Aval:
    found = floats(avals)
    return aval(found.shape, real_dtype(found.dtype))


unary("conj", "The complex conjugate of each element.", infer=as_is, aliases=("conjugate",))
unary("real", "The real part of each element; x itself when x is real.", infer=real)
unary("imag", "The imaginary part of each element; zeros when x is real.", infer=real)
unary(
    "angle",
    "The angle of each element from the positive real axis, in radians: 0 or pi for a real one.\n\n"
    "The derivative is 0 for real elements, and at 0.",
    infer=_angle,
    floating=True,
    domain="nonzero",
)
