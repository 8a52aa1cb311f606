"""What became of sessions that ended: later calls are told so, and never open them anew."""

from __future__ import annotations

from collections import OrderedDict
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
        when: when it ended.
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
        self._ended: OrderedDict[Key, Tombstone] = OrderedDict()

    def add(self, key: Key, reason: str, lease: float) -> None:
        """A session has ended."""
        with self._lock:
            self._ended[key] = Tombstone(reason, self._clock(), lease)
            while len(self._ended) > KEPT:
                self._ended.popitem(last=False)

    def get(self, key: Key) -> Tombstone | None:
        """What became of a session; None when it is not known to have ended."""
        return self._ended.get(key)

    def __contains__(self, key: object) -> bool:
        return key in self._ended

    def forget_old(self) -> None:
        """Forget those that ended long ago."""
        oldest = self._clock() - self._kept_seconds
        with self._lock:
            while self._ended and next(iter(self._ended.values())).when < oldest:
                self._ended.popitem(last=False)
