"""Vectors of every op of the catalog, by its samples: the numbers are those that the tests draw."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

import numpy as np
from conformance.cases.building import CaseBuilder
from conformance.vector import Vector
from tests.samples import draw

from backhaul_proto.catalog.avals import FLOAT64, INEXACT, aval
from backhaul_proto.catalog.ops import CATALOG, Op, Sample, bind, infer
from backhaul_server.engine.rules import RULES

SAMPLES: Final = 3
"""So many samples of an op are tried in FLOAT64; the first one in the other dtypes too."""


def vectors(corpus: Path) -> list[Vector]:
    """In the order of the catalog; the corpus is not asked."""
    return [
        _vector(entry, at, sample, dtype)
        for entry in CATALOG.values()
        if not entry.private
        for at, sample in enumerate(entry.samples[:SAMPLES])
        for dtype in (INEXACT if at == 0 else (FLOAT64,))
        if dtype.kind in sample.kinds and (dtype.kind in entry.kinds or dtype == FLOAT64)
    ]


def _vector(entry: Op, at: int, sample: Sample, dtype: np.dtype[Any]) -> Vector:
    """Its values, and for a differentiable result gradients and H·v of the sum of squares."""
    case = CaseBuilder(f"{entry.name}-{at}-{dtype}")
    drawn = draw(entry, sample, dtype)
    leaves, operands = [], []
    for value, direction in zip(drawn.operands, drawn.directions, strict=True):
        if direction is None:
            operands.append(case.constant(value))
        else:
            operands.append(case.leaf(value, direction))
            leaves.append(operands[-1])
    avals = tuple(aval(each.shape, each.dtype) for each in drawn.operands)
    results = infer(entry, bind(entry, sample.attributes), avals)
    first = case.call(entry.name, *operands, results=len(results), **sample.attributes)
    if not entry.gauge:
        case.values(*range(first, first + len(results)))
    asked = next((i for i, each in enumerate(results) if each.dtype.kind in "fc"), None)
    if not entry.differentiable or asked is None or not leaves:
        return case.vector()
    result = first + asked
    # Phases cancel: what is defined up to a gauge has a square that is not.
    if results[asked].dtype.kind == "c":
        square = case.call("real", case.call("multiply", result, case.call("conj", result)))
    else:
        square = case.call("square", result)
    loss = case.call("sum", square)
    case.values(loss)
    case.pullback(loss, leaves)
    if RULES[entry.name].jvp is not None:
        case.hvp(loss, leaves)
    return case.vector()
