"""The rules of all ops, one file a family. `rules.RULES` is filled by importing this package."""

from backhaul_server.engine.ops import (
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
