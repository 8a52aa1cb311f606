"""What a run is watched by: its memory, and whether it goes on at all."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
import time
from collections.abc import Sequence
from types import TracebackType

import numpy as np


def growth(samples: Sequence[int]) -> float:
    """The slope of the second half of the samples: bytes a sample."""
    half = np.asarray(samples[len(samples) // 2 :], float)
    if len(half) < 3:
        return 0.0
    return float(np.polyfit(np.arange(len(half)), half, 1)[0])


class Watchdog:
    """Ends the process when a call hangs, after it has said which one, and where.

    Args:
        patience: seconds.
    """

    def __init__(self, patience: float = 60.0) -> None:
        self._patience = patience
        self._now: tuple[float, str, Sequence[bytes]] = (time.monotonic(), "", ())
        self._ended = threading.Event()

    def begins(self, method: str, messages: Sequence[bytes]) -> None:
        """A call is made now."""
        self._now = (time.monotonic(), method, messages)

    def __enter__(self) -> Watchdog:
        threading.Thread(target=self._watch, daemon=True).start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._ended.set()

    def _watch(self) -> None:
        while not self._ended.wait(1.0):
            began, method, messages = self._now
            if time.monotonic() - began > self._patience:
                print(f"HANG in {method}: {' '.join(each.hex() for each in messages)}", flush=True)
                faulthandler.dump_traceback(sys.stderr)
                os._exit(3)
