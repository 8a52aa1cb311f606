"""What is put off until the process rests: it would keep everybody waiting.

A full collection of garbage looks at every object while no other thread may run: with long tapes a tenth of a
second and more, again and again. Nodes are freed by reference counting; what goes in circles can wait.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Final

_RESTING: Final = 0.02
"""The share of a core up to which a process is at rest."""
LONGEST: Final = 300.0
"""Seconds of work after which it is done all the same."""
_YOUNG: Final = (50_000, 1, 1_000_000)
"""Thresholds of Python's collector: young objects seldom, old ones never by themselves.

The collector counts objects made less objects freed. Sessions that replace old nodes by new ones move that
count little and make everything young, so that with its own thresholds it looks at all live nodes over and
over.
"""


def put_off_full_collections() -> None:
    """From now on the garbage of old objects is left to `collect`."""
    gc.set_threshold(*_YOUNG)


def collect() -> None:
    """Free what only refers to itself in circles."""
    gc.collect()


class Rest:
    """Tidies up once after each time of work, when the process rests; in long work every so often.

    Args:
        used: seconds of processor time that the process has taken.
        tidy: what is to be done.
    """

    def __init__(self, used: Callable[[], float], tidy: Callable[[], None]) -> None:
        self._used, self._tidy = used, tidy
        self._last = used()
        self._worked = 0.0

    def look(self, seconds: float) -> None:
        """To be called regularly, with the seconds since the call before."""
        rests = self._used() - self._last <= _RESTING * seconds
        if self._worked and (rests or self._worked >= LONGEST):
            self._tidy()
            self._worked = 0.0
        self._last = self._used()
        if not rests:
            self._worked += seconds
