"""Sizes in words."""

from __future__ import annotations

from typing import Final

_UNITS: Final = ("KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def size(nbytes: int) -> str:
    """A number of bytes for people.

    >>> size(800), size(256 << 20), size(1_100_000_000)
    ('800 bytes', '256 MiB', '1.024 GiB')
    """
    if nbytes < 1024:
        return f"{nbytes} bytes"
    step = min((nbytes.bit_length() - 1) // 10, len(_UNITS))
    return f"{nbytes / 1024**step:.4g} {_UNITS[step - 1]}"
