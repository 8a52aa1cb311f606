"""What the array API has not, in the array API's own terms.

Each function takes the array API's module first, and arrays of it: NumPy's is one too.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, Final

Array = Any


def is_complex(xp: Any, x: Array) -> bool:
    """Whether the elements are complex numbers."""
    found: bool = xp.isdtype(x.dtype, "complex floating")
    return found


def conj(xp: Any, x: Array) -> Array:
    """The conjugate; a real array as it is."""
    return xp.conj(x) if is_complex(xp, x) else x


def real(xp: Any, x: Array) -> Array:
    """The real part; a real array as it is."""
    return xp.real(x) if is_complex(xp, x) else x


def imag(xp: Any, x: Array) -> Array:
    """The imaginary part, zeros for a real array."""
    return xp.imag(x) if is_complex(xp, x) else xp.zeros_like(x)


def angle(xp: Any, x: Array) -> Array:
    """The angle of complex numbers, 0 or pi for real ones."""
    return xp.atan2(imag(xp, x), real(xp, x))


def cbrt(xp: Any, x: Array) -> Array:
    """The real cube root: a power, and a step of Newton's method, as 1/3 is rounded."""
    done = (x == 0) | xp.isinf(x)
    moderate = xp.where(done, 1.0, x)
    y = xp.sign(moderate) * xp.pow(xp.abs(moderate), 1 / 3)
    return xp.where(done, x, y - (y - moderate / (y * y)) / 3)


def deg2rad(xp: Any, x: Array) -> Array:
    """Degrees in radians."""
    return x * (math.pi / 180)


def rad2deg(xp: Any, x: Array) -> Array:
    """Radians in degrees."""
    return x * (180 / math.pi)


def exp2(xp: Any, x: Array) -> Array:
    """Powers of 2."""
    return xp.pow(2.0, x)


def logaddexp2(xp: Any, a: Array, b: Array) -> Array:
    """The logarithm of 2^a + 2^b to base 2."""
    larger = xp.maximum(a, b)
    gap = xp.where(xp.isinf(larger) & (a == b), 0.0, xp.abs(a - b))
    return larger + xp.log1p(exp2(xp, -gap)) / math.log(2)


def log_sigmoid(xp: Any, x: Array) -> Array:
    """The logarithm of the logistic function."""
    return -xp.logaddexp(-x, 0.0)


def sigmoid(xp: Any, x: Array) -> Array:
    """The logistic function 1 / (1 + e**-x); only e to a power that is not positive is taken."""
    left = real(xp, x) < 0
    small = xp.exp(xp.where(left, x, -x))
    return xp.where(left, small, 1.0) / (1.0 + small)


def sinc(xp: Any, x: Array) -> Array:
    """The quotient sin(pi x) / (pi x), 1 at 0."""
    turned = math.pi * xp.where(x == 0, 1e-20, x)
    return xp.sin(turned) / turned


def xlogy(xp: Any, a: Array, b: Array) -> Array:
    """The product a log b, and 0 where a is 0, unless b is NaN."""
    nothing = (a == 0) & ~xp.isnan(b)
    return xp.where(nothing, 0.0, a * xp.log(xp.where(nothing, 1.0, b)))


def xlog1py(xp: Any, a: Array, b: Array) -> Array:
    """The product a log(1 + b), and 0 where a is 0, unless b is NaN."""
    nothing = (a == 0) & ~xp.isnan(b)
    return xp.where(nothing, 0.0, a * xp.log1p(xp.where(nothing, 0.0, b)))


def _truth(xp: Any, x: Array) -> Array:
    return x if xp.isdtype(x.dtype, "bool") else x != 0


def logical_and(xp: Any, a: Array, b: Array) -> Array:
    """Whether both are true, numbers unless they are 0."""
    return xp.logical_and(_truth(xp, a), _truth(xp, b))


def logical_or(xp: Any, a: Array, b: Array) -> Array:
    """Whether one is true, numbers unless they are 0."""
    return xp.logical_or(_truth(xp, a), _truth(xp, b))


def logical_xor(xp: Any, a: Array, b: Array) -> Array:
    """Whether just one is true, numbers unless they are 0."""
    return xp.logical_xor(_truth(xp, a), _truth(xp, b))


def logical_not(xp: Any, x: Array) -> Array:
    """Whether it is not true, as a number is if it is 0."""
    return xp.logical_not(_truth(xp, x))


def fmax(xp: Any, a: Array, b: Array) -> Array:
    """The greater of two, the number where one is NaN."""
    return xp.where(xp.isnan(a), b, xp.where(xp.isnan(b), a, xp.maximum(a, b)))


def fmin(xp: Any, a: Array, b: Array) -> Array:
    """The lesser of two, the number where one is NaN."""
    return xp.where(xp.isnan(a), b, xp.where(xp.isnan(b), a, xp.minimum(a, b)))


def diagonal(xp: Any, x: Array, *, offset: int = 0, axis1: int, axis2: int) -> Array:
    """The diagonal of two axes, as the last axis."""
    return xp.linalg.diagonal(xp.moveaxis(x, (axis1, axis2), (-2, -1)), offset=offset)


def put_in_order(xp: Any, x: Array, order: Array, axis: int) -> Array:
    """The y with y[order[i]] = x[i] along an axis."""
    return xp.take_along_axis(x, xp.argsort(order, axis=axis), axis=axis)


def round(xp: Any, x: Array, decimals: int = 0) -> Array:
    """The nearest number with so many decimals."""
    if not decimals:
        return xp.round(x)
    if xp.isdtype(x.dtype, "integral"):
        return (
            x if decimals > 0 else xp.astype(round(xp, xp.astype(x, xp.float64), decimals), x.dtype)
        )
    scale = 10.0 ** abs(decimals)
    return xp.round(x * scale) / scale if decimals > 0 else xp.round(x / scale) * scale


def copy(xp: Any, x: Array) -> Array:
    """A copy; how it lies in memory is the library's choice."""
    return xp.asarray(x, copy=True)


def matrix_product(xp: Any, a: Array, b: Array) -> Array:
    """The product of two matrices or vectors."""
    return xp.matmul(a, b)


COMPOSED: Final[Mapping[str, Callable[..., Any]]] = {
    "angle": angle,
    "cbrt": cbrt,
    "compact": copy,
    "conj": conj,
    "copy": copy,
    "deg2rad": deg2rad,
    "diagonal": diagonal,
    "dot": matrix_product,
    "exp2": exp2,
    "fmax": fmax,
    "fmin": fmin,
    "imag": imag,
    "log_sigmoid": log_sigmoid,
    "logaddexp2": logaddexp2,
    "logical_and": logical_and,
    "logical_not": logical_not,
    "logical_or": logical_or,
    "logical_xor": logical_xor,
    "put_in_order": put_in_order,
    "rad2deg": rad2deg,
    "real": real,
    "round": round,
    "sigmoid": sigmoid,
    "sinc": sinc,
    "xlog1py": xlog1py,
    "xlogy": xlogy,
}
"""By the names that rules use."""
