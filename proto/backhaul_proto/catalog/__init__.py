"""The catalog of ops: everything that both sides must know of an op, and no numerics.

`ops.CATALOG` is filled by importing this package; a family of ops is a module of it.
"""

from backhaul_proto.catalog import (
    activation,
    arithmetic,
    comparison,
    conversion,
    einsum,
    exponential,
    linalg,
    manipulation,
    parts,
    reductions,
    rounding,
    selection,
    special,
    trigonometric,
)

__all__ = [
    "activation",
    "arithmetic",
    "comparison",
    "conversion",
    "einsum",
    "exponential",
    "linalg",
    "manipulation",
    "parts",
    "reductions",
    "rounding",
    "selection",
    "special",
    "trigonometric",
]
