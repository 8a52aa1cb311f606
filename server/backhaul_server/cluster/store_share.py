"""Arrays that stay where they came: in the memory of Ray's object store, up to a share of it."""

from __future__ import annotations

import weakref
from collections.abc import Sequence
from threading import Lock
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


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
        self._lock = Lock()
        self._used = 0

    @property
    def used(self) -> int:
        """Bytes that are kept there."""
        return self._used

    def admit(self, arrays: Sequence[Array]) -> list[Array]:
        """The arrays, to be kept as long as one likes: those for which there is room as they are."""
        return [each if self._keeps(each) else each.copy() for each in arrays]

    def _keeps(self, array: Array) -> bool:
        with self._lock:
            if self._used + array.nbytes > self._limit:
                return False
            self._used += array.nbytes
        # Views of it hold it as their base, so it goes when the last of them does.
        weakref.finalize(array, self._left, array.nbytes)
        return True

    def _left(self, nbytes: int) -> None:
        with self._lock:
            self._used -= nbytes
