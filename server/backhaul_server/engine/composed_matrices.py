"""Functions of matrices in the array API's own terms, for stacks of them at once."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

Array = Any

_THETA: Final = 5.371920351148152
"""The 1-norm up to which the approximant of degree 13 is exact to double precision."""

_PADE: Final = (
    64764752532480000.0,
    32382376266240000.0,
    7771770303897600.0,
    1187353796428800.0,
    129060195264000.0,
    10559470521600.0,
    670442572800.0,
    33522128640.0,
    1323241920.0,
    40840800.0,
    960960.0,
    16380.0,
    182.0,
    1.0,
)


def expm(xp: Any, a: Array) -> Array:
    """The exponential of square matrices; NaN for one that is not finite, or whose exponential overflows.

    Scaling and squaring with Padé's approximant of degree 13: Higham, The scaling and squaring method for
    the matrix exponential revisited, SIAM J. Matrix Anal. Appl. 26 (2005), algorithm 2.3. All matrices of a
    stack are squared as often as the largest needs, those that need it less keep what they have.
    """
    if a.size == 0:
        return xp.asarray(a, copy=True)
    finite = xp.all(xp.isfinite(a), axis=(-2, -1), keepdims=True)
    nan = xp.asarray(float("nan"), dtype=a.dtype)
    a = xp.where(finite, a, xp.zeros((), dtype=a.dtype))
    norm = xp.max(xp.sum(xp.abs(a), axis=-2, keepdims=True), axis=-1, keepdims=True)
    halvings = xp.ceil(xp.log2(xp.maximum(norm / _THETA, 1.0)))
    scaled = a * xp.astype(xp.pow(2.0, -halvings), a.dtype)
    y = _pade(xp, scaled)
    for done in range(int(xp.max(halvings))):
        y = xp.where(halvings > done, xp.matmul(y, y), y)
    sound = finite & xp.all(xp.isfinite(y), axis=(-2, -1), keepdims=True)
    return xp.where(sound, y, nan)


def _pade(xp: Any, a: Array) -> Array:
    b = _PADE
    one = xp.eye(a.shape[-1], dtype=a.dtype)
    a2 = xp.matmul(a, a)
    a4 = xp.matmul(a2, a2)
    a6 = xp.matmul(a4, a2)
    inner = xp.matmul(a6, a6 * b[13] + a4 * b[11] + a2 * b[9])
    odd = xp.matmul(a, inner + a6 * b[7] + a4 * b[5] + a2 * b[3] + one * b[1])
    inner = xp.matmul(a6, a6 * b[12] + a4 * b[10] + a2 * b[8])
    even = inner + a6 * b[6] + a4 * b[4] + a2 * b[2] + one * b[0]
    return xp.linalg.solve(even - odd, even + odd)


COMPOSED_MATRICES: Final[Mapping[str, Callable[..., Any]]] = {"expm": expm}
"""By the names that rules use."""
