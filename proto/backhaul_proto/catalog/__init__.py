"""The catalog of ops: everything that both sides must know of an op, and no numerics.

`ops.CATALOG` is filled by importing this package; a family of ops is a module of it.
"""

from backhaul_proto.catalog import (
    contractions,
    determinants,
    einsum,
    elementwise,
    linalg,
    manipulation,
    matrix_functions,
    products,
    reductions,
    solving,
)

__all__ = [
    "contractions",
    "determinants",
    "einsum",
    "elementwise",
    "linalg",
    "manipulation",
    "matrix_functions",
    "products",
    "reductions",
    "solving",
]
