"""Lanes: where a library runs work apart from its caller, all work on the same arrays stays in one."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Protocol


class Lane(Protocol):
    """Work that runs in order, as on a GPU's stream. Arrays made in a lane are used in no other."""

    def around(self, within: AbstractContextManager[None]) -> AbstractContextManager[None]:
        """Within the result, array operations run in this lane, and ``within`` is entered.

        At its end all of them are done: what they wrote to the host can be read. What the library raises for
        want of memory, or as the device fails, leaves it as one of our errors.
        """
