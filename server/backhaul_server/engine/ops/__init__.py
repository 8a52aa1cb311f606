"""The rules of all ops, one file a family. `rules.RULES` is filled by importing this package."""

from backhaul_server.engine.ops import (
    axes,
    diagonals,
    einsum,
    elementwise,
    indexing,
    joining,
    linalg,
    manipulation,
    reductions,
    repeating,
)

__all__ = [
    "axes",
    "diagonals",
    "einsum",
    "elementwise",
    "indexing",
    "joining",
    "linalg",
    "manipulation",
    "reductions",
    "repeating",
]
