"""The rules of all ops, one file a family. `rules.RULES` is filled by importing this package."""

from backhaul_server.engine.ops import (
    einsum,
    elementwise,
    linalg,
    manipulation,
    products,
    reductions,
)

__all__ = ["einsum", "elementwise", "linalg", "manipulation", "products", "reductions"]
