"""Reports a worker that does not move while calls wait for it. It only reports."""

from __future__ import annotations

import logging
import sys
import threading
import time
import traceback
from collections.abc import Callable, Sequence
from typing import Protocol

log = logging.getLogger("backhaul.server")


class Watched(Protocol):
    """What is looked after."""

    @property
    def moves(self) -> int:
        """How often a turn has begun."""

    @property
    def waiting(self) -> int:
        """How many calls wait for a turn."""

    @property
    def computing(self) -> Sequence[int]:
        """The threads that compute."""


class Watchdog:
    """Looks regularly, and logs once each time that nothing has moved for too long.

    Args:
        worker: what is looked after.
        longest: seconds without a move, with calls waiting, after which it is reported.
        clock: seconds, monotonic.

    Attributes:
        reports: how often it was reported.
    """

    def __init__(
        self, worker: Watched, longest: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._worker = worker
        self._longest = longest
        self._clock = clock
        self._moves = -1
        self._since = clock()
        self._is_reported = False
        self._closed = threading.Event()
        self._thread: threading.Thread | None = None
        self.reports = 0

    def start(self) -> None:
        """Look from now on, on a thread of its own."""
        self._thread = threading.Thread(target=self._work, name="backhaul-watchdog", daemon=True)
        self._thread.start()

    def close(self) -> None:
        """Look no more."""
        self._closed.set()
        if self._thread is not None:
            self._thread.join()

    def look(self) -> None:
        """One look."""
        moves, waiting, now = self._worker.moves, self._worker.waiting, self._clock()
        if moves != self._moves or not waiting:
            self._moves, self._since, self._is_reported = moves, now, False
        elif now - self._since >= self._longest and not self._is_reported:
            self._is_reported = True
            self.reports += 1
            facts = {"seconds": round(now - self._since, 1), "waiting": waiting}
            log.error("stuck", extra={**facts, "stacks": self._stacks()})

    def _stacks(self) -> list[str]:
        frames = sys._current_frames()
        found = [frames[each] for each in self._worker.computing if each in frames]
        return ["".join(traceback.format_stack(frame)) for frame in found]

    def _work(self) -> None:
        while not self._closed.wait(self._longest / 4):
            self.look()
