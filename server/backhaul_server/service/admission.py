"""How many calls may be in the server at once: those beyond wait a moment in line, or are refused."""

from __future__ import annotations

import time
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable
from threading import Lock
from typing import Final

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_server.service.streams import METHOD as EXECUTE_STREAM

RESERVE: Final = 16
"""Calls beyond the others that are let in all the same, when they are among `PASSING`."""
REFUSING: Final = 16
"""Threads beyond those of the calls: they tell further ones that the server is full."""
LINE: Final = REFUSING // 2
"""Calls that wait for a slot, first come, first served. The other threads beyond are there to refuse."""
MOMENT: Final = 0.25
"""Seconds that they wait, at most: several times as long as usual calls take, so that few wait in vain."""
PASSING: Final = frozenset({"RenewLease", "CloseSession", "Release", "GetServerInfo"})
"""Calls that make room, or cost nothing."""

_LEAST: Final = 0.1
_LONGEST: Final = 5.0
"""Seconds after which one that was refused may come again, at least and at most."""
_AT_FIRST: Final = 0.005
"""Seconds between two calls that end, before that was seen."""
_WEIGHT: Final = 0.05


class Slots:
    """Slots for calls, some of them kept for those that make room.

    A few calls for which there is no slot wait a moment for the next ones, in line: without it a slot would
    go to whoever happens to come when one is free, most often the client that has just left it.

    Who is refused is told a time of its own, one after the other at the pace at which calls end, so that they
    do not all come again at once. Streams have slots of their own (`ExecuteStream`), but count as calls of
    their principal.

    Args:
        calls: how many calls there may be at once.
        of_principal: how many of a principal; None: as many as there may be.
        line: how many may wait in line.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        calls: int,
        of_principal: int | None = None,
        line: int = LINE,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._calls = calls
        self._of_principal = of_principal
        self._places = line
        self._clock = clock
        self._lock = Lock()
        self._inside = 0
        self._line: deque[LockType] = deque()  # each is let go when there is a slot for it
        self._by_principal: dict[str, int] = {}
        self._ended = 0.0
        self._pace = _AT_FIRST
        self._next = 0.0

    @property
    def inside(self) -> int:
        """How many calls are in the server, streams apart."""
        return self._inside

    def enter(self, principal: str, method: str) -> None:
        """Let a call in. Each is followed by `leave`.

        Raises:
            ServerBusy: there are as many as there may be.
            QuotaExceeded: its principal has as many as it may.
        """
        passes = method in PASSING
        place = None
        with self._lock:
            own = self._by_principal.get(principal, 0)
            if self._of_principal is not None and own >= self._of_principal and not passes:
                raise self._too_many(own, self._of_principal)
            if method == EXECUTE_STREAM:
                pass
            elif self._inside < self._calls + (RESERVE if passes else 0):
                self._inside += 1
            elif not passes and len(self._line) < self._places:
                place = allocate_lock()
                place.acquire()
                self._line.append(place)
            else:
                raise self._full()
            self._by_principal[principal] = own + 1
        if place is not None:
            self._wait(place, principal)

    def leave(self, principal: str, method: str) -> None:
        """The call has ended."""
        with self._lock:
            self._count_out(principal)
            if method == EXECUTE_STREAM:
                return
            if self._inside >= self._calls:  # only then it is a pace that calls wait for
                now = self._clock()
                self._pace += _WEIGHT * (min(1.0, now - self._ended) - self._pace)
                self._ended = now
            if self._line and self._inside <= self._calls:
                self._line.popleft().release()
            else:
                self._inside -= 1

    def _wait(self, place: LockType, principal: str) -> None:
        if place.acquire(timeout=MOMENT):
            return
        with self._lock:
            if place not in self._line:  # a slot came just now
                return
            self._line.remove(place)
            self._count_out(principal)
            raise self._full()

    def _count_out(self, principal: str) -> None:
        own = self._by_principal[principal] - 1
        if own:
            self._by_principal[principal] = own
        else:
            del self._by_principal[principal]

    def _full(self) -> BackhaulError:
        return make_error(
            "SERVER_BUSY",
            f"The server has {self._calls} calls already, and takes no more at once. Nothing was run. "
            "Try again later, or start it with more --threads.",
            calls=self._calls,
            retry_after=self._later(),
        )

    def _too_many(self, own: int, allowed: int) -> BackhaulError:
        return make_error(
            "QUOTA_EXCEEDED",
            f"You have {own} calls in this server already, as many as one may at once. Nothing was "
            "run. Try again later; ask less at once; or give each more with --principal-calls.",
            quota="calls",
            used=own,
            allowed=allowed,
            retry_after=self._later(),
        )

    def _later(self) -> float:
        now = self._clock()
        self._next = min(max(self._next, now + _LEAST) + self._pace, now + _LONGEST)
        return round(self._next - now, 3)
