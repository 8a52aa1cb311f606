"""Which line of the user's program recorded a node. It never travels: errors are joined with it here."""

from __future__ import annotations

import os
from types import CodeType, FrameType
from typing import Final

_OWN_FILES: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_NODES_KEPT: Final = 1 << 18


class Sources:
    """Code position of each node of a tape, at least of the latest 250,000.

    Two columns, appended to at each step by the recorder; positions become lines when they are asked.
    ``user_files`` are files known not to be ours, so that they need no look at their path again.
    """

    __slots__ = ("_first", "codes", "offsets", "user_files")

    def __init__(self) -> None:
        self._first = 1
        self.codes: list[CodeType] = []
        self.offsets: list[int] = []
        self.user_files: set[str] = set()

    def user_frame(self, frame: FrameType) -> FrameType:
        """The innermost frame of the user's: this one, or what called it if it is one of ours."""
        while frame.f_code.co_filename.startswith(_OWN_FILES) and frame.f_back is not None:
            frame = frame.f_back
        self.user_files.add(frame.f_code.co_filename)
        return frame

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
