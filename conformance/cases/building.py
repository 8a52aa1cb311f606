"""Cases written in short, and vectors with the engine's answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from conformance import reference
from conformance.vector import Array, Json, Vector, array_of, attribute_json, tensor_json

from backhaul_proto.catalog import ops as catalog

RELATIVE: Mapping[str, float] = {"float32": 2e-4, "complex64": 2e-4}
"""Of results of these dtypes; 1e-9 of the others."""


class CaseBuilder:
    """A case that grows; its methods answer the numbers of nodes."""

    def __init__(self, name: str, *, chunked: bool = False, split: bool = False) -> None:
        self._case: Json = {
            "name": name,
            "sources": [],
            "calls": [],
            "ask": {"values": []},
            "chunked": chunked,
            "split": split,
        }
        self._nodes = 0

    def leaf(self, value: Any, tangent: Any = None) -> int:
        """A leaf, with its tangent where there is one."""
        source = {"kind": "leaf", "value": tensor_json(value)}
        if tangent is not None:
            source["tangent"] = tensor_json(tangent)
        return self._source(source)

    def constant(self, value: Any) -> int:
        """A constant."""
        return self._source({"kind": "constant", "value": tensor_json(value)})

    def call(self, op: str, *operands: int, results: int = 1, **attributes: Any) -> int:
        """A call of an op with attributes as the catalog has them: its first result."""
        entry = catalog.CATALOG.get(op)
        bound = attributes.items() if entry is None else _given(entry, attributes)
        return self.call_as_sent(
            op, operands, {name: attribute_json(value) for name, value in bound}, results
        )

    def call_as_sent(
        self, op: str, operands: Sequence[int], attributes: Json, results: int = 1
    ) -> int:
        """A call with attributes as JSON holds them, right or wrong: its first result."""
        self._case["calls"].append(
            {"op": op, "operands": list(operands), "attributes": attributes, "results": results}
        )
        first, self._nodes = self._nodes, self._nodes + results
        return first

    def values(self, *nodes: int) -> None:
        """Asks for values."""
        self._case["ask"]["values"] += nodes

    def pullback(self, loss: int, wrt: Sequence[int], cotangent: Any = None) -> None:
        """Asks for gradients."""
        self._case["ask"]["pullback"] = {"loss": loss, "wrt": list(wrt)}
        if cotangent is not None:
            self._case["ask"]["pullback"]["cotangent"] = tensor_json(cotangent)

    def hvp(self, loss: int, wrt: Sequence[int], tangents: Mapping[int, Any] | None = None) -> None:
        """Asks for H·v, along the leaves' own tangents or these."""
        self._case["ask"]["hvp"] = {
            "loss": loss,
            "wrt": list(wrt),
            "tangents": [
                {"of": node, "value": tensor_json(value)}
                for node, value in (tangents or {}).items()
            ],
        }

    @property
    def case(self) -> Json:
        """The case as it stands."""
        return self._case

    def vector(self, *, exact: bool = False) -> Vector:
        """The case with the engine's answer, to be met within rounding, or bit for bit."""
        expect = reference.answer(self._case)
        if "error" in expect:
            raise ValueError(f"{self._case['name']}: the engine refuses it: {expect['error']}")
        return Vector(self._case, expect, {} if exact else tolerances(expect))

    def refusal(self, reason: str, code: str | None, **details: str) -> Vector:
        """The case with the error that it must get; no code for one that travels inside an answer."""
        error: Json = {"reason": reason, "code": code}
        if details:
            error["details"] = details
        return Vector(self._case, {"error": error})

    def _source(self, source: Json) -> int:
        if self._case["calls"]:
            raise ValueError("sources come before calls")
        self._case["sources"].append(source)
        self._nodes += 1
        return self._nodes - 1


def _given(entry: catalog.Op, attributes: Mapping[str, Any]) -> list[tuple[str, Any]]:
    """Those attributes that were given, in the form in which they travel; defaults stay away."""
    return [(name, value) for name, value in catalog.bind(entry, attributes) if name in attributes]


def tolerances(expect: Json) -> dict[str, list[float]]:
    """(relative, absolute) for each part of an answer, the latter by the largest of its numbers."""
    parts: dict[str, list[Json]] = {"values": expect["values"]}
    for question in ("pullback", "hvp"):
        if question in expect:
            told = expect[question]
            parts[question] = [told["value"], *told["gradients"], *told.get("products", ())]
    return {part: _tolerance(tensors) for part, tensors in parts.items() if tensors}


def _tolerance(tensors: Sequence[Json]) -> list[float]:
    relative = max(RELATIVE.get(each["dtype"], 1e-9) for each in tensors)
    return [relative, float(f"{relative * max(1.0, *(_size(each) for each in tensors)):.2g}")]


def _size(tensor: Json) -> float:
    array: Array = np.abs(array_of(tensor).astype(complex))
    finite = array[np.isfinite(array)]
    return float(finite.max()) if finite.size else 0.0
