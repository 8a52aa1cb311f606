"""Waiting for what another thread does."""

from __future__ import annotations

import threading
from collections.abc import Callable


def wait_until(holds: Callable[[], bool]) -> None:
    """Until it holds; an error when it does not within a minute."""
    looked = threading.Event()
    for _ in range(6000):
        if holds():
            return
        looked.wait(0.01)
    raise AssertionError("it did not come to hold")
