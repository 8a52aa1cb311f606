"""Memory that the client shares with a server, and who uses which part of it.

A region belongs to one array, and goes back when the last view of that array is gone. That is told by a
finalizer, which may run anywhere: it takes no lock and only appends to a queue. Free ranges are one value
that is replaced as a whole: an interrupt (Ctrl-C) can lose a region until the connection ends, and never
give it away twice.
"""

from __future__ import annotations

import mmap
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Any, Final

import numpy as np

from backhaul_proto.shared import NONCE_BYTES, PAGE_BYTES, Place, aligned

Array = np.ndarray[Any, Any]

SMALLEST_SEGMENT: Final = 4 << 20
KEPT_IDLE_SECONDS: Final = 30.0
"""How long a segment without a region is kept for the next ones."""

_GROWTH: Final = 4  # a new segment has at least this part of what is there


class Segment:
    """Shared memory that a server made.

    Attributes:
        id: the server's name for it.
        nbytes: its size.
        free: ranges (first, end) that are free, in order.
        usable: whether the server knows it still.
        used_at: when a region of it was taken last.
    """

    __slots__ = ("_memory", "address", "free", "id", "nbytes", "usable", "used_at")

    def __init__(self, name: bytes, descriptor: int, nbytes: int) -> None:
        self.id = name
        self.nbytes = nbytes
        self._memory = np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)
        self.address: int = self._memory.__array_interface__["data"][0]
        self.free: tuple[tuple[int, int], ...] = ((0, nbytes),)
        self.usable = True
        self.used_at = 0.0

    @property
    def nonce(self) -> bytes:
        """What the server wrote at its start."""
        return self._memory[:NONCE_BYTES].tobytes()

    @property
    def is_free(self) -> bool:
        """Whether no region of it is in use."""
        return self.free == ((0, self.nbytes),)

    def take(self, nbytes: int) -> int | None:
        """The start of so many bytes, the first that are free."""
        size = aligned(nbytes)
        free = self.free
        for i, (first, end) in enumerate(free):
            if end - first >= size:
                rest = ((first + size, end),) if end - first > size else ()
                self.free = (*free[:i], *rest, *free[i + 1 :])
                return first
        return None

    def give(self, first: int, nbytes: int) -> None:
        """Take back what `take` gave, or a part of it."""
        end = first + aligned(nbytes)
        before = tuple(each for each in self.free if each[1] <= first)
        after = tuple(each for each in self.free if each[0] >= end)
        if before and before[-1][1] == first:
            first = before[-1][0]
            before = before[:-1]
        if after and after[0][0] == end:
            end = after[0][1]
            after = after[1:]
        self.free = (*before, (first, end), *after)


Returned = deque[tuple[Segment, int, int, bool]]
"""Regions that are no longer used: segment, start, bytes, whether they were the caller's."""


class Region:
    """Bytes of a segment that are one array's.

    The array refers to it as its base, by NumPy's array interface.
    """

    __slots__ = ("__array_interface__", "_returned", "nbytes", "of_caller", "segment", "start")

    def __init__(
        self, segment: Segment, start: int, nbytes: int, returned: Returned, of_caller: bool
    ) -> None:
        self.segment = segment
        self.start = start
        self.nbytes = nbytes
        self.of_caller = of_caller
        self._returned = returned

    @property
    def place(self) -> Place:
        """How the server is told of it."""
        return Place(self.segment.id, self.start, self.nbytes)

    def array(self, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
        """Its array. To be asked for once."""
        self.__array_interface__ = {
            "data": (self.segment.address + self.start, False),
            "shape": shape,
            "typestr": dtype.str,
            "version": 3,
        }
        return np.asarray(self)

    def __del__(self) -> None:
        if self.nbytes:
            self._returned.append((self.segment, self.start, self.nbytes, self.of_caller))


def region_of(array: Array) -> Region | None:
    """The region that is this array's memory as a whole, while the server knows it."""
    base = array.base
    if not isinstance(base, Region) or array.nbytes != base.nbytes:
        return None
    return base if base.segment.usable and array.flags.c_contiguous else None


class Pool:
    """The segments of a connection. Used under its owner's lock.

    Attributes:
        returned: finalizers append to it.
        of_caller: bytes in arrays that were handed to the caller.
    """

    def __init__(self) -> None:
        self.segments: list[Segment] = []
        self.returned: Returned = deque()
        self.of_caller = 0

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        return sum(each.nbytes for each in self.segments)

    def take(self, nbytes: int, now: float) -> Region | None:
        """A region, if a segment has so many bytes free."""
        self.take_back()
        for segment in self.segments:
            start = segment.take(nbytes)
            if start is not None:
                segment.used_at = now
                return Region(segment, start, nbytes, self.returned, of_caller=False)
        return None

    def take_back(self) -> None:
        """Let what was returned be used again."""
        for _ in range(len(self.returned)):
            segment, start, nbytes, of_caller = self.returned.popleft()
            if of_caller:
                self.of_caller -= nbytes
            segment.give(start, nbytes)

    def cut(self, segment: Segment, place: Place) -> Region:
        """A part of a region that was taken, as one of its own: the caller's."""
        self.of_caller += place.nbytes
        return Region(segment, place.offset, place.nbytes, self.returned, of_caller=True)

    def size_for(self, nbytes: int, most: int) -> int:
        """The size of a new segment: a power of two, if all are to have at most so many bytes."""
        least = max(SMALLEST_SEGMENT, self.nbytes // _GROWTH, nbytes)
        size = 1 << (least - 1).bit_length()
        return size if self.nbytes + size <= most else -(-nbytes // PAGE_BYTES) * PAGE_BYTES

    def retire(self, segments: set[Segment]) -> None:
        """Use these segments no more. Arrays that are in them stay as they are."""
        for each in segments:
            each.usable = False
        self.segments = [each for each in self.segments if each not in segments]

    def idle(self, now: float) -> set[Segment]:
        """Segments of which nothing was used for a while."""
        self.take_back()
        before = now - KEPT_IDLE_SECONDS
        return {each for each in self.segments if each.is_free and each.used_at < before}


def gaps(room: Place, parts: Sequence[Place]) -> Iterator[tuple[int, int]]:
    """What is left of a region beside the parts of it, which are in order: (start, bytes)."""
    at = room.offset
    for part in parts:
        if part.offset > at:
            yield at, part.offset - at
        at = part.offset + aligned(part.nbytes)
    end = room.offset + aligned(room.nbytes)
    if end > at:
        yield at, end - at
