"""Tensors by shared memory, for a server on this host at a unix socket.

The first large tensor opens the side socket. From then on large leaves are frozen right into shared
memory, so that sending them costs nothing more, and large arrays of an answer are handed out as they are
there. Whatever cannot be had travels by the socket as ever: with one warning a connection, or an error
where shared memory is demanded.
"""

from __future__ import annotations

import math
import os
import sys
import time
import warnings
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from threading import Lock
from typing import Any, Final

import numpy as np

from backhaul.transport.regions import Pool, Region, Segment, gaps, region_of
from backhaul.transport.side_socket import Gone, NotOffered, SideSocket, failed
from backhaul_proto.errors import BackhaulError, TransportError, make_error
from backhaul_proto.shared import ALIGNMENT, MIN_BYTES, Place, SharedArray, aligned, is_supported

Array = np.ndarray[Any, Any]

REFUSED_SECONDS: Final = 1.0
"""How long no segment is asked for after one was refused."""

OF_SEGMENTS: Final = ("SEGMENT_UNKNOWN", "SEGMENT_RANGE")
"""Refusals of what is in shared memory: the same by the socket is good."""

_LIMITS: Final = ("QUOTA_EXCEEDED", "MEMORY_LIMIT_EXCEEDED")


class Loan:
    """What one request uses of shared memory.

    Attributes:
        tensors: what is sent: large tensors by their places.
        buffers: where the server may put large tensors of the answer.
        named: the segments of both.
        beside: bytes of the request and the answer that find no room in shared memory.
    """

    def __init__(
        self,
        memory: SharedMemory,
        arrays: Sequence[Array],
        room: Region | None,
        answer_bytes: int,
    ) -> None:
        self._memory = memory
        self._copies: list[Array] = []
        self._room = room
        self._parts: list[Place] = []
        self.named: set[Segment] = set()
        self.tensors: list[Array | SharedArray] = [self._tensor(each) for each in arrays]
        self.buffers: list[Place] = []
        self.beside = max(0, answer_bytes - (room.nbytes if room is not None else 0))
        self.beside += sum(each.nbytes for each in self.tensors if isinstance(each, np.ndarray))
        if room is not None:
            self.buffers.append(room.place)
            self.named.add(room.segment)

    def read(self, shared: SharedArray, _what: str) -> Array:
        """A tensor of the answer: the caller's own array, mostly in shared memory."""
        place = shared.place
        if self._room is None or not self._is_right(place):
            raise make_error(
                "INTERNAL", "The server put a tensor where there was no room for it: a bug in it."
            )
        self._room.nbytes = 0  # it goes back in parts
        self._parts.append(place)
        array = self._memory.part(self._room.segment, place).array(shared.dtype, shared.shape)
        return array.copy() if self._memory.is_much_of_callers else array

    def end(self) -> None:
        """The answer was read: what is not the caller's may be used again."""
        if self._room is not None and self._parts:
            self._memory.give_back(self._room.segment, gaps(self.buffers[0], self._parts))
        self._room = None
        self._copies = []  # an error's traceback may keep this object

    def _tensor(self, array: Array) -> Array | SharedArray:
        if array.nbytes < MIN_BYTES:
            return array
        region = region_of(array)
        if region is None:
            copy = self._memory.copy_into(array)
            region = None if copy is None else region_of(copy)
            if copy is None or region is None:
                return array
            self._copies.append(copy)  # until the answer
        self.named.add(region.segment)
        return SharedArray(region.place, array.dtype, array.shape)

    def _is_right(self, place: Place) -> bool:
        room = self.buffers[0]
        first = room.offset
        if self._parts:
            first = self._parts[-1].offset + aligned(self._parts[-1].nbytes)
        return (
            place.segment == room.segment
            and place.nbytes > 0
            and place.offset % ALIGNMENT == 0
            and first <= place.offset
            and place.end <= room.end
        )


class SharedMemory:
    """The memory that a connection shares with its server. Threads may share it; processes may not.

    Args:
        path: of the side socket; None: it would be too long for one.
        target: the server, for messages.
        token: of the client's calls.
        demanded: whether it is an error that there is none.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        path: bytes | None,
        target: object,
        *,
        token: str | None = None,
        demanded: bool = False,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._target = target
        self._token = token
        self._demanded = demanded
        self._clock = clock
        self._lock = Lock()
        self._process = os.getpid()
        self._pool = Pool()
        self._side: SideSocket | None = None
        self._ended = False
        self._no_more_until = 0.0
        self._complaint: BackhaulError | None = None
        self._warned = False
        _all.add(self)

    def frozen(self, array: Array) -> Array | None:
        """A copy of an array in shared memory, in C order; None where there is no room.

        Raises:
            Unavailable: SHARED_MEMORY_UNAVAILABLE, where it is demanded.
        """
        if os.getpid() != self._process:
            return None
        copy = self.copy_into(array)
        self._speak(complete=copy is not None)
        return copy

    @contextmanager
    def lend(self, arrays: Sequence[Array], answer_bytes: int) -> Iterator[Loan]:
        """What a request with these tensors uses, until its answer is read.

        Args:
            arrays: tensors of the request.
            answer_bytes: what large tensors of the answer may take.

        Raises:
            Unavailable: SHARED_MEMORY_UNAVAILABLE, where it is demanded.
        """
        loan = Loan(self, arrays, self._room(answer_bytes), answer_bytes)
        large = any(
            isinstance(each, np.ndarray) and each.nbytes >= MIN_BYTES for each in loan.tensors
        )
        self._speak(complete=not large and bool(loan.buffers or not answer_bytes))
        try:
            yield loan
        except BaseException as error:
            if _ends_segments(error):
                self.disconnect()
            raise
        finally:
            loan.end()
        self._trim()

    def close(self) -> None:
        """Close the side socket. Arrays that are in shared memory stay as they are."""
        self._ended = True
        self.disconnect()

    def disconnect(self) -> None:
        """Let go of the server and all segments; the next large tensor connects again."""
        with self._lock:
            self._disconnect()

    def close_in_child(self) -> None:
        """Let go of the side socket in a forked process: else it would outlive the parent here."""
        if self._side is not None:
            self._side.close()

    # For loans

    @property
    def is_much_of_callers(self) -> bool:
        """Whether so much is in arrays of the caller that further ones are to be copied out."""
        side = self._side
        return side is None or self._pool.of_caller > side.max_bytes // 2

    def copy_into(self, array: Array) -> Array | None:
        """A copy of an array in shared memory; None where there is no room."""
        with self._lock:
            region = self._take(array.nbytes)
        if region is None:
            return None
        copy = region.array(array.dtype, array.shape)
        np.copyto(copy, array)
        return copy

    def part(self, segment: Segment, place: Place) -> Region:
        """A part of a region for an array of the caller."""
        with self._lock:
            return self._pool.cut(segment, place)

    def give_back(self, segment: Segment, ranges: Iterable[tuple[int, int]]) -> None:
        """Take ranges (start, bytes) of a segment back."""
        self._pool.returned.extend((segment, start, nbytes, False) for start, nbytes in ranges)

    # Their memory

    def _room(self, answer_bytes: int) -> Region | None:
        if not answer_bytes:
            return None
        with self._lock:
            side = self._connected()
            if side is None:
                return None
            return self._take(min(answer_bytes, side.max_bytes // 2))

    def _take(self, nbytes: int) -> Region | None:
        side = self._connected()
        if side is None:
            return None
        now = self._clock()
        found = self._pool.take(nbytes, now)
        if found is None and now >= self._no_more_until and self._grow(side, nbytes):
            found = self._pool.take(nbytes, now)
        return found

    def _grow(self, side: SideSocket, nbytes: int) -> bool:
        """Whether the server gave a segment for so many bytes."""
        try:
            if self._pool.nbytes + nbytes > side.max_bytes:
                self._free(self._pool.idle(math.inf))  # each of them is too small for this
            size = self._pool.size_for(nbytes, side.max_bytes)
            self._pool.segments.append(side.allocate(size))
            self._complaint = None
        except Gone:
            self._lost()
            return False
        except BackhaulError as error:
            self._complaint = error.with_traceback(None)  # its frames would keep tensors alive
            if error.reason in _LIMITS:
                self._no_more_until = self._clock() + REFUSED_SECONDS
            else:
                self._end()
            return False
        except BaseException:  # interrupted: an answer may be on its way
            self._disconnect()
            raise
        return True

    def _connected(self) -> SideSocket | None:
        if self._side is not None and not self._side.is_alive:
            self._disconnect()
        if self._side is None and not self._ended and self._path is not None:
            try:
                self._side = SideSocket(self._path, self._token)
            except NotOffered:
                return None
            except Gone:
                self._lost()
            except BackhaulError as error:
                self._complaint = error.with_traceback(None)
                self._end()
        return self._side

    def _lost(self) -> None:
        self._complaint = failed("the server closed its socket")
        self._disconnect()

    def _end(self) -> None:
        self._ended = True
        self._disconnect()

    def _disconnect(self) -> None:
        side, self._side = self._side, None
        self._pool.retire(set(self._pool.segments))
        if side is not None:
            side.close()

    def _free(self, segments: set[Segment]) -> None:
        self._pool.retire(segments)
        try:
            for each in segments:
                if self._side is not None:
                    self._side.free(each.id)
        except (BackhaulError, Gone):
            self._disconnect()
        except BaseException:
            self._disconnect()
            raise

    def _trim(self) -> None:
        with self._lock:
            idle = self._pool.idle(self._clock())
            if idle:
                self._free(idle)

    def _speak(self, *, complete: bool) -> None:
        """Tell the caller once why shared memory is not used; each time where it is demanded."""
        if complete:
            return
        complaint = self._complaint
        why = str(complaint) if complaint is not None else "the server offers none"
        if complaint is not None and complaint.reason == "UNAUTHENTICATED":
            if self._demanded:
                raise make_error(complaint.reason, complaint.message)
            return  # the call that follows is told the same
        if self._demanded:
            raise make_error(
                "SHARED_MEMORY_UNAVAILABLE",
                f"connect(shared_memory=True) demands memory shared with {self._target}, and a tensor cannot "
                f"have it: {why}. Run both ends as one user on one host, see to --shared-memory of the "
                "server, or leave shared_memory= out.",
                target=self._target,
            )
        if complaint is not None and not self._warned:
            self._warned = True
            warnings.warn(
                f"Tensors to and from {self._target} travel by its socket, not by shared memory: {why}. "
                "Results are the same; large arrays take longer. connect(shared_memory=False) "
                "does without it.",
                RuntimeWarning,
                stacklevel=_callers_level(),
            )


def _ends_segments(error: BaseException) -> bool:
    """Whether no segment may be used again after a request ended with this error.

    Without the server's word the request may be on its way still, and what it names must not be written
    to then. Arrays that are in segments stay as they are.
    """
    if not isinstance(error, BackhaulError) or isinstance(error, TransportError):
        return True
    return error.reason in OF_SEGMENTS


def _callers_level() -> int:
    """The stacklevel, as of the function that asks, of the first frame that is the user's."""
    level, frame = 1, sys._getframe(1)
    ours = ("backhaul.", "contextlib")
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith(ours):
        level, frame = level + 1, frame.f_back
    return level


# A fork asks nobody what is to be closed.
_all: weakref.WeakSet[SharedMemory] = weakref.WeakSet()


def _after_fork() -> None:
    for each in list(_all):
        each.close_in_child()


if is_supported():
    os.register_at_fork(after_in_child=_after_fork)
