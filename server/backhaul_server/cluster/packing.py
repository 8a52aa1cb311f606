"""Messages between front ends and workers: small ones as bytes, others through Ray's object store."""

from __future__ import annotations

from typing import Final

import numpy as np

from backhaul_proto.messages import Array

IN_LINE: Final = 100_000
"""Bytes above which a message travels as an array: that goes into the store as it is, without pickling."""

Bytes = bytes | Array


def packed(data: bytes) -> Bytes:
    """A message as it travels."""
    return data if len(data) <= IN_LINE else np.frombuffer(data, np.uint8)


def unpacked(data: Bytes) -> bytes:
    """The message again."""
    return data if isinstance(data, bytes) else data.tobytes()
