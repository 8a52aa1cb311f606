"""An engine on array-api-strict: the array API and nothing else, on a device that is not the host's.

There, what NumPy alone has is an error, and so is an array that goes to the host or to another device
without being told to.
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import array_api_strict

from backhaul_server.engine.array_api import ArrayApiNamespace
from backhaul_server.engine.engine import Engine

ON_HOST: Final = frozenset(
    {
        "add_at",
        "digamma",
        "einsum",
        "erf",
        "erfc",
        "erfinv",
        "getitem",
        "lgamma",
        "lu_factor",
        "lu_solve",
        "pad",
        "polygamma",
        "solve_triangular",
    }
)
"""What the host computes for want of it in the array API: a name that is not here is not there."""

USES: Final[Counter[str]] = Counter()
"""How often each function was used that the array API lacks."""


def strict_engine() -> Engine:
    """An engine whose arrays lie on the second device; what is supplied is counted in `USES`."""
    device = array_api_strict.Device("device1")
    return Engine(
        ArrayApiNamespace(array_api_strict, ON_HOST, device, note=lambda name: USES.update((name,)))
    )


def uses() -> list[str]:
    """The counts, a line for what the host did and one for what was put in the array API's terms."""
    far = [f"{name} {n}" for name, n in sorted(USES.items()) if name in ON_HOST]
    near = [f"{name} {n}" for name, n in sorted(USES.items()) if name not in ON_HOST]
    return ["by the host: " + ", ".join(far), "in its own terms: " + ", ".join(near)]
