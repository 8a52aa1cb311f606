"""The way out of a server: who is still in, who may still come in, and until when."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from backhaul_proto.errors import BackhaulError
from backhaul_server.workers.call import Call, draining

_LOOK: Final = 0.02
"""Seconds between looks whether all calls have ended."""


class Drain:
    """Knows the calls in the server, and sends them home in the end. Many threads may use it at once.

    Without a lock: who enters is seen by `close` or sees that it is closed, as both write before they look.

    Args:
        clock: seconds, monotonic.
        pause: waits for so many seconds.
        farewell: what those are told who come too late, or are still in at the end.
    """

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        pause: Callable[[float], object] = time.sleep,
        farewell: Callable[[], BackhaulError] = draining,
    ) -> None:
        self._clock = clock
        self._pause = pause
        self._farewell = farewell
        self._calls: set[Call] = set()
        self._closed = False

    def enter(self, call: Call) -> None:
        """Let a call in. Each is followed by `leave`.

        Raises:
            Unavailable: the server ends. It is not followed by `leave`.
        """
        self._calls.add(call)
        if self._closed:
            self._calls.discard(call)
            raise self._farewell()

    def leave(self, call: Call) -> None:
        """The call has ended."""
        self._calls.discard(call)

    def close(self) -> int:
        """Let no more calls in, and stop those that are: how many these are."""
        self._closed = True
        calls = list(self._calls)
        for each in calls:
            each.send_away(self._farewell)
        return len(calls)

    def wait(self, seconds: float) -> bool:
        """Wait until no call is in the server, at most so long: whether that is so."""
        until = self._clock() + seconds
        while self._calls and self._clock() < until:
            self._pause(_LOOK)
        return not self._calls
