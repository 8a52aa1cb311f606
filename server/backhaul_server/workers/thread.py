"""One thread that owns the arrays: all engine work of a process runs on it, in turn."""

from __future__ import annotations

import time
from _thread import allocate_lock
from collections.abc import Callable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, Final, TypeVar

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


class _Task:
    """A function on its way to the worker's thread and back.

    The caller waits on a plain lock: a signal's exception can leave it at any moment without harm, which
    cannot be said of a Condition, and so of a Future.
    """

    __slots__ = ("call", "done", "error", "function", "result")

    def __init__(self, call: Call, function: Callable[[], Any]) -> None:
        self.call = call
        self.function = function
        self.done = allocate_lock()
        self.done.acquire()
        self.result: Any = None
        self.error: BaseException | None = None

    def run(self) -> None:
        """Runs on the worker's thread."""
        try:
            self.call.check()
            self.result = self.function()
        except BaseException as error:  # for the caller, whatever it is
            self.error = error
        finally:
            self.done.release()


class ThreadWorker:
    """Runs functions on one thread of its own, in the order they came."""

    def __init__(self, name: str = "backhaul-worker") -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._closing = Lock()
        self._closed = False
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, call: Call, function: Callable[[], T]) -> T:
        """The function's result, computed on the worker's thread.

        Raises:
            DeadlineExceeded, Cancelled: the work did not begin, or stopped at a check.
            Unavailable: the worker was closed.
        """
        task = _Task(call, function)
        with self._closing:
            if self._closed:
                raise make_error(
                    "UNAVAILABLE", "The server is shutting down; try again or elsewhere."
                )
            self._tasks.put(task)
        remaining = call.remaining
        try:
            in_time = task.done.acquire(timeout=-1 if remaining is None else remaining)
        except BaseException:  # a signal: the caller no longer waits
            call.cancel()
            raise
        if not in_time:
            call.cancel()
            raise deadline_exceeded()
        error, task.error = task.error, None  # its traceback refers to the task
        if error is not None:
            try:
                raise error
            finally:
                del task, error  # they would hold this frame, and it them
        result: T = task.result
        return result

    def close(self) -> None:
        """Take no more work, and wait for what came before."""
        with self._closing:
            self._closed = True
            self._tasks.put(None)
        self._thread.join()

    def _work(self) -> None:
        np.seterr(
            all="ignore"
        )  # Inf and NaN are the caller's data; nobody reads a server's warnings
        while (task := self._tasks.get()) is not None:
            task.run()
            del task


def deadline_exceeded() -> BackhaulError:
    """The error of work that was not done in time."""
    return make_error(
        "DEADLINE_EXCEEDED",
        "The work was not done within the caller's timeout and was stopped; the tape is as it was "
        "before it. Give more time with timeout=, or ask for less at once.",
    )
