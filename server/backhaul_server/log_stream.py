"""A log that no call waits for, though nobody may be reading it."""

from __future__ import annotations

import logging
import os
import select
from queue import SimpleQueue
from threading import Thread
from typing import Final

KEPT: Final = 10_000
"""Lines that wait for their reader."""

LAST_SECONDS: Final = 1.0
"""What the lines that are left at the end are given."""


class LogStream(logging.Handler):
    """Writes lines from a thread of its own.

    A pipe that nobody empties (a supervisor that has hung, a collector that is late) stops whoever writes to
    it. Here that is one thread: calls are answered meanwhile, `kept` lines wait, and of those that come after
    them only the number is kept. It is told by the first line that finds room again.

    Args:
        descriptor: where lines go, a file descriptor; it is never closed.
        kept: lines that wait at most.
    """

    def __init__(self, descriptor: int, kept: int = KEPT) -> None:
        super().__init__()
        self._descriptor = descriptor
        self._kept = kept
        self._lost = 0
        self._ended = False
        # Unlike Queue, it may be put into by a signal's handler that interrupts a put.
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._thread = Thread(target=self._run, name="log", daemon=True)
        self._thread.start()

    def emit(self, record: logging.LogRecord) -> None:
        """Put the record's line into the queue, if there is room. Calls of it come one at a time."""
        if self._ended:
            return
        if self._lines.qsize() >= self._kept:
            self._lost += 1
            return
        try:
            line = self.format(record)
        except (
            Exception
        ):  # the way of logging: a record that cannot be formatted harms nobody but itself
            self.handleError(record)
            return
        if self._lost:
            self._lines.put(self.format(_told(self._lost)))
            self._lost = 0
        self._lines.put(line)

    def close(self) -> None:
        """Write what waits, in a second at most."""
        if not self._ended:
            self._ended = True
            self._lines.put(None)
            self._thread.join(LAST_SECONDS)
        super().close()

    def _run(self) -> None:
        while (line := self._lines.get()) is not None:
            try:
                self._write(line)
            except OSError:  # whoever read it has gone
                continue

    def _write(self, line: str) -> None:
        left = memoryview(f"{line}\n".encode("utf-8", "backslashreplace"))
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
            except BlockingIOError:  # a terminal, say, that another program has set so
                select.select((), (self._descriptor,), ())


def _told(lost: int) -> logging.LogRecord:
    facts = {
        "name": "backhaul.server",
        "levelno": logging.WARNING,
        "levelname": "WARNING",
        "msg": "lines of the log were lost: they were not read in time",
        "lost": lost,
    }
    return logging.makeLogRecord(facts)
