"""Which line of the user's program recorded a node. It never travels: errors are joined with it here."""

from __future__ import annotations

import os
from array import array
from types import CodeType
from typing import Final

OWN_FILES: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
"""Frames of code in here are ours, the first frame outside is the user's."""

_NODES_KEPT: Final = 1 << 20


class Sources:
    """Code position of each node of a tape, the latest million of them at least.

    Two columns, appended to at each step by the recorder; positions become lines when they are asked.
    """

    __slots__ = ("_first", "codes", "offsets")

    def __init__(self) -> None:
        self._first = 1
        self.codes: list[CodeType] = []
        self.offsets = array("i")

    def trim(self) -> None:
        """Forget the oldest, when there are twice as many as are kept."""
        surplus = len(self.codes) - _NODES_KEPT
        if surplus >= _NODES_KEPT:
            del self.codes[:surplus], self.offsets[:surplus]
            self._first += surplus

    def find(self, node: int) -> str | None:
        """``file:line`` of the node; None when it is not known any more."""
        at = node - self._first
        if not 0 <= at < len(self.codes):
            return None
        code, offset = self.codes[at], self.offsets[at]
        lines = [line for start, end, line in code.co_lines() if start <= offset < end and line]
        return f"{code.co_filename}:{lines[0] if lines else code.co_firstlineno}"
