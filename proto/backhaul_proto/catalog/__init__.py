"""The catalog of ops: everything that both sides must know of an op, and no numerics.

`ops.CATALOG` is filled by importing this package; a family of ops is a module of it.
"""

from backhaul_proto.catalog import (
    activation,
    arithmetic,
    comparison,
    conversion,
    determinants,
    einsum,
    exponential,
    linalg,
    manipulation,
    matrix_functions,
    parts,
    products,
    reductions,
    rounding,
    selection,
    solving,
    special,
    spectral,
    trigonometric,
)

__all__ = [
    "activation",
    "arithmetic",
    "comparison",
    "conversion",
    "determinants",
    "einsum",
    "exponential",
    "linalg",
    "manipulation",
    "matrix_functions",
    "parts",
    "products",
    "reductions",
    "rounding",
    "selection",
    "solving",
    "special",
    "spectral",
    "trigonometric",
]
