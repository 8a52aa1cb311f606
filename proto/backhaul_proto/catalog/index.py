"""Indices: what stands between the brackets of x[...], as hashable data, and the shape that it picks.

NumPy's meaning throughout: https://numpy.org/doc/stable/user/basics.indexing.html
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Sequence
from types import EllipsisType
from typing import Any, Final, Literal, NamedTuple

import numpy as np

from backhaul_proto.catalog.avals import Shape
from backhaul_proto.catalog.shapes import broadcast_shapes
from backhaul_proto.errors import BackhaulError, make_error

ARRAY: Final = "array"
"""The entry in whose place an index array stands, which is an operand."""

_MIN: Final = -(2**63)
_MAX: Final = 2**63 - 1


class Slice(NamedTuple):
    """start:stop:step, as data: Python's own slices have a hash since 3.12 only."""

    start: int | None = None
    stop: int | None = None
    step: int | None = None


Item = int | Slice | EllipsisType | Literal["array"] | None
"""An entry; None is a new axis."""


class Index(NamedTuple):
    """The entries of an index, in order."""

    items: tuple[Item, ...]


WHOLE: Final = Slice()


class Selection(NamedTuple):
    """What an index means on an array of a certain shape.

    Attributes:
        key: an entry for each axis of the array, and None for new axes; integers count from the front.
            An ellipsis is left only where it stands for no axis: it still separates arrays.
        shape: of what is picked.
    """

    key: tuple[Item, ...]
    shape: Shape


def canonical_index(given: Any) -> Index:
    """An index of this form from one that is made of Python's slices, NumPy's integers and so on."""
    entries = given.items if isinstance(given, Index) else given
    return Index(
        tuple(map(_item, entries)) if isinstance(entries, tuple | list) else (_item(entries),)
    )


def _item(given: Any) -> Item:
    if given is None or given is Ellipsis:
        return None if given is None else Ellipsis
    if isinstance(given, str) and given == ARRAY:
        return ARRAY
    if isinstance(given, slice | Slice):
        parts = map(_bound, (given.start, given.stop, given.step))
        return Slice(*parts)
    if isinstance(given, bool | np.bool_):
        raise TypeError
    number = operator.index(given)
    if not _MIN <= number <= _MAX:
        raise OverflowError
    return number


def _bound(given: Any) -> int | None:
    """A part of a slice; Python cuts those that are too large."""
    return None if given is None else max(_MIN, min(operator.index(given), _MAX))


def select(index: Index, shape: Shape, arrays: Sequence[Shape]) -> Selection:
    """What the index with arrays of these shapes picks from an array of this shape.

    Raises:
        IndexOutOfRange: an integer beyond its axis, more entries than axes.
        InvalidArgument: OPERAND_COUNT, SHAPE_MISMATCH (the arrays do not broadcast), INVALID_ATTRIBUTE (a
            slice of step 0, two ellipses).
    """
    if index.items.count(ARRAY) != len(arrays):
        raise make_error(
            "OPERAND_COUNT",
            f"The index has {index.items.count(ARRAY)} place(s) for arrays, but {len(arrays)} are given.",
            expected=index.items.count(ARRAY),
            actual=len(arrays),
        )
    key: list[Item] = []
    sizes: list[int] = []  # of slices and new axes, in order
    picks: list[
        int
    ] = []  # where in the key integers and arrays stand, and how many sizes come before
    before: list[int] = []
    axis = 0
    for item in _spelled_out(index.items, shape):
        if item is None:
            sizes.append(1)
        elif item is Ellipsis:
            pass
        elif isinstance(item, Slice):
            sizes.append(_length(item, shape[axis]))
        else:
            if isinstance(item, int):
                item = _position(item, axis, shape)
            picks.append(len(key))
            before.append(len(sizes))
        key.append(item)
        axis += item is not None and item is not Ellipsis
    if not arrays:
        return Selection(tuple(key), tuple(sizes))
    try:
        picked = broadcast_shapes(arrays)
    except BackhaulError:
        raise make_error(
            "SHAPE_MISMATCH",
            f"Index arrays of shapes {', '.join(map(str, arrays))} do not broadcast; index arrays are "
            "taken together, element by element. For all combinations, np.ix_ shapes them.",
            actual=", ".join(map(str, arrays)),
        ) from None
    # Beside arrays an integer is an array of no axes. What arrays pick stands where they stand, or, when
    # others separate them, first.
    together = picks[-1] - picks[0] + 1 == len(picks)
    at = before[0] if together else 0
    return Selection(tuple(key), (*sizes[:at], *picked, *sizes[at:]))


def _spelled_out(items: tuple[Item, ...], shape: Shape) -> Iterable[Item]:
    """The entries, with whole slices for the ellipsis or for what is left out at the end."""
    taken = sum(item is not None and item is not Ellipsis for item in items)
    if taken > len(shape):
        raise make_error(
            "INDEX_OUT_OF_RANGE",
            f"The index has entries for {taken} axes, but the array of shape {shape} has {len(shape)}.",
            expected=f"at most {len(shape)}",
            actual=taken,
        )
    if items.count(Ellipsis) > 1:
        raise make_error(
            "INVALID_ATTRIBUTE", "An index may have a single ellipsis ('...').", attribute="index"
        )
    missing = (WHOLE,) * (len(shape) - taken)
    if Ellipsis not in items:
        return (*items, *missing)
    at = items.index(Ellipsis)
    return (*items[:at], *(missing or (Ellipsis,)), *items[at + 1 :])


def _position(item: int, axis: int, shape: Shape) -> int:
    n = shape[axis]
    if not -n <= item < n:
        raise make_error(
            "INDEX_OUT_OF_RANGE",
            f"Index {item} is out of range for axis {axis} of an array of shape {shape}.",
            expected=f"{-n}..{n - 1}" if n else "none",
            actual=item,
        )
    return item + n if item < 0 else item


def _length(item: Slice, n: int) -> int:
    if item.step == 0:
        raise make_error(
            "INVALID_ATTRIBUTE", "A slice of step 0 goes nowhere.", attribute="index", actual=item
        )
    return len(range(n)[slice(*item)])
