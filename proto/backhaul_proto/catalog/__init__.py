"""The catalog of ops: everything that both sides must know of an op, and no numerics.

`ops.CATALOG` is filled by importing this package; a family of ops is a module of it.
"""

from backhaul_proto.catalog import (
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
