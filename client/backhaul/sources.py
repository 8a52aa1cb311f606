"""Which line of the user's program recorded a node. It never travels: errors are joined with it here."""

from __future__ import annotations

import os
from types import CodeType, FrameType
from typing import Final

_OWN_FILES: Final = os.path.join(os.path.dirname(os.path.abspath(__file__)), "")
_NODES_KEPT: Final = 1 << 17
MIN_TRIMMED: Final = 1 << 10


class Sources:
    """Code position of each node of a tape that may still fail, at most of the latest 250,000.

    Two columns, appended to at each step by the recorder; positions become lines when they are asked.

    Attributes:
        first: the node that the first entries are of.
        codes: the code that recorded each node.
        offsets: where in it.
        user_files: files known not to be ours, so that they need no look at their path again.
    """

    __slots__ = ("codes", "first", "offsets", "user_files")

    def __init__(self) -> None:
        self.first = 1
        self.codes: list[CodeType] = []
        self.offsets: list[int] = []
        self.user_files: set[str] = set()

    def user_frame(self, frame: FrameType) -> FrameType:
        """The innermost frame of the user's: this one, or what called it if it is one of ours."""
        while frame.f_code.co_filename.startswith(_OWN_FILES) and frame.f_back is not None:
            frame = frame.f_back
        self.user_files.add(frame.f_code.co_filename)
        return frame

    def cut(self, end: int) -> None:
        """Make it whole again, after an interrupt, for the nodes before this id."""
        surplus = len(self.codes) + self.first - end
        if surplus < 0:  # while the oldest were forgotten
            del self.offsets[: len(self.offsets) - len(self.codes)]
            self.first = end - len(self.codes)
        else:
            del self.offsets[end - self.first :]
            del self.codes[end - self.first :]

    def trim(self, needed: int) -> None:
        """Forget the nodes before this id, and the oldest, when they are half of all or more."""
        count = len(self.codes)
        surplus = max(needed - self.first, count - _NODES_KEPT)
        if surplus >= max(MIN_TRIMMED, count // 2):
            del self.codes[:surplus]
            del self.offsets[:surplus]
            self.first += surplus

    def find(self, node: int) -> str | None:
        """``file:line`` of the node; None when it is not known any more."""
        at = node - self.first
        if not 0 <= at < len(self.codes):
            return None
        code, offset = self.codes[at], self.offsets[at]
        lines = [line for start, end, line in code.co_lines() if start <= offset < end and line]
        return f"{code.co_filename}:{lines[0] if lines else code.co_firstlineno}"
