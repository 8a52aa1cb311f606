"""Arrays of every element type there and back, bit for bit, and what is computed of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from conformance.cases.building import CaseBuilder
from conformance.vector import Array, Vector

SHAPES: Final = ((), (3,), (2, 3), (0,), (2, 0, 3), (1, 2, 1, 2))
DTYPES: Final = (
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "float32",
    "float64",
    "complex64",
    "complex128",
)


def vectors(corpus: Path) -> list[Vector]:
    """All dtypes in all shapes, special values, conversions; the corpus is not asked."""
    there = [_there_and_back(dtype, shape) for dtype in DTYPES for shape in SHAPES]
    special = [_special(dtype) for dtype in ("float32", "float64", "complex64", "complex128")]
    extreme = [_extreme(dtype) for dtype in DTYPES if np.dtype(dtype).kind in "iu"]
    converted = [
        _converted(before, after)
        for before in ("bool", "int32", "int64", "float32", "float64", "complex64")
        for after in ("float32", "float64", "complex128")
        if before != after and not (before == "complex64" and after != "complex128")
    ]
    return [*there, *special, *extreme, *converted]


def _numbers(dtype: str, shape: tuple[int, ...]) -> Array:
    count = int(np.prod(shape))
    numbers: Array = np.arange(1, count + 1) * (1 + 0.5j if np.dtype(dtype).kind == "c" else 1)
    if dtype == "bool":
        numbers = numbers % 2
    return numbers.astype(dtype).reshape(shape)


def _there_and_back(dtype: str, shape: tuple[int, ...]) -> Vector:
    name = "x".join(map(str, shape)) or "scalar"
    return _values(f"{dtype}-{name}", _numbers(dtype, shape))


def _special(dtype: str) -> Vector:
    """Signed zeros, infinities, a subnormal number, and NaNs with a payload."""
    part = np.dtype(dtype).type(0).real.dtype
    numbers = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.finfo(part).smallest_subnormal, np.nan, -np.nan], part
    )
    bits = np.array([np.nan], part).view(f"u{part.itemsize}") + 5
    numbers = np.concatenate([numbers, bits.view(part)])
    if np.dtype(dtype).kind == "c":
        numbers = np.stack([numbers, numbers[::-1]], axis=-1).reshape(-1).view(dtype)
    return _values(f"{dtype}-special-values", numbers)


def _extreme(dtype: str) -> Vector:
    limits = np.iinfo(dtype)
    return _values(f"{dtype}-extremes", np.array([limits.min, limits.max], dtype))


def _values(name: str, value: Array) -> Vector:
    case = CaseBuilder(name)
    node = case.constant(value)
    case.values(node)
    if value.dtype.kind in "fc":
        case.values(case.leaf(value))
    return case.vector(exact=True)


def _converted(before: str, after: str) -> Vector:
    case = CaseBuilder(f"{before}-to-{after}")
    value: Any = _numbers(before, (2, 3))
    is_leaf = value.dtype.kind in "fc"
    node = case.leaf(value) if is_leaf else case.constant(value)
    case.values(case.call("astype", node, dtype=after))
    return case.vector(exact=True)
