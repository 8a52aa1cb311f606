"""Rules of parts of complex numbers."""

from __future__ import annotations

from typing import Any

from backhaul_server.engine.rules import Array, Linear, Namespace, Rule, rule


@rule("conj")
class Conj(Linear):
    """y is the conjugate of x: linear over the reals, and its own adjoint there."""

    function = "conj"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.conj(ct),)


@rule("real")
class Real(Linear):
    """y is the real part of x; its adjoint takes a real cotangent as it is."""

    function = "real"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: ct,)


@rule("imag")
class Imag(Linear):
    """y is the imaginary part of x; its adjoint puts a real cotangent on the imaginary axis."""

    function = "imag"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.multiply(ct, F.xp.asarray(1j, dtype=x.dtype)),)

    def cotangents(
        self, F: Namespace, ct: Array, y: Array, operands: Any, needs: Any, **keywords: Any
    ) -> Any:
        if not F.xp.is_complex(operands[0].dtype):
            return (None,)
        return super().cotangents(F, ct, y, operands, needs, **keywords)


@rule("angle")
class Angle(Rule):
    """y is the angle of x: 0 or pi for real x, so dy = 0; for complex, dy = Im(conj(x) dx) / |x|**2."""

    function = "angle"

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array) -> Array:
        if not F.xp.is_complex(x.dtype):
            return None
        return F.imag(F.multiply(F.conj(_inverted(F, x)), dx))

    def cotangents(
        self, F: Namespace, ct: Array, y: Array, operands: Any, needs: Any, **keywords: Any
    ) -> Any:
        (x,) = operands
        if not F.xp.is_complex(x.dtype):
            return (F.xp.zeros(x.shape, dtype=x.dtype),)
        return (F.multiply(F.multiply(ct, 1j), _inverted(F, x)),)


def _inverted(F: Namespace, x: Array) -> Array:
    """The quotient x / |x|**2, without the square, which overflows; constant 0 where x is 0."""
    zero = F.equal(x, 0)
    size = F.abs(F.where(zero, 1.0, x))
    return F.where(zero, 0.0, F.divide(F.divide(x, size), size))
