"""Abstract values: the shape and dtype of an array, without its numbers."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Iterable
from typing import Final

import numpy as np

Shape = tuple[int, ...]

INEXACT: Final = tuple(np.dtype(name) for name in ("float32", "float64", "complex64", "complex128"))
INTEGER: Final = tuple(
    np.dtype(name)
    for name in ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
)
BOOL: Final = np.dtype("bool")
FLOAT64: Final = np.dtype("float64")
COMPLEX128: Final = np.dtype("complex128")
SUPPORTED: Final = frozenset((*INEXACT, *INTEGER, BOOL))


MAX_RANK: Final = 64
MAX_BYTES: Final = 2**63 - 1


def real_dtype(dtype: np.dtype) -> np.dtype:
    """The dtype of the real and imaginary parts; a real one is its own."""
    return dtype if dtype.kind != "c" else dtype.type(0).real.dtype


def is_array_shape(shape: Shape, itemsize: int) -> bool:
    """Whether an array of this shape can exist at all: NumPy's limits on axes and bytes."""
    nbytes = itemsize
    for n in shape:
        nbytes *= max(n, 1)
    return len(shape) <= MAX_RANK and nbytes <= MAX_BYTES and min(shape, default=0) >= 0


class Aval:
    """Shape and dtype. Equal ones are the same object, so they hash and compare by identity.

    Made by `aval`, never directly.
    """

    __slots__ = ("__weakref__", "dtype", "inexact", "nbytes", "ndim", "shape", "size")

    def __init__(self, shape: Shape, dtype: np.dtype) -> None:
        self.shape = shape
        self.dtype = dtype
        self.ndim = len(shape)
        size = 1
        for n in shape:
            size *= n
        self.size = size
        self.nbytes = size * dtype.itemsize
        self.inexact = dtype.kind in "fc"

    def __repr__(self) -> str:
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    def __reduce__(self) -> tuple[object, ...]:
        return (aval, (self.shape, self.dtype))


_interned: weakref.WeakValueDictionary[tuple[Shape, np.dtype], Aval] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def aval(shape: Iterable[int], dtype: np.dtype) -> Aval:
    """The abstract value of this shape and (native) dtype."""
    key = (tuple(shape), dtype)
    found = _interned.get(key)
    if found is None:
        with _lock:
            found = _interned.setdefault(key, Aval(*key))
    return found
