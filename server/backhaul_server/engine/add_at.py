"""target[key] += updates in NumPy, with elements that the key names twice counted twice."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]


def add_at(target: Array, key: tuple[Any, ...], updates: Array) -> None:
    """Add in place.

    ``np.add.at`` alone is right, but fast for one index array on one axis only. So where an index names
    no row twice the sum is an assignment, and otherwise rows that belong together are summed first:
    several times faster for rows of ten elements and more.

    Args:
        target: changed.
        key: for each axis an integer, slice or array of integers; None for new axes; one ellipsis.
        updates: broadcasts to ``target[key]``.

    Raises:
        IndexError: an index array names elements that are not there.
    """
    if not any(isinstance(each, np.ndarray) for each in key):
        target[key] += updates
        return
    if target.ndim == 1 and len(key) == 2 and key[1] is Ellipsis:
        np.add.at(target, key[0], updates)
        return
    picked = target[key]  # also checks the key, before anything is changed
    rows = _Rows(target, key)
    if rows.are_elements and target.flags.c_contiguous:
        np.add.at(target.reshape(-1), rows.ids, rows.of(updates, picked.shape).reshape(-1))
    elif rows.are_distinct():
        target[key] = picked + updates
    else:
        rows.add(rows.of(updates, picked.shape))


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
        self.are_elements = len(axes) == target.ndim
        # Where the arrays' axes stand in what is picked: see `index.select`.
        picks = [i for i, each in enumerate(key) if _picks(each)]
        together = picks[-1] - picks[0] + 1 == len(picks)
        first = places[0] if together else 0
        self._axes = range(first, first + arrays[0].ndim)
        view = target[tuple(slice(None) if _picks(each) else each for each in key)]
        self._view = np.moveaxis(view, places, range(len(places)))

    def are_distinct(self) -> bool:
        """Whether no row is named twice."""
        ids = self.ids
        if ids.size < 2 or bool(np.all(ids[1:] > ids[:-1])):
            return True
        ordered = np.sort(ids)
        return bool(np.all(ordered[1:] != ordered[:-1]))

    def of(self, updates: Array, shape: tuple[int, ...]) -> Array:
        """Updates, which broadcast to the shape that is picked, row by row."""
        moved = np.moveaxis(np.broadcast_to(updates, shape), self._axes, range(len(self._axes)))
        return moved.reshape(self.ids.size, *self._view.shape[len(self._dims) :])

    def add(self, updates: Array) -> None:
        """Add an update to each row that is named."""
        order = np.argsort(self.ids, kind="stable")
        ids = self.ids[order]
        starts = np.flatnonzero(np.concatenate(([True], ids[1:] != ids[:-1])))
        sums = np.add.reduceat(updates[order], starts, axis=0)
        self._view[np.unravel_index(ids[starts], self._dims)] += sums


def _picks(each: Any) -> bool:
    return isinstance(each, np.ndarray | np.integer | int)


def _from_the_front(positions: Any, n: int) -> Array:
    """Positions along an axis of this size, none of them negative."""
    at = np.asarray(positions).astype(np.intp)
    return np.where(at < 0, at + n, at)
