"""The op ``einsum``: its notation, checks, result shape and catalog entry.

`arguments` reads a call, `notation` the expression, `optimize` the name of a search, `resolve` joins them
with the operands' shapes into the `Einsum` that the server plans, `entry` holds the catalog entries.
"""

from backhaul_proto.catalog.einsum.arguments import einsum_attributes
from backhaul_proto.catalog.einsum.entry import EINSUM
from backhaul_proto.catalog.einsum.notation import Ints
from backhaul_proto.catalog.einsum.resolve import MAX_RANK, Einsum, resolve, symbol

__all__ = ["EINSUM", "MAX_RANK", "Einsum", "Ints", "einsum_attributes", "resolve", "symbol"]
