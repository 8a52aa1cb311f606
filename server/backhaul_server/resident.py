"""What the process has in memory, whatever was predicted: the last guard; what was freed is given back."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

LOOK: Final = 0.1
"""Seconds between looks at what is resident."""
PAUSE: Final = 1.0
"""Seconds between times that free memory is given back."""
LARGE: Final = 64 << 20
"""Bytes that were freed, from which on free memory is given back."""


def resident_bytes(file: Path = Path("/proc/self/statm")) -> int:
    """Bytes of this process that are in memory; 0 where the system does not say."""
    try:
        return int(file.read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except OSError:  # not Linux
        return 0


def private_bytes(file: Path = Path("/proc/self/statm")) -> int:
    """Those of them that it does not share: Ray's object store is counted by Ray."""
    try:
        _, resident, shared, *_ = file.read_text().split()
    except OSError:  # not Linux
        return 0
    return (int(resident) - int(shared)) * os.sysconf("SC_PAGE_SIZE")


class ResidentGuard:
    """Knows whether the process is larger than it may be. Many threads may ask it.

    Args:
        limit: bytes.
        read: what is resident, in bytes.
        give_back: gives free memory back to the system.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        limit: int,
        read: Callable[[], int] = resident_bytes,
        give_back: Callable[[], None] = lambda: None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._limit = limit
        self._read = read
        self._give_back = give_back
        self._clock = clock
        self._looked = self._gave = float("-inf")
        self._is_over = False
        self._lock = threading.Lock()

    def is_over(self) -> bool:
        """Whether more is resident than may be, with what is free given back."""
        now = self._clock()
        if now - self._looked < LOOK or not self._lock.acquire(blocking=False):
            return self._is_over  # another thread looks just now
        try:
            self._looked = now
            over = self._read() > self._limit
            if over and now - self._gave >= PAUSE:
                self._gave = now
                self._give_back()
                over = self._read() > self._limit
            self._is_over = over
        finally:
            self._lock.release()
        return over


class Trimmer:
    """Gives free memory back some time after much was freed, on a thread of its own.

    Args:
        give_back: does it.
        pause: seconds from one time to the next.
    """

    def __init__(self, give_back: Callable[[], None], pause: float = PAUSE) -> None:
        self._give_back = give_back
        self._pause = pause
        self._lock = threading.Lock()
        self._freed = 0
        self._due = threading.Event()
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work, name="backhaul-trim", daemon=True)
        self._thread.start()

    def freed(self, nbytes: int) -> None:
        """So much was freed."""
        with self._lock:
            self._freed += nbytes
            if self._freed < LARGE:
                return
            self._freed = 0
        self._due.set()

    def close(self) -> None:
        """Give nothing back any more."""
        self._closed.set()
        self._due.set()
        self._thread.join()

    def _work(self) -> None:
        while self._due.wait():
            self._due.clear()
            if self._closed.wait(self._pause):  # what a session held goes just after it has ended
                return
            self._give_back()
