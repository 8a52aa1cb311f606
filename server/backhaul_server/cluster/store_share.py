"""Arrays that stay where they came: in the memory of Ray's object store, up to a share of it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from threading import RLock
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

LARGE: Final = 1 << 16
"""Bytes from which on an array is kept where it came. A smaller one would hold all that came with it."""


class StoreShare:
    """Knows how much of the object store a worker's tapes keep.

    An array that came through the store can be used there as it is, which saves a copy. But what is used
    cannot be moved out of the store, and a store full of tapes' leaves carries no more calls: beyond its
    share a worker copies what comes.

    Args:
        limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._lock = RLock()  # arrays go at any time, also while this thread has it
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes that are kept there."""
        return self._used

    def admit(self, arrays: Sequence[Array]) -> list[Array]:
        """A request's arrays, to be kept as long as one likes: large ones as they are if there is room.

        They are one object of the store, which stays while one of them does.
        """
        large = [each for each in arrays if each.nbytes >= LARGE]
        nbytes = sum(each.nbytes for each in large)
        with self._lock:
            keeps = self._used + nbytes <= self._limit
            if keeps:
                self._used += nbytes
        if not keeps:
            return [each.copy() for each in arrays]
        left = [len(large)]
        for each in (
            large
        ):  # views of an array hold it as their base, so it goes when the last of them does
            weakref.finalize(each, self._one_left, left, nbytes)
        return [each if each.nbytes >= LARGE else each.copy() for each in arrays]

    def _one_left(self, left: list[int], nbytes: int) -> None:
        with self._lock:
            left[0] -= 1
            if not left[0]:
                self._used -= nbytes
