"""One thread for all engine work: for a server inside a process, whose own threads may be interrupted.

A signal's exception (Ctrl-C) can come between any two instructions of the thread that asks; the work is
then told to stop at its next check, and nothing is left half done.
"""

from __future__ import annotations

from _thread import allocate_lock
from collections.abc import Callable, Hashable
from queue import SimpleQueue
from threading import Lock, Thread
from typing import Any, TypeVar

import numpy as np

from backhaul_server.workers.call import Call, deadline_exceeded, draining
from backhaul_server.workers.worker import Interrupt

T = TypeVar("T")


class _Task:
    """A function on its way to the worker's thread and back.

    The caller waits on a plain lock: a signal's exception can leave it at any moment without harm, which
    cannot be said of a Condition, and so of a Future.
    """

    __slots__ = ("call", "done", "error", "function", "result")

    def __init__(self, call: Call, function: Callable[[Interrupt], Any]) -> None:
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
            self.call.begin()
            self.result = self.function(self.call.check)
        except BaseException as error:  # for the caller, whatever it is
            self.error = error
        finally:
            self.call.end()
            self.done.release()


class ThreadWorker:
    """Runs functions on one thread of its own, in the order they came."""

    def __init__(self, name: str = "backhaul-worker") -> None:
        self._tasks: SimpleQueue[_Task | None] = SimpleQueue()
        self._closing = Lock()
        self._closed = False
        self._thread = Thread(target=self._work, name=name, daemon=True)
        self._thread.start()

    def run(self, call: Call, session: Hashable, function: Callable[[Interrupt], T]) -> T:
        """The function's result, computed on the worker's thread; see `Worker.run`."""
        task = _Task(call, function)
        with self._closing:
            if self._closed:
                raise draining()
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
