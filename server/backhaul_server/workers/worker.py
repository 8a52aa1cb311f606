"""Where engine work runs: what every worker does."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from backhaul_server.workers.call import Call

T = TypeVar("T")
Interrupt = Callable[[], None]
"""To be called between pieces of work. Raises Cancelled or DeadlineExceeded when nobody waits any more."""


class Worker(Protocol):
    """Runs functions, those of one session one after the other."""

    def run(self, call: Call, session: Hashable, function: Callable[[Interrupt], T]) -> T:
        """The function's result.

        Args:
            call: who waits for it.
            session: what it works on: no other function for the same one runs meanwhile. None: nothing.
            function: the work.

        Raises:
            DeadlineExceeded, Cancelled: the work did not begin, or stopped when it asked.
            Unavailable: the worker was closed.
        """

    def close(self) -> None:
        """Take no more work, and wait for what came before."""
