"""Every op with every attribute at its extremes, on the shapes of its samples."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Final

from backhaul_proto.catalog.index import ARRAY, Index, Slice
from backhaul_proto.catalog.ops import CATALOG, Attribute, Sample

_INTS: Final = (0, -1, 10**9, 2**31 - 1, 2**31, -(2**31) - 1, 2**62, 2**63 - 1, -(2**63))
_FLOATS: Final = (0.0, -1.0, 5e-324, 1e300, math.inf, -math.inf, math.nan)
_LISTS: Final = ((), *((n,) for n in _INTS), (2**62, 2**62), (0,) * 100, (2**31, 2**31, 0))
_STRINGS: Final = ("", "x", "N" * 1000, "i->" + "i" * 70, "ij->" + "ij" * 20, "," * 80, "i" * 70)
_INDICES: Final = (
    Index((2**63 - 1,)),
    Index((-(2**63),)),
    Index((Slice(-(2**63), 2**63 - 1, 1),)),
    Index((Slice(2**63 - 1, -(2**63), -(2**63)),)),
    Index((Slice(None, None, 0),)),
    Index((None,) * 70),
    Index((Ellipsis, Ellipsis)),
    Index((ARRAY,) * 3),
)
_VALUES: Final[Mapping[str, tuple[Any, ...]]] = {
    "bool": (True, False),
    "int": _INTS,
    "float": _FLOATS,
    "string": _STRINGS,
    "dtype": (),
    "ints": _LISTS,
    "axes": (*_INTS, *_LISTS),
    "int_lists": tuple((each, each) for each in _LISTS) + tuple((each,) for each in _LISTS),
    "paired_axes": (*_INTS, *((each, each) for each in _LISTS)),
    "index": _INDICES,
}


def extreme_calls() -> Iterator[tuple[str, Sample, dict[str, Any]]]:
    """Op, sample for the shapes, and attributes with one at an extreme."""
    for name, entry in sorted(CATALOG.items()):
        if entry.private or not entry.samples:
            continue
        for sample in _different(entry.samples):
            for spec in entry.attributes:
                for value in _VALUES[spec.kind]:
                    yield name, sample, {**_given(sample), spec.name: value}
            for pair in _pairs(entry.attributes):
                yield name, sample, {**_given(sample), **pair}


def _given(sample: Sample) -> dict[str, Any]:
    return {
        name: tuple(tuple(e) if isinstance(e, list) else e for e in value)
        if isinstance(value, list)
        else value
        for name, value in sample.attributes.items()
        if value is not None
    }


def _different(samples: tuple[Sample, ...]) -> list[Sample]:
    """The first samples with arrays that have elements, one with none, and one with numbers for arrays."""
    full = [each for each in samples if all(0 not in shape for shape in each.shapes)]
    empty = [each for each in samples if any(0 in shape for shape in each.shapes)]
    numbers = [replace(each, shapes=tuple(() for _ in each.shapes)) for each in samples[:1]]
    return full[:2] + empty[:1] + numbers


def _pairs(attributes: tuple[Attribute, ...]) -> Iterator[dict[str, Any]]:
    """Two attributes at extremes at once."""
    for i, first in enumerate(attributes):
        for second in attributes[:i]:
            for at in (0, -2, -1):
                values = _VALUES[first.kind], _VALUES[second.kind]
                if all(values):
                    yield {first.name: values[0][at], second.name: values[1][at]}
