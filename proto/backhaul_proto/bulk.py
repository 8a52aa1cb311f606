"""What a message's fields will take in memory, told from its bytes before it is read.

A few bytes can stand for much: numbers of one byte are read to eight, an empty message to some hundred. The
bytes of arrays and blocks are only copied; they are what makes messages large, and do not count.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from backhaul_proto.bounds import MAX_FIELD_BYTES, check_count

FROM_BYTES: Final = 16 << 20
"""Messages up to this size are read without a look: their fields cannot take too much."""

_FIELD: Final = 64  # a field at least
_GROWTH: Final = 8  # of numbers
_SIZES: Final = {1: 8, 5: 4}  # by wire type, of those with a fixed one


def check_bulk(descriptor: Any, data: bytes) -> None:
    """Refuse a message whose fields would take too much memory. It may be malformed.

    Args:
        descriptor: of the message.
        data: its bytes.

    Raises:
        InvalidArgument: REQUEST_LIMIT.
    """
    total = 0
    waiting = [(descriptor, 0, len(data))]
    while waiting:
        kind, at, end = waiting.pop()
        inside, plain = _fields(kind)
        while at < end:
            tag, at = _varint(data, at, end)
            wire, number = tag & 7, tag >> 3
            total += _FIELD
            if wire == 2:
                size, at = _varint(data, at, end)
                size = min(size, end - at)
                if number in inside:
                    waiting.append((inside[number], at, at + size))
                elif number not in plain:
                    total += size * _GROWTH
                at += size
            elif wire == 0:
                _, at = _varint(data, at, end)
            elif wire in _SIZES:
                at += _SIZES[wire]
            else:  # protobuf refuses it, or passes over it
                at = end
            if total > MAX_FIELD_BYTES:
                check_count("bytes of fields", total, MAX_FIELD_BYTES)


@lru_cache(maxsize=256)
def _fields(descriptor: Any) -> tuple[Mapping[int, Any], frozenset[int]]:
    """Of a message, those fields that are messages, and those that are bytes or text."""
    inside = {
        number: field.message_type
        for number, field in descriptor.fields_by_number.items()
        if field.message_type is not None
    }
    plain = {
        number
        for number, field in descriptor.fields_by_number.items()
        if field.type in (field.TYPE_BYTES, field.TYPE_STRING)
    }
    return inside, frozenset(plain)


def _varint(data: bytes, at: int, end: int) -> tuple[int, int]:
    value = shift = 0
    while at < end and shift < 70:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            break
        shift += 7
    return value, at
