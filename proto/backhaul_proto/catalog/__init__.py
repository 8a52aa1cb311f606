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
    exponential_sums,
    linalg,
    manipulation,
    norms,
    parts,
    reductions,
    rounding,
    scans,
    selection,
    sorting,
    special,
    statistics,
    trigonometric,
)

__all__ = [
    "activation",
    "arithmetic",
    "comparison",
    "conversion",
    "einsum",
    "exponential",
    "exponential_sums",
    "linalg",
    "manipulation",
    "norms",
    "parts",
    "reductions",
    "rounding",
    "scans",
    "selection",
    "sorting",
    "special",
    "statistics",
    "trigonometric",
]
