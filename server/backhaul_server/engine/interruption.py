"""Stops work that nobody waits for any more where no array is computed: while an order is searched for."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_EVERY = 256


def nothing() -> None:
    """Nobody can stop it."""


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.check: Callable[[], None] = nothing


_of_thread = _OfThread()


@contextmanager
def interruptible(check: Callable[[], None]) -> Iterator[None]:
    """Within it `checkpoint` calls ``check``, which may raise to stop the work of this thread."""
    before, _of_thread.check = _of_thread.check, check
    try:
        yield
    finally:
        _of_thread.check = before


def checkpoint() -> None:
    """To be called between pieces of work."""
    _of_thread.check()


class Watched(dict[int, int]):
    """Sizes of labels for a library's search, which asks for them all the time: so it can be stopped too."""

    _left = _EVERY

    def __getitem__(self, label: int) -> int:
        self._left -= 1
        if not self._left:
            self._left = _EVERY
            checkpoint()
        return super().__getitem__(label)
