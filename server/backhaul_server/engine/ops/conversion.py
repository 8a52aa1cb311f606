"""Rules of ops that give the same numbers."""

from __future__ import annotations

from typing import Any

from backhaul_server.engine.rules import Array, Linear, Namespace, NotDifferentiable, rule


@rule("astype")
class AsType(Linear):
    """y is x in another dtype; tangents and cotangents change dtype with it."""

    def forward(self, xp: Any, x: Array, dtype: Any) -> Array:
        return xp.astype(x, dtype)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, dtype: Any) -> Any:
        return (lambda: ct,)


@rule("stop_gradient")
class StopGradient(NotDifferentiable):
    """y is x, cut off from the tape."""

    def forward(self, xp: Any, x: Array) -> Array:
        return x
