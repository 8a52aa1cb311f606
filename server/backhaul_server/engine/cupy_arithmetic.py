"""Functions of numbers where CuPy's differ from NumPy's at the edges: in NumPy's way.

CuPy's floor division is floor(a / b), one too large where the quotient is rounded up (1 // 0.1); its
remainder is found from that, and lost in rounding (1e20 % 3) or as infinity times 0 (1 % inf). Its complex
power of 0 is NaN, its integers take negative powers, and its angle of reals is 0 for -0.0 and pi for NaN.
"""

from __future__ import annotations

from typing import Any

import cupy

from backhaul_server.engine import composed

Array = Any


def angle(x: Array) -> Array:
    """The angle of complex numbers, 0 or pi for real ones."""
    return composed.angle(cupy, x)


def floor_divide(a: Array, b: Array) -> Array:
    """The integer below the quotient; that of the exact one, as Python's."""
    if cupy.result_type(a, b).kind != "f":
        return cupy.floor_divide(a, b)
    return cupy.where(b == 0, a / b, _divided(a, b)[0])


def remainder(a: Array, b: Array) -> Array:
    """What is left of a, with the sign of b, as Python's."""
    if cupy.result_type(a, b).kind != "f":
        return cupy.remainder(a, b)
    return _divided(a, b)[1]


def _divided(a: Array, b: Array) -> tuple[Array, Array]:
    """Quotient and remainder of floating-point numbers, b not 0: C's fmod is exact."""
    left = cupy.fmod(a, b)
    other = (left != 0) & ((left < 0) != (b < 0))
    quotient = (a - left) / b - other
    below = cupy.floor(quotient)
    below = below + (quotient - below > 0.5)
    whole = cupy.where(quotient == 0, cupy.copysign(cupy.zeros_like(quotient), a / b), below)
    nothing = cupy.copysign(cupy.zeros_like(left), b)
    return whole, cupy.where(left == 0, nothing, cupy.where(other, left + b, left))


def power(a: Array, b: Any) -> Array:
    """The power of a base, element by element.

    Raises:
        ValueError: an integer to the power of a negative one.
    """
    dtype = cupy.result_type(a, b)
    if dtype.kind in "iu" and bool(cupy.any(cupy.asarray(b) < 0)):
        raise ValueError("Integers to negative integer powers are not allowed.")
    if dtype.kind != "c":
        return cupy.power(a, b)
    zero = a == 0
    found = cupy.power(cupy.where(zero, 1.0, a), b)
    b = cupy.asarray(b, dtype)
    nothing = cupy.where(b == 0, 1.0, cupy.where(b.real > 0, 0.0, float("nan")))
    return cupy.where(zero, nothing, found).astype(dtype, copy=False)
