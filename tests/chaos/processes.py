"""What the programs of this folder share: a server in a process of its own, looked at from outside."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

PAGE = os.sysconf("SC_PAGE_SIZE")


def resident(pid: int | str = "self") -> int:
    """Bytes of a process that are in memory."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE


def open_files(pid: int) -> int:
    """How many descriptors a process has open."""
    return len(os.listdir(f"/proc/{pid}/fd"))


def shared_memory_files() -> list[str]:
    """What lies in /dev/shm."""
    return sorted(os.listdir("/dev/shm"))


def settled(read: Callable[[], int], quiet: float = 2.0, seconds: float = 30.0) -> int:
    """A figure once it has not gone down for some seconds; the last one when the time is over."""
    end = time.monotonic() + seconds
    lowest, since = read(), time.monotonic()
    while time.monotonic() < end:
        time.sleep(0.1)
        now = read()
        if now < lowest:
            lowest, since = now, time.monotonic()
        elif time.monotonic() - since > quiet:
            break
    return lowest


def kill(pid: int) -> None:
    """SIGKILL, and wait until a child is gone."""
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
