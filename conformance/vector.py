"""Vectors: a case, the answer that it must get, and how near; arrays and attributes as JSON holds them."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import numpy as np

from backhaul_proto.catalog.index import ARRAY, Index, Slice

Array = np.ndarray[Any, Any]
Json = dict[str, Any]

FOLDER: Final = Path(__file__).parent / "vectors"
GROUPS: Final = ("ops", "einsum", "derivatives", "dtypes", "errors", "streams", "sessions")

_MARKS: Final[Mapping[Any, str]] = {None: "NEW_AXIS", Ellipsis: "ELLIPSIS", ARRAY: "ARRAY"}


@dataclass(frozen=True, slots=True)
class Vector:
    """A case with its answer.

    Attributes:
        case: what the runner reads.
        expect: what it has to answer, without the name.
        tolerance: (relative, absolute) for each part of the answer (values, pullback, hvp); a part that
            is left out is compared bit for bit.
    """

    case: Json
    expect: Json
    tolerance: Mapping[str, Sequence[float]] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The case's name."""
        return str(self.case["name"])


def read(group: str) -> list[Vector]:
    """The committed vectors of a group."""
    written = json.loads((FOLDER / f"{group}.json").read_text(encoding="utf-8"))
    return [Vector(each["case"], each["expect"], each["tolerance"]) for each in written["vectors"]]


def text(group: str, vectors: Iterable[Vector]) -> str:
    """A group's file: a vector a line, so that a change of one is a line of a diff."""
    lines = [
        json.dumps(
            {"case": each.case, "expect": each.expect, "tolerance": each.tolerance},
            separators=(",", ":"),
            ensure_ascii=False,
        )
        for each in vectors
    ]
    return f'{{"group": "{group}", "vectors": [\n' + ",\n".join(lines) + "\n]}\n"


def tensor_json(value: Any) -> Json:
    """An array as a case holds it."""
    array = np.asarray(value)
    little = array.astype(array.dtype.newbyteorder("<"), copy=False)
    return {
        "dtype": array.dtype.name,
        "shape": list(array.shape),
        "data": base64.b64encode(little.tobytes()).decode(),
    }


def array_of(tensor: Json) -> Array:
    """The array that a case or an answer holds."""
    dtype = np.dtype(tensor["dtype"]).newbyteorder("<")
    data = base64.b64decode(tensor["data"], validate=True)
    return np.frombuffer(data, dtype).reshape(tensor["shape"])


def attribute_json(value: Any) -> Json:
    """An attribute, in the form that the catalog binds it to, as a case holds it."""
    match value:
        case bool():
            return {"bool": value}
        case int():
            return {"int": str(value)}
        case float():
            return {"float": repr(value)}
        case str():
            return {"string": value}
        case np.dtype():
            return {"dtype": value.name}
        case Index():
            return {"index": [_item_json(each) for each in value.items]}
        case tuple() if value and isinstance(value[0], tuple):
            return {"int_lists": [[str(number) for number in each] for each in value]}
        case tuple():
            return {"ints": [str(each) for each in value]}
    raise TypeError(f"{value!r} is no attribute that travels")


def _item_json(item: Any) -> Json:
    if isinstance(item, int):
        return {"at": str(item)}
    if isinstance(item, Slice):
        parts = {"start": item.start, "stop": item.stop, "step": item.step}
        return {"slice": {k: None if v is None else str(v) for k, v in parts.items()}}
    return {"mark": _MARKS[item]}
