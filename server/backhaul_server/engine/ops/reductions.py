"""Rules of ops that reduce over axes."""

from __future__ import annotations

from typing import Any

from backhaul_proto.catalog.shapes import canonical_axes, reduced_shape
from backhaul_server.engine.rules import Array, Linear, Namespace, rule


@rule("sum")
class Sum(Linear):
    """y sums x over axes; the adjoint repeats."""

    function = "sum"

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: Any = None, keepdims: bool = False
    ) -> Any:
        kept = reduced_shape(x.shape, canonical_axes(axis, len(x.shape)), True)
        return (lambda: F.broadcast_to(F.reshape(ct, shape=kept), shape=x.shape),)
