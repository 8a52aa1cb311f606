"""What became of sessions that ended: later calls are told so, and never open them anew."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from threading import Lock
from typing import Final

KEPT_SECONDS: Final = 6 * 3600.0
"""Longer than a client goes on asking for a session that it has not heard of."""
KEPT: Final = 100_000

Key = tuple[str, bytes]


@dataclass(frozen=True, slots=True)
class Tombstone:
    """A session that ended.

    Attributes:
        reason: SESSION_CLOSED or SESSION_EXPIRED.
        when: when it ended, in whole minutes: those of a minute share one.
        lease: seconds of its lease.
    """

    reason: str
    when: float
    lease: float


class Tombstones:
    """The sessions that ended last, for some hours and up to a number.

    Args:
        clock: seconds, monotonic.
        lease: seconds for which they are kept beyond those hours.
    """

    def __init__(self, clock: Callable[[], float], lease: float = 0.0) -> None:
        self._clock = clock
        self._kept_seconds = KEPT_SECONDS + lease
        self._lock = Lock()
        # A dict and its keys in order take half of what an OrderedDict does.
        self._ended: dict[Key, Tombstone] = {}
        self._order: deque[Key] = deque()
        self._last = Tombstone("", 0.0, 0.0)

    def add(self, key: Key, reason: str, lease: float) -> None:
        """A session has ended. Each ends once."""
        with self._lock:
            stone = Tombstone(reason, self._clock() // 60 * 60, lease)
            if stone != self._last:
                self._last = stone
            self._ended[key] = self._last
            self._order.append(key)
            while len(self._order) > KEPT:
                del self._ended[self._order.popleft()]

    def get(self, key: Key) -> Tombstone | None:
        """What became of a session; None when it is not known to have ended."""
        return self._ended.get(key)

    def keys(self) -> list[Key]:
        """The sessions that are known to have ended."""
        with self._lock:
            return list(self._order)

    def __contains__(self, key: object) -> bool:
        return key in self._ended

    def forget_old(self) -> None:
        """Forget those that ended long ago."""
        oldest = self._clock() - self._kept_seconds
        with self._lock:
            while self._order and self._ended[self._order[0]].when < oldest:
                del self._ended[self._order.popleft()]
