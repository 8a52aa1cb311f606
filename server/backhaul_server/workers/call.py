"""A call that somebody waits for: how long, and whether still."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final

from backhaul_proto.errors import BackhaulError, make_error

# gRPC tells a call without a deadline as one of centuries, which a wait cannot take.
_LONGEST_TIMEOUT: Final = 365 * 86400.0


class Call:
    """How long a caller waits, and whether it still does.

    Args:
        timeout: seconds from now; None: as long as it takes.
        clock: seconds, monotonic.

    Attributes:
        message_bytes: bytes of memory that are set aside for its messages.
        first_turn: when work for it began, by the clock; None before that.
        last_turn: when the last work for it began.
        worked: when that ended.
    """

    def __init__(
        self, timeout: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._deadline = (
            None if timeout is None or timeout > _LONGEST_TIMEOUT else clock() + timeout
        )
        self._cancelled = False
        self._farewell: Callable[[], BackhaulError] | None = None
        self._wake: Callable[[], None] | None = None
        self.message_bytes = 0
        self.first_turn: float | None = None
        self.last_turn = 0.0
        self.worked: float | None = None

    def begin(self) -> None:
        """Work for it has its turn. Followed by `end`."""
        self.last_turn = now = self._clock()
        if self.first_turn is None:
            self.first_turn = now

    def end(self) -> None:
        """That work has ended."""
        self.worked = self._clock()

    def cancel(self) -> None:
        """The caller waits no longer: work for it stops at its next check."""
        self._cancelled = True
        if self._wake is not None:
            self._wake()

    def when_cancelled(self, wake: Callable[[], None]) -> None:
        """Have this called, on any thread, when the caller waits no longer. The last one told counts."""
        self._wake = wake
        if self._cancelled:
            wake()

    def send_away(self, farewell: Callable[[], BackhaulError] | None = None) -> None:
        """The server ends: work for the caller stops at its next check, and he is told to go elsewhere.

        Args:
            farewell: what he is told; None: `draining`.
        """
        self._farewell = farewell or draining
        self.cancel()

    def check(self) -> None:
        """Raises Cancelled, DeadlineExceeded or Unavailable when the work is no longer wanted."""
        if self._farewell is not None:
            raise self._farewell()
        if self._cancelled:
            raise make_error(
                "CANCELLED", "The call was cancelled; the tape is as it was before it."
            )
        if self._deadline is not None and self._clock() > self._deadline:
            raise deadline_exceeded()

    @property
    def remaining(self) -> float | None:
        """Seconds left; None without a deadline."""
        return None if self._deadline is None else max(0.0, self._deadline - self._clock())


def deadline_exceeded() -> BackhaulError:
    """The error of work that was not done in time."""
    return make_error(
        "DEADLINE_EXCEEDED",
        "The work was not done within the caller's timeout and was stopped; the tape is as it was "
        "before it. Give more time with timeout=, or ask for less at once.",
    )


def front_ends() -> BackhaulError:
    """The same of a front end: sessions do not end with it."""
    return make_error(
        "UNAVAILABLE",
        "This front end is being stopped. The sessions live on in their workers: ask again, here when it has "
        "been started anew, or at another front end of the same cluster.",
        retry_after=0.5,
    )


def draining() -> BackhaulError:
    """The error of a call that came after the end, or was not done by then."""
    return make_error(
        "DRAINING",
        "The server is being stopped, and its sessions end with it: nothing of this call was kept. Go to "
        "another server, or connect again when this one has been started anew.",
    )
