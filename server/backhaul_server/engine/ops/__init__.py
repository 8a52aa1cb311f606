"""The rules of all ops, one file a family. `rules.RULES` is filled by importing this package."""

from backhaul_server.engine.ops import (
    determinants,
    einsum,
    elementwise,
    least_squares,
    linalg,
    manipulation,
    matrix_functions,
    products,
    reductions,
    solving,
)

__all__ = [
    "determinants",
    "einsum",
    "elementwise",
    "least_squares",
    "linalg",
    "manipulation",
    "matrix_functions",
    "products",
    "reductions",
    "solving",
]
