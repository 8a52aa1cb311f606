"""Rules of ops that act on each element.

Broadcasting needs no thought here: the passes bring tangents and cotangents to their arrays' shapes.
"""

from __future__ import annotations

from typing import Any

from backhaul_server.engine.rules import Array, Bilinear, Linear, Namespace, Rule, plus, rule


@rule("add")
class Add(Rule):
    """y = a + b."""

    function = "add"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(F, da, db)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: ct, lambda: ct)


@rule("subtract")
class Subtract(Rule):
    """y = a - b."""

    function = "subtract"

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        return plus(F, da, None if db is None else F.negative(db))

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: ct, lambda: F.negative(ct))


@rule("multiply")
class Multiply(Bilinear):
    """y = a b."""

    function = "multiply"

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: F.multiply(ct, F.conj(b)), lambda: F.multiply(ct, F.conj(a)))


@rule("negative")
class Negative(Linear):
    """y = -x."""

    function = "negative"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.negative(ct),)


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
        if operands[0].dtype.kind != "c":
            return (None,)
        return super().cotangents(F, ct, y, operands, needs, **keywords)


@rule("astype")
class AsType(Linear):
    """y is x in another dtype; tangents and cotangents change dtype with it."""

    def forward(self, xp: Any, x: Array, dtype: Any) -> Array:
        return xp.astype(x, dtype)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, dtype: Any) -> Any:
        return (lambda: ct,)


@rule("stop_gradient")
class StopGradient(Rule):
    """y is x, cut off from the tape: the engine asks for neither derivative."""

    def forward(self, xp: Any, x: Array) -> Array:
        return x

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array) -> Array:
        return None

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: None,)
