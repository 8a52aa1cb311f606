"""How long a session lives without a call."""

from __future__ import annotations

from collections.abc import Callable
from threading import Lock
from types import TracebackType


class Lease:
    """Runs out so many seconds after the last call has ended, and never during one. For any thread.

    A call holds it by ``with``.

    Args:
        seconds: so many; 0: it never runs out.
        clock: seconds, monotonic.
    """

    __slots__ = ("_calls", "_clock", "_ended", "_lock", "_until", "seconds")

    def __init__(self, seconds: float, clock: Callable[[], float]) -> None:
        self.seconds = seconds
        self._clock = clock
        self._calls = 0
        self._ended = False
        self._until = clock() + seconds
        self._lock = Lock()

    @property
    def in_use(self) -> bool:
        """Whether a call holds it."""
        return self._calls > 0

    @property
    def left(self) -> float:
        """Seconds after which it runs out if nobody calls; 0 when it never does."""
        if not self.seconds or self._calls:
            return self.seconds
        return max(0.0, self._until - self._clock())

    def renew(self) -> bool:
        """Begin anew; whether it had not ended."""
        with self._lock:
            self._until = self._clock() + self.seconds
            return not self._ended

    @property
    def has_run_out(self) -> bool:
        """Whether its time is over and no call holds it."""
        return bool(self.seconds) and not self._calls and self._clock() >= self._until

    def end(self) -> bool:
        """End it if it has run out; whether it has. It cannot be renewed after that."""
        with self._lock:
            self._ended = self._ended or self.has_run_out
            return self._ended

    def hold(self) -> float:
        """It does not run out before `let_go`. Returns the time."""
        with self._lock:
            self._calls += 1
        return self._clock()

    def let_go(self) -> float:
        """It is held once less, and begins anew. Returns the time."""
        now = self._clock()
        with self._lock:
            self._calls -= 1
            self._until = now + self.seconds
        return now

    def __enter__(self) -> None:
        self.hold()

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.let_go()
