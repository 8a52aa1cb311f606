"""A copy of a NumPy array of many short axes in another order.

NumPy copies by runs along the last axis, so an array of 24 axes of size 2, each in a new place, is
8 million runs of two elements, each as dear as a hundred in a row. Here blocks of the copy are gathered
by one table of offsets, the same for all blocks, as that is what strides mean.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, Final

import numpy as np

Array = np.ndarray[Any, Any]

_BLOCK: Final = 2048
"""Elements of a block at least: then its own call counts little, and its table stays in the cache."""


def compact(x: Array) -> Array:
    """A copy in C order of an array whose axes were moved."""
    memory = sorted(range(x.ndim), key=lambda axis: -x.strides[axis])
    flat = x.transpose(memory)
    if not flat.flags.c_contiguous:
        return x.copy()
    flat = flat.reshape(-1)
    strides = [stride // x.itemsize for stride in x.strides]
    split = x.ndim
    while split and prod(x.shape[split:]) < _BLOCK:
        split -= 1
    starts = _offsets(x.shape[:split], strides[:split])
    table = _offsets(x.shape[split:], strides[split:])
    copied = np.empty((len(starts), len(table)), x.dtype)
    # In the order of the memory read: blocks that share cache lines follow each other.
    order = starts.argsort()
    for block, start in zip(order.tolist(), starts[order].tolist(), strict=True):
        # The mode says that nothing needs to be checked, so it is written in place.
        flat[start:].take(table, out=copied[block], mode="wrap")
    return copied.reshape(x.shape)


def _offsets(shape: Sequence[int], strides: Sequence[int]) -> Array:
    """Where in memory each element of an array with these strides is, in C order."""
    offsets = np.zeros(1, np.intp)
    for size, stride in zip(shape, strides, strict=True):
        offsets = np.add.outer(offsets, np.arange(size) * stride).reshape(-1)
    return offsets
