"""Ends the sessions whose leases ran out, on a thread of its own."""

from __future__ import annotations

import logging
from collections.abc import Callable
from threading import Event, Thread

log = logging.getLogger("backhaul.server")


class Reaper:
    """Calls a function that ends what has run out, which says after how many seconds to call it again.

    Args:
        expire: the function.
    """

    def __init__(self, expire: Callable[[], float]) -> None:
        self._expire = expire
        self._stop = Event()
        self._thread: Thread | None = None

    def start(self) -> None:
        """Begin."""
        self._thread = Thread(target=self._run, name="backhaul-leases", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop, and wait for what it is at."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = 0.0
        while not self._stop.wait(pause):
            try:
                pause = self._expire()
            except Exception:
                log.exception("leases could not be looked at")  # and again, later
                pause = 5.0
