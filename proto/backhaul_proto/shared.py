"""Tensors in shared memory: where they stand. The rules are told in shared_memory.proto.

Nothing here opens a socket or maps memory: both ends use it on what they have mapped.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from backhaul_proto.errors import BackhaulError, make_error

VERSION: Final = 1
ID_BYTES: Final = 16
NONCE_BYTES: Final = 16
PAGE_BYTES: Final = 4096
"""What a segment's size is a multiple of."""

ALIGNMENT: Final = 64
MIN_BYTES: Final = 1 << 16
"""Size from which a tensor of an answer goes to shared memory: below, a socket is as fast."""

MAX_PACKET_BYTES: Final = 4096
SOCKET_SUFFIX: Final = ".shm"
MAX_SOCKET_PATH: Final = 107  # sun_path has 108 bytes, the last of them 0


@dataclass(frozen=True, slots=True)
class Place:
    """Some bytes of a segment."""

    segment: bytes
    offset: int
    nbytes: int

    @property
    def end(self) -> int:
        """The first byte after it."""
        return self.offset + self.nbytes


@dataclass(frozen=True, slots=True)
class SharedArray:
    """A tensor that travels as the place where it is."""

    place: Place
    dtype: np.dtype
    shape: tuple[int, ...]


def aligned(nbytes: int) -> int:
    """The next multiple of the alignment."""
    return -(-nbytes // ALIGNMENT) * ALIGNMENT


def side_socket(path: bytes) -> bytes | None:
    """Where the side socket of a unix socket is; None where its path would be too long."""
    beside = path + SOCKET_SUFFIX.encode()
    return beside if len(beside) <= MAX_SOCKET_PATH else None


class Placer:
    """Puts tensors into buffers, in their order: each into the first that has room.

    >>> placer = Placer([Place(b"a", 0, 100), Place(b"b", 64, 1000)])
    >>> [placer.place(n) for n in (90, 90, 2000)]
    [Place(segment=b'a', offset=0, nbytes=90), Place(segment=b'b', offset=64, nbytes=90), None]
    """

    def __init__(self, buffers: Sequence[Place]) -> None:
        self._buffers = buffers
        self._next = [each.offset for each in buffers]

    def place(self, nbytes: int) -> Place | None:
        """The place of the next tensor; None where there is no room."""
        for i, buffer in enumerate(self._buffers):
            start = self._next[i]
            if start + nbytes <= buffer.end:
                self._next[i] = start + aligned(nbytes)
                return Place(buffer.segment, start, nbytes)
        return None


def check_places(places: Iterable[tuple[str, Place]], sizes: Mapping[bytes, int]) -> None:
    """Refuse places that are not aligned, reach beyond their segment, or overlap.

    Args:
        places: what each is for, and where it is.
        sizes: bytes of each segment that is named.

    Raises:
        InvalidArgument: SEGMENT_RANGE.
    """
    by_segment: dict[bytes, list[tuple[int, int, str]]] = {}
    for what, place in places:
        if place.offset % ALIGNMENT:
            raise _out_of_range(what, place, f"does not begin at a multiple of {ALIGNMENT}")
        if place.end > sizes[place.segment]:
            beyond = f"reaches beyond the segment's {sizes[place.segment]} bytes"
            raise _out_of_range(what, place, beyond)
        if place.nbytes:
            by_segment.setdefault(place.segment, []).append((place.offset, place.nbytes, what))
    for segment, found in by_segment.items():
        found.sort()
        for (start, nbytes, other), (offset, size, what) in itertools.pairwise(found):
            if start + nbytes > offset:
                raise _out_of_range(what, Place(segment, offset, size), f"overlaps {other}")


def _out_of_range(what: str, place: Place, why: str) -> BackhaulError:
    return make_error(
        "SEGMENT_RANGE",
        f"{what}: {place.nbytes} bytes at {place.offset} of shared memory: it {why}. Each tensor and "
        "buffer of a request needs a place of its own.",
        operand=what,
        segment=place.segment.hex(),
    )
