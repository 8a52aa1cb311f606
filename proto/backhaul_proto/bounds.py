"""Limits of a request that no setting changes: they bound what reading and checking it can cost.

All are far beyond what programs need. They are checked before any work, and what is beyond them is refused
with REQUEST_LIMIT and the numbers. What arrays take is bounded elsewhere: see MEMORY in service.proto.
"""

from __future__ import annotations

from typing import Final

from backhaul_proto.errors import make_error

MAX_STEPS: Final = 1_000_000
"""Steps of a block, and distinct calls."""
MAX_BLOCK_OPERANDS: Final = 10_000_000
"""Operands of all steps of a block."""
MAX_OPERANDS: Final = 65_536
"""Operands of a step."""
MAX_RESULTS: Final = 65_536
"""Results of a step."""
MAX_ATTRIBUTE_BYTES: Final = 1 << 20
"""Attributes of a call, as they travel."""
MAX_NAME_BYTES: Final = 256
"""The name of an op or of an attribute."""
MAX_NAMED: Final = 4_000_000
"""Nodes in a list: inputs, values asked, wrt, those to release."""
MAX_SETS: Final = 65_536
"""Cotangents, or directions, of a question."""
MAX_NODES: Final = 4_000_000
"""Nodes of a session, those that gradients still need included: some GB of the server's own objects."""
MAX_RENEWALS: Final = 10_000
"""Sessions that one RenewLease may name. What is beyond is MALFORMED_REQUEST."""
MAX_TENSORS: Final = 1_000_000
"""Arrays of a request."""
MAX_FIELD_BYTES: Final = 256 << 20
"""Memory of a message's fields, but for the bytes of arrays and blocks, once it is read; estimated."""


def check_count(what: str, actual: int, limit: int) -> None:
    """Refuse what is more than a request may have.

    Args:
        what: what is counted, in the plural.
        actual: how many there are.
        limit: how many there may be.

    Raises:
        InvalidArgument: REQUEST_LIMIT.
    """
    if actual > limit:
        raise make_error(
            "REQUEST_LIMIT",
            f"The request has {actual:,} {what}, and may have {limit:,}. Divide the work into several "
            "requests; nothing of this one was run.",
            what=what,
            limit=limit,
            actual=actual,
        )
