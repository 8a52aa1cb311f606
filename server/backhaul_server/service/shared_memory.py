"""Segments of shared memory: who has them, what they take, and the requests that use them.

They are memfds, sealed so that no client can cut the memory under the server (which would be a SIGBUS).
The rules are told in shared_memory.proto; `side_socket` hands the descriptors over.
"""

from __future__ import annotations

import errno
import mmap
import os
import secrets
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import numpy as np

from backhaul_proto import tensors
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import Array
from backhaul_proto.shared import (
    ID_BYTES,
    MIN_BYTES,
    NONCE_BYTES,
    PAGE_BYTES,
    Place,
    Placer,
    SharedArray,
    check_places,
)

# Each segment holds a descriptor of the process, which may have 1024 by most systems' default.
MAX_SEGMENTS: Final = 256
SEGMENTS_OF_ONE: Final = 64


class Segment:
    """Some memory that a client maps too.

    Attributes:
        id: by which requests name it.
        nbytes: its size.
        memory: all of it, as bytes.
        owner: the side socket's connection that it lives with.
        principal: who may name it; None until somebody did.
        uses: running requests that name it.
        freed: whether it is to go with the last of them.
    """

    __slots__ = ("freed", "id", "memory", "nbytes", "owner", "principal", "uses")

    def __init__(self, owner: object, memory: Array, principal: str | None) -> None:
        self.id = secrets.token_bytes(ID_BYTES)
        self.nbytes = memory.nbytes
        self.memory = memory
        self.owner = owner
        self.principal = principal
        self.uses = 0
        self.freed = False


class Segments:
    """All segments of a server. Many threads may use it at once.

    Args:
        limit: most bytes of all segments together. One connection may have half of them.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self.limit_of_one = limit // 2 // PAGE_BYTES * PAGE_BYTES
        self._lock = Lock()
        self._segments: dict[bytes, Segment] = {}
        self._bytes: Counter[object] = Counter()  # by owner, segments to be freed included
        self._counts: Counter[object] = Counter()

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""
        with self._lock:
            return self._bytes.total()

    def allocate(
        self, owner: object, nbytes: int, principal: str | None = None
    ) -> tuple[Segment, bytes, int]:
        """A new segment, its nonce, and its descriptor, which is the caller's to close.

        Args:
            owner: whose it is, and with whom it goes.
            nbytes: its size.
            principal: who may name it; None: who names it first.

        Raises:
            BackhaulError: MALFORMED_REQUEST, QUOTA_EXCEEDED, MEMORY_LIMIT_EXCEEDED.
        """
        if nbytes <= 0 or nbytes % PAGE_BYTES:
            raise make_error(
                "MALFORMED_REQUEST",
                f"A segment has a multiple of {PAGE_BYTES} bytes, not {nbytes}.",
                actual=nbytes,
            )
        with self._lock:
            self._check_quota(owner, nbytes)
            self._count(owner, nbytes)
        try:
            descriptor, memory = _sealed_memory(nbytes)
        except OSError as error:
            with self._lock:
                self._count(owner, -nbytes)
            if error.errno not in (errno.ENOMEM, errno.ENOSPC, errno.EMFILE, errno.ENFILE):
                raise
            raise make_error(
                "MEMORY_LIMIT_EXCEEDED",
                f"The system gives no shared memory of {nbytes} bytes: {error.strerror}.",
                actual=nbytes,
            ) from None
        nonce = secrets.token_bytes(NONCE_BYTES)
        memory[:NONCE_BYTES] = np.frombuffer(nonce, np.uint8)
        segment = Segment(owner, memory, principal)
        with self._lock:
            self._segments[segment.id] = segment
        return segment, nonce, descriptor

    def free(self, owner: object, name: bytes) -> None:
        """Free a segment of this owner, after the requests that use it. Others are passed over."""
        with self._lock:
            segment = self._segments.get(name)
            if segment is not None and segment.owner is owner:
                self._free(segment)

    def free_all(self, owner: object) -> None:
        """Free the segments of this owner."""
        with self._lock:
            for segment in [each for each in self._segments.values() if each.owner is owner]:
                self._free(segment)

    def count(self, owner: object) -> int:
        """How many segments this owner has."""
        with self._lock:
            return self._counts[owner]

    @contextmanager
    def request(
        self, principal: str, named: Sequence[tuple[str, SharedArray]], buffers: Sequence[Place]
    ) -> Iterator[Lent]:
        """What a request names, kept in place until its end.

        Args:
            principal: who asks.
            named: its tensors in shared memory, with their names in errors.
            buffers: where tensors of the answer may be put.

        Raises:
            InvalidArgument: SEGMENT_UNKNOWN, SEGMENT_RANGE.
        """
        places = [(what, each.place) for what, each in named]
        places += [(f"response buffer {i}", each) for i, each in enumerate(buffers)]
        segments = self._acquire(principal, places)
        try:
            yield Lent({each.id: each.memory for each in segments}, buffers)
        finally:
            with self._lock:
                for segment in segments:
                    segment.uses -= 1
                    self._settle(segment)

    # Under the lock

    def _acquire(self, principal: str, places: Sequence[tuple[str, Place]]) -> list[Segment]:
        with self._lock:
            found: dict[bytes, Segment] = {}
            for what, place in places:
                segment = self._segments.get(place.segment)
                if segment is None or segment.principal not in (None, principal):
                    raise tensors.segment_unknown(place.segment, what)
                found[segment.id] = segment
            check_places(places, {each.id: each.nbytes for each in found.values()})
            for segment in found.values():
                segment.principal = principal
                segment.uses += 1
            return list(found.values())

    def _free(self, segment: Segment) -> None:
        del self._segments[segment.id]
        segment.freed = True
        self._settle(segment)

    def _settle(self, segment: Segment) -> None:
        if segment.freed and not segment.uses:
            self._count(segment.owner, -segment.nbytes)

    def _count(self, owner: object, nbytes: int) -> None:
        self._bytes[owner] += nbytes
        self._counts[owner] += 1 if nbytes > 0 else -1
        if not self._counts[owner]:
            del self._bytes[owner], self._counts[owner]

    def _check_quota(self, owner: object, nbytes: int) -> None:
        of_one = (self._bytes[owner] + nbytes, self._counts[owner] + 1)
        of_all = (self._bytes.total() + nbytes, self._counts.total() + 1)
        if of_one[0] > self.limit_of_one or of_one[1] > SEGMENTS_OF_ONE:
            raise _quota_exceeded("A connection", of_one, self.limit_of_one, SEGMENTS_OF_ONE)
        if of_all[0] > self.limit or of_all[1] > MAX_SEGMENTS:
            raise _quota_exceeded("All connections", of_all, self.limit, MAX_SEGMENTS)


class Lent:
    """The shared memory that one request names.

    Args:
        memory: bytes of the segments that it names.
        buffers: where tensors of the answer may be put.
    """

    def __init__(self, memory: dict[bytes, Array], buffers: Sequence[Place]) -> None:
        self._memory = memory
        self._placer = Placer(buffers)

    def read(self, shared: SharedArray, _what: str) -> Array:
        """The array, copied out: the client may write over it, even while this is done."""
        place = shared.place
        data = self._memory[place.segment][place.offset : place.end]
        return tensors.copied(data, shared.dtype, shared.shape)

    def put(self, arrays: Sequence[Array]) -> list[Array | SharedArray]:
        """The arrays of the answer, the large ones in shared memory as far as there is room."""
        return [self._put(each) if each.nbytes >= MIN_BYTES else each for each in arrays]

    def _put(self, array: Array) -> Array | SharedArray:
        place = self._placer.place(array.nbytes)
        if place is None:
            return array
        tensors.write_into(self._memory[place.segment][place.offset : place.end], array)
        return SharedArray(place, array.dtype, array.shape)


def _quota_exceeded(
    who: str, taken: tuple[int, int], most_bytes: int, most_segments: int
) -> BackhaulError:
    return make_error(
        "QUOTA_EXCEEDED",
        f"{who} would have {taken[0]:,} bytes of shared memory in {taken[1]} segments, and may have "
        f"{most_bytes:,} in {most_segments}. Free some, or start the server with a larger "
        "--shared-memory.",
        expected=most_bytes,
        actual=taken[0],
    )


def _sealed_memory(nbytes: int) -> tuple[int, Any]:
    """A memfd whose size nobody can change, and its bytes."""
    import fcntl  # not on every system

    descriptor = os.memfd_create("backhaul", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    try:
        os.ftruncate(descriptor, nbytes)
        # Here, where a lack of memory is an error: at the first touch it would be a SIGBUS.
        os.posix_fallocate(descriptor, 0, nbytes)
        seals = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL
        fcntl.fcntl(descriptor, fcntl.F_ADD_SEALS, seals)
        return descriptor, np.frombuffer(mmap.mmap(descriptor, nbytes), np.uint8)
    except BaseException:
        os.close(descriptor)
        raise
