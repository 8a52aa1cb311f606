"""The programs that are kept of one function."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Hashable
from typing import Final

from backhaul.functional.programs import Program

MAX_PROGRAMS: Final = 128
"""Programs that one function keeps: those used last."""


class Programs:
    """The programs of one function, by what they were recorded for. Threads may share it.

    Attributes:
        static_argnums: positions of arguments that are part of the key as they are.
        static_argnames: their names.
        traces: how often the function was called to record it.
        version: how often they were forgotten.
    """

    def __init__(self, static_argnums: tuple[int, ...], static_argnames: frozenset[str]) -> None:
        self.static_argnums = static_argnums
        self.static_argnames = static_argnames
        self.traces = 0
        self.version = 0
        self._lock = threading.Lock()
        self._found: OrderedDict[Hashable, Program | None] = OrderedDict()

    def find(self, key: Hashable) -> tuple[Program | None, bool]:
        """The program of this key, and whether it was recorded before. None then: it cannot be kept."""
        with self._lock:
            if key not in self._found:
                return None, False
            self._found.move_to_end(key)
            return self._found[key], True

    def keep(self, key: Hashable, program: Program | None) -> None:
        """Keep a program; None: that there can be none."""
        with self._lock:
            self._found[key] = program
            if len(self._found) > MAX_PROGRAMS:
                self._found.popitem(last=False)

    def traced(self) -> None:
        """The function is being called to record it."""
        with self._lock:
            self.traces += 1

    def clear(self) -> None:
        """Forget all of them."""
        with self._lock:
            self._found.clear()
            self.version += 1
