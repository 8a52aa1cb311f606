"""One thread that owns the arrays: all engine work of a process runs on it, in turn."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from concurrent.futures import TimeoutError as WaitTimeout
from typing import Final, TypeVar

import numpy as np

from backhaul_proto.errors import BackhaulError, make_error

T = TypeVar("T")

# gRPC tells a call without a deadline as one of centuries, which a wait cannot take.
_LONGEST_TIMEOUT: Final = 365 * 86400.0


class Call:
    """How long a caller waits, and whether it still does.

    Args:
        timeout: seconds from now; None: as long as it takes.
        clock: seconds, monotonic.
    """

    def __init__(
        self, timeout: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._clock = clock
        self._deadline = (
            None if timeout is None or timeout > _LONGEST_TIMEOUT else clock() + timeout
        )
        self._cancelled = False

    def cancel(self) -> None:
        """The caller waits no longer: work for it stops at its next check."""
        self._cancelled = True

    def check(self) -> None:
        """Raises Cancelled or DeadlineExceeded when the work is no longer wanted."""
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


class ThreadWorker:
    """Runs functions on one thread of its own, in the order they came."""

    def __init__(self, name: str = "backhaul-worker") -> None:
        self._pool = ThreadPoolExecutor(1, name, initializer=_prepare_thread)

    def run(self, call: Call, function: Callable[[], T]) -> T:
        """The function's result, computed on the worker's thread.

        Raises:
            DeadlineExceeded, Cancelled: the work did not begin, or stopped at a check.
        """
        try:
            future: Future[T] = self._pool.submit(_checked, call, function)
        except RuntimeError:
            raise make_error(
                "UNAVAILABLE", "The server is shutting down; try again or elsewhere."
            ) from None
        try:
            return future.result(call.remaining)
        except WaitTimeout:
            if future.done():
                raise  # the function's own
            call.cancel()
            future.cancel()
            raise deadline_exceeded() from None
        except BaseException:
            call.cancel()
            raise

    def close(self) -> None:
        """Take no more work, and wait for what is running."""
        self._pool.shutdown(wait=True, cancel_futures=True)


def deadline_exceeded() -> BackhaulError:
    """The error of work that was not done in time."""
    return make_error(
        "DEADLINE_EXCEEDED",
        "The work was not done within the caller's timeout and was stopped; the tape is as it was "
        "before it. Give more time with timeout=, or ask for less at once.",
    )


def _checked(call: Call, function: Callable[[], T]) -> T:
    call.check()
    return function()


def _prepare_thread() -> None:
    np.seterr(all="ignore")  # Inf and NaN are the caller's data; nobody reads a server's warnings
