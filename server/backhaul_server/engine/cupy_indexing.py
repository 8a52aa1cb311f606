"""Elements of CuPy's arrays by index arrays. CuPy wraps an index out of range; here it is an error."""

from __future__ import annotations

from typing import Any, Final

import cupy
import cupyx
import numpy as np

Array = Any

_ATOMIC: Final = (np.dtype("float32"), np.dtype("float64"), np.dtype("int32"), np.dtype("int64"))
"""What CUDA adds to memory at once, so that elements that are named twice count twice."""


def getitem(x: Array, key: tuple[Any, ...]) -> Array:
    """x[key].

    Raises:
        IndexError: an index array names elements that are not there.
    """
    check(x.shape, key)
    return x[key]


def add_at(target: Array, key: tuple[Any, ...], updates: Array) -> Array:
    """The target, to which updates were added in place; those of one element in any order.

    Args:
        target: changed.
        key: for each axis an integer, slice or array of integers; None for new axes; one ellipsis.
        updates: broadcasts to ``target[key]``.

    Raises:
        IndexError: an index array names elements that are not there.
    """
    if not any(isinstance(each, cupy.ndarray) for each in key):
        target[key] += updates
        return target
    check(target.shape, key)
    if target.dtype in _ATOMIC:
        cupyx.scatter_add(target, key, updates)
    elif target.dtype.kind == "c":
        cupyx.scatter_add(target.real, key, updates.real)
        if updates.dtype.kind == "c":
            cupyx.scatter_add(target.imag, key, updates.imag)
    else:
        wide = target.astype(np.int64)
        cupyx.scatter_add(wide, key, updates.astype(np.int64))
        target[...] = wide.astype(target.dtype)
    return target


def check(shape: tuple[int, ...], key: tuple[Any, ...]) -> None:
    """Check the index arrays of a key, all at once: the GPU is waited for once.

    Raises:
        IndexError: one names elements that are not there.
    """
    outside = []
    for each, n in axes_of(shape, key):
        if each.size:
            outside.append(cupy.any((each < -n) | (each >= n)))
    if outside and bool(cupy.any(cupy.stack(outside))):
        sizes = ", ".join(str(n) for _, n in axes_of(shape, key))
        raise IndexError(f"an index is out of bounds for an axis of size {sizes}")


def axes_of(shape: tuple[int, ...], key: tuple[Any, ...]) -> list[tuple[Array, int]]:
    """The index arrays of a key, each with the size of the axis that it indexes."""
    entries = [each for each in key if each is not None]
    taken = sum(each is not Ellipsis for each in entries)
    axis, found = 0, []
    for each in entries:
        if each is Ellipsis:
            axis += len(shape) - taken
            continue
        if hasattr(each, "dtype"):
            found.append((each, shape[axis]))
        axis += 1
    return found
