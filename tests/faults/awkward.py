"""Arrays as callers hold them: any memory layout, any bits."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

Array = np.ndarray[Any, Any]

INEXACT = ("float32", "float64", "complex64", "complex128")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
EXACT = ("bool", *INTEGERS)

_FLOATS = {
    "float32": (
        "u4",
        # quiet and signalling NaNs with payloads and either sign; zeros, subnormals, infinities, ends
        "7FC00000 7FC12345 7F800001 7FA54321 FFC00001 FF800001 80000000 00000000 "
        "00000001 80000001 007FFFFF 7F800000 FF800000 7F7FFFFF 3F800000 00800000",
    ),
    "float64": (
        "u8",
        "7FF8000000000000 7FF8000000012345 7FF0000000000001 7FF4000000000007 "
        "FFF8000000000001 FFF0000000000001 8000000000000000 0000000000000000 "
        "0000000000000001 8000000000000001 000FFFFFFFFFFFFF 7FF0000000000000 "
        "FFF0000000000000 7FEFFFFFFFFFFFFF 3FF0000000000000 0010000000000000",
    ),
}


def values(dtype: str) -> Array:
    """The values of a dtype that are lost most easily, as an array of shape (4, n)."""
    if dtype in _FLOATS:
        unsigned, hexadecimal = _FLOATS[dtype]
        return (
            np.array([int(each, 16) for each in hexadecimal.split()], unsigned)
            .view(dtype)
            .reshape(4, -1)
        )
    if dtype.startswith("complex"):
        parts = values("float32" if dtype == "complex64" else "float64").ravel()
        pairs = np.stack([np.tile(parts, 2), np.concatenate([parts[::-1], parts])], axis=-1)
        return pairs.view(dtype).reshape(4, -1)
    if dtype == "bool":
        return np.array([[True, False, True], [False] * 3, [True] * 3, [False, True, True]])
    ends = np.iinfo(dtype)
    patterns = [ends.min, ends.max, 0, 1, ends.max - 1, ends.min + 1, ends.max // 3, 100]
    return np.array(patterns, dtype).reshape(4, -1)


class Subclass(np.ndarray[Any, Any]):
    """An array of a class of the user's."""


def layouts(dtype: str) -> Iterator[tuple[str, Array]]:
    """Those values in every kind of memory, by name."""
    base = values(dtype)
    rows, columns = base.shape
    yield "C order", base
    yield "Fortran order", np.asfortranarray(base)
    yield "transposed", base.copy().T
    yield "axes permuted", base.reshape(2, 2, -1).transpose(2, 0, 1)
    yield "negative strides", base[::-1, ::-1].copy()[::-1, ::-1]
    yield "one negative stride", base[:, ::-1]
    yield "broadcast", np.broadcast_to(base[:, None, :], (rows, 3, columns))
    yield "all strides zero", np.broadcast_to(base[0, 0], (2, 3))
    gaps = np.zeros((2 * rows, 3 * columns), dtype)
    gaps[::2, 1::3] = base
    yield "gaps", gaps[::2, 1::3]
    yield "big-endian", base.astype(base.dtype.newbyteorder(">"))
    yield "big-endian, Fortran order", np.asfortranarray(base.astype(base.dtype.newbyteorder(">")))
    yield "unaligned", np.frombuffer(b"\0" + base.tobytes(), dtype, offset=1).reshape(base.shape)
    records = np.zeros(base.shape, [("pad", "u1"), ("value", dtype)])
    records["value"] = base
    yield "a field of records", records["value"]
    read_only = base.copy()
    read_only.flags.writeable = False
    yield "read-only", read_only
    yield "a subclass", base.view(Subclass)
    for position in (0, -1):
        yield f"0-d {position}", base.ravel()[position:][:1].reshape(())
    for shape in ((0,), (2, 0, 3), (0, 2), (3, 0), (1, 1), (1,) * 20):
        yield f"shape {shape}", np.resize(base, shape) if 0 not in shape else np.zeros(shape, dtype)
    yield "no elements, Fortran order", np.zeros((2, 0, 3), dtype, order="F")
    yield "no elements, of some", base[:, 2:2]


def bits(array: Any) -> tuple[np.dtype[Any], tuple[int, ...], bytes]:
    """What must be equal for two arrays to be the same bit for bit, in whatever memory."""
    assert type(array) is np.ndarray or isinstance(array, Subclass)
    little = array.astype(array.dtype.newbyteorder("<"))
    return array.dtype.newbyteorder("="), array.shape, little.tobytes()
