"""Which docstrings can be run here: those of adapters need their libraries."""

from __future__ import annotations

from importlib.util import find_spec
from typing import Final

_NEEDS: Final = {"jax": "jax", "torch": "torch", "pytensor": "pytensor", "autoray": "autoray"}

collect_ignore = [
    f"backhaul/adapters/{module}.py"
    for module, library in _NEEDS.items()
    if find_spec(library) is None
]
