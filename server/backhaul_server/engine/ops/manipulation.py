"""Rules of ops that give an array another shape: all linear."""

from __future__ import annotations

from typing import Any

from backhaul_server.engine.rules import Array, Linear, Namespace, rule


@rule("reshape")
class Reshape(Linear):
    """y has x's elements in another shape."""

    function = "reshape"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, shape: Any) -> Any:
        return (lambda: F.reshape(ct, shape=x.shape),)


@rule("broadcast_to")
class BroadcastTo(Linear):
    """y repeats x; the adjoint sums the repetitions."""

    function = "broadcast_to"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, shape: Any) -> Any:
        return (lambda: F.unbroadcast(ct, shape=x.shape),)


@rule("unbroadcast")
class Unbroadcast(Linear):
    """y sums x to a shape that broadcasts to x's; the adjoint repeats."""

    def forward(self, xp: Any, x: Array, shape: Any) -> Array:
        extra = x.ndim - len(shape)
        axes = (*range(extra), *(extra + i for i, n in enumerate(shape) if x.shape[extra + i] != n))
        return xp.reshape(xp.sum(x, axis=axes), shape)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, shape: Any) -> Any:
        return (lambda: F.broadcast_to(ct, shape=x.shape),)


@rule("matrix_transpose")
class MatrixTranspose(Linear):
    """y is x with its last two axes swapped."""

    function = "matrix_transpose"

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array) -> Any:
        return (lambda: F.matrix_transpose(ct),)
