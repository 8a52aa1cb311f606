"""Cotangents that are zero but where an index points."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backhaul_proto.catalog.index import ARRAY
from backhaul_server.engine.dual import Dual, dual, tangent_of, value_of
from backhaul_server.engine.rules import Array

Key = tuple[Any, ...]
"""An index as the array library takes it, `ARRAY` in the place of each index array."""


def filled(key: Key, arrays: Sequence[Array]) -> Key:
    """The key with its arrays in place."""
    if not arrays:
        return key
    rest = iter(arrays)
    return tuple(next(rest) if each is ARRAY else each for each in key)


class Scattered:
    """The cotangent of x when that of x[key] is ``ct``.

    The reverse pass adds it to what it has for x in place. So reading one element after the other of a
    large x takes the time of these elements, where an array of zeros for each would take that of x.
    """

    __slots__ = ("_arrays", "_ct", "_key", "dtype", "shape")

    def __init__(
        self, shape: tuple[int, ...], ct: Array | Dual, key: Key, arrays: Sequence[Array]
    ) -> None:
        self.shape = shape
        self.dtype = ct.dtype
        self._ct = ct
        self._key = key
        self._arrays = arrays

    def added_to(self, xp: Any, total: Array | Dual | None, *, owned: bool) -> Array | Dual:
        """The sum with ``total`` (None: zeros), in an array that nobody else has.

        Args:
            xp: the array namespace.
            total: the sum so far.
            owned: whether it may be changed in place.
        """
        if total is not None and not owned:
            total = _copied(xp, total)
        value = self._add(xp, value_of(total), value_of(self._ct))
        tangent, more = tangent_of(total), tangent_of(self._ct)
        return dual(value, tangent if more is None else self._add(xp, tangent, more))

    def _add(self, xp: Any, base: Array | None, ct: Array) -> Array:
        if base is None:
            base = xp.zeros(self.shape, dtype=self.dtype)
        return xp.add_at(base, filled(self._key, self._arrays), ct)


def _copied(xp: Any, x: Array | Dual) -> Array | Dual:
    tangent = tangent_of(x)
    return dual(
        xp.asarray(value_of(x), copy=True),
        None if tangent is None else xp.asarray(tangent, copy=True),
    )
