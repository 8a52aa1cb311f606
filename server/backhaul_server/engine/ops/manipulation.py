"""Rules of ops that move, repeat or pick elements: all linear."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.rules import Array, Linear, Namespace, Rule, rule, zeros_like


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


@rule("tril")
class Tril(Linear):
    """y keeps x's lower triangle: a projection, its own adjoint."""

    function = "tril"

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any], keep_bytes: int | None
    ) -> tuple[Rule, dict[str, Any]]:
        rows, columns = avals[0].shape[-2:]
        return self, {"k": max(-rows, min(attributes["k"], columns))}

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, k: int = 0) -> Any:
        return (lambda: F.tril(ct, k=k),)


@rule("stack")
class Stack(Rule):
    """y joins arrays along a new axis."""

    def forward(self, xp: Any, *arrays: Array, axis: int) -> Array:
        return xp.stack(arrays, axis=axis)

    def jvp(self, F: Namespace, y: Array, *both: Array, axis: int) -> Array:
        arrays, tangents = both[: len(both) // 2], both[len(both) // 2 :]
        filled = (
            zeros_like(F, x) if dx is None else dx for x, dx in zip(arrays, tangents, strict=True)
        )
        return F.stack(*filled, axis=axis)

    def cotangents(
        self, F: Namespace, ct: Array, y: Array, operands: Any, needs: Any, **keywords: Any
    ) -> Any:
        parts = F.unstack(ct, axis=keywords["axis"])
        return [part if need else None for part, need in zip(parts, needs, strict=True)]


@rule("unstack")
class Unstack(Linear):
    """The arrays that x consists of along an axis."""

    function = "unstack"

    def vjp(self, F: Namespace, ct: Any, y: Any, x: Array, axis: int) -> Any:
        return (
            lambda: F.stack(
                *(zeros_like(F, part) if c is None else c for part, c in zip(y, ct, strict=True)),
                axis=axis,
            ),
        )
