"""Bytes that are no message any more, or another one than was meant."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence

EXTREMES = (0, 1, 127, 128, 2**31 - 1, 2**31, 2**32 - 1, 2**32, 2**63 - 1, 2**63, 2**64 - 1)


def mutated(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    """The message after one to three changes. ``others`` are messages to take pieces of."""
    for _ in range(rng.choice((1, 1, 2, 3))):
        data = rng.choice(_MUTATIONS)(rng, data, others)
    return data


def random_bytes(rng: random.Random) -> bytes:
    """Bytes of any kind, up to some hundred."""
    return rng.randbytes(int(rng.expovariate(1 / 60)))


def varint(value: int) -> bytes:
    """A number as protobuf writes it."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def random_field(rng: random.Random) -> bytes:
    """A field of any number and wire type, whether that fits or not."""
    number = rng.choice((0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 15, 16, 99, 2**29 - 1))
    wire = rng.randrange(8)
    head = varint(number << 3 | wire)
    if wire == 0:
        return head + varint(rng.choice(EXTREMES))
    if wire == 1:
        return head + rng.randbytes(8)
    if wire == 5:
        return head + rng.randbytes(4)
    if wire == 2:
        inside = rng.randbytes(rng.randrange(12)) if rng.random() < 0.5 else random_field(rng)
        length = len(inside) if rng.random() < 0.9 else rng.choice(EXTREMES)
        return head + varint(length) + inside
    return head


def _flip(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    changed = bytearray(data)
    for _unused in range(rng.choice((1, 1, 2, 8))):
        changed[rng.randrange(len(data))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _overwrite(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    if not data:
        return data
    at = rng.randrange(len(data))
    return data[:at] + bytes((rng.choice((0, 1, 0x7F, 0x80, 0xFF)),)) + data[at + 1 :]


def _truncate(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data[: rng.randrange(len(data) + 1)]


def _splice(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    other = rng.choice(others) if others else b""
    return data[: rng.randrange(len(data) + 1)] + other[rng.randrange(len(other) + 1) :]


def _append(rng: random.Random, data: bytes, others: Sequence[bytes]) -> bytes:
    return data + (rng.choice(others) if others else b"")  # protobuf merges the two


def _double(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    first, last = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:last] + data[first:]


def _drop(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    first, last = sorted((rng.randrange(len(data) + 1), rng.randrange(len(data) + 1)))
    return data[:first] + data[last:]


def _field(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    return data + random_field(rng) if rng.random() < 0.7 else random_field(rng) + data


def _insert(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + random_field(rng) + data[at:]


def _extreme(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    at = rng.randrange(len(data) + 1)
    return data[:at] + varint(rng.choice(EXTREMES)) + data[at + 1 :]


def _nested(rng: random.Random, data: bytes, _: Sequence[bytes]) -> bytes:
    """Messages in messages, deeper than any."""
    number = rng.randrange(1, 16)
    for _unused in range(rng.choice((1, 3, 40, 150))):
        data = varint(number << 3 | 2) + varint(len(data)) + data
    return data


_MUTATIONS: Sequence[Callable[[random.Random, bytes, Sequence[bytes]], bytes]] = (
    _flip,
    _flip,
    _overwrite,
    _truncate,
    _splice,
    _append,
    _double,
    _drop,
    _field,
    _insert,
    _extreme,
    _nested,
)
