"""target[key] += updates in NumPy, with elements that the key names twice counted twice."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from scipy.sparse import csr_array

Array = np.ndarray[Any, Any]

_FEW: Final = 4096  # updates up to which nothing beats np.add.at


def add_at(target: Array, key: tuple[Any, ...], updates: Array) -> Array:
    """The target, to which updates were added in place.

    ``np.add.at`` is right, but takes each element for itself. Where an index array names rows, and none
    twice, the sum is an assignment; where it names most of them twice, their updates are summed first.

    Args:
        target: changed.
        key: for each axis an integer, slice or array of integers; None for new axes; one ellipsis.
        updates: broadcasts to ``target[key]``.

    Raises:
        IndexError: an index array names elements that are not there.
    """
    if not any(isinstance(each, np.ndarray) for each in key):
        target[key] += updates
    elif updates.size <= _FEW or sum(map(_picks, key)) == target.ndim:
        np.add.at(target, key, updates)
    else:
        rows = _Rows(target, key)
        count, distinct = rows.ids.size, rows.count_distinct()
        if distinct == count:
            target[key] += updates
        elif 2 * distinct > count:
            np.add.at(target, key, updates)
        else:
            rows.add(updates)
    return target


class _Rows:
    """The rows of a target that index arrays name: its elements along all other axes.

    Attributes:
        ids: of each named row, its number in C order of the axes that are indexed by arrays.
    """

    def __init__(self, target: Array, key: tuple[Any, ...]) -> None:
        entries = [each for each in key if each is not Ellipsis]  # it stands last, or for no axis
        axes = [i for i, each in enumerate(x for x in entries if x is not None) if _picks(each)]
        places = [i for i, each in enumerate(entries) if _picks(each)]
        self._dims = tuple(target.shape[axis] for axis in axes)
        arrays = np.broadcast_arrays(
            *(_from_the_front(entries[i], n) for i, n in zip(places, self._dims, strict=True))
        )
        self.ids = np.ravel_multi_index(tuple(arrays), self._dims).reshape(-1)
        view = target[tuple(slice(None) if _picks(each) else each for each in key)]
        self._view = np.moveaxis(view, places, range(len(places)))
        self._row = self._view.shape[len(places) :]
        # Where the arrays' axes stand in what is picked: see `index.select`.
        picks = [i for i, each in enumerate(key) if _picks(each)]
        together = picks[-1] - picks[0] + 1 == len(picks)
        first = places[0] if together else 0
        shape = arrays[0].shape
        self._picked = (*self._row[:first], *shape, *self._row[first:])
        self._axes = range(first, first + len(shape))

    def count_distinct(self) -> int:
        """How many different rows are named."""
        ids = self.ids
        rising = bool(np.all(ids[1:] > ids[:-1]))
        return ids.size if rising else int(np.unique(ids).size)

    def add(self, updates: Array) -> None:
        """Add an update to each row that is named; they broadcast to the shape that is picked."""
        whole = np.broadcast_to(updates, self._picked)
        moved = np.moveaxis(whole, self._axes, range(len(self._axes)))
        count = self.ids.size
        order = np.argsort(self.ids, kind="stable")
        ids = self.ids[order]
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        # Summing the updates of each row is the product with a sparse matrix of ones, without a copy.
        ones = np.ones(count, updates.dtype)
        sharing = csr_array((ones, order, np.append(starts, count)), (starts.size, count))
        sums = sharing @ moved.reshape(count, -1)
        self._view[np.unravel_index(ids[starts], self._dims)] += sums.reshape(-1, *self._row)


def _picks(each: Any) -> bool:
    return isinstance(each, np.ndarray | np.integer | int)


def _from_the_front(positions: Any, n: int) -> Array:
    """Positions along an axis of this size, none of them negative."""
    at = np.asarray(positions).astype(np.intp)
    at = np.where(at < 0, at + n, at)
    if at.size and not (at.min() >= 0 and at.max() < n):
        raise IndexError(f"an index is out of bounds for an axis of size {n}")
    return at
