"""Tests that every op gets from its catalog entry alone: its samples × the dtypes it takes.

Inner products are real ones, Re sum(conj(a) b), so that complex rules are held to their convention.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from tests.samples import cases
from tests.server.engine.points import Point, curved, inexact, weighted

from backhaul_proto.catalog.ops import CATALOG, Op, Sample
from backhaul_proto.errors import HvpNotSupported
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.rules import RULES

Array = np.ndarray[Any, Any]
ENGINE = Engine()
CASES = list(cases())
DIFFERENTIABLE = list(cases(differentiable=True))


def given(directions: Sequence[Array | None]) -> list[Array]:
    return [d for d in directions if d is not None]


def dot(a: Sequence[Array], b: Sequence[Array]) -> float:
    return float(sum(np.vdot(x, y).real for x, y in zip(a, b, strict=True)))


def close(a: Any, b: Any, tolerance: float) -> None:
    scale = max(float(np.max(np.abs(b), initial=0.0)), 1.0)
    np.testing.assert_allclose(a, b, rtol=0, atol=tolerance * scale)


def test_every_entry_has_a_rule_and_samples_and_every_rule_an_entry() -> None:
    assert set(CATALOG) == set(RULES)
    assert all(entry.samples for entry in CATALOG.values() if not entry.private)


@pytest.mark.parametrize(("entry", "sample", "dtype"), CASES)
def test_inferred_shapes_and_dtypes_are_those_computed(
    entry: Op, sample: Sample, dtype: np.dtype[Any]
) -> None:
    point = Point(ENGINE, entry, sample, dtype)
    _, _, results = point.record()
    assert len(results) == len(point.call.results)
    for node, inferred in zip(results, point.call.results, strict=True):
        assert node.error is None
        assert (node.value.shape, node.value.dtype) == (inferred.shape, inferred.dtype)
        assert node.requires_grad is (entry.differentiable and inferred.inexact)


@pytest.mark.parametrize(("entry", "sample", "dtype"), DIFFERENTIABLE)
def test_first_and_second_derivatives(entry: Op, sample: Sample, dtype: np.dtype[Any]) -> None:
    """jvp against central differences, Re⟨ct, jvp⟩ = Re⟨vjp, t⟩, H·v against differenced gradients."""
    point = Point(ENGINE, entry, sample, dtype)
    tape, leaves, every = point.record()
    directions = given(point.directions)
    results = inexact(every)
    plus, minus = (inexact(point.record(s)[2]) for s in (point.step, -point.step))
    cotangents = point.cotangents(results)

    differences = [(p.value - m.value) / (2 * point.step) for p, m in zip(plus, minus, strict=True)]
    whole = weighted(tape, results, cotangents)
    gradients = tape.pullback(whole, wrt=leaves)[0]
    got = [gradients[leaf] for leaf in leaves]
    for leaf, g in zip(leaves, got, strict=True):
        assert (g.shape, g.dtype) == (leaf.aval.shape, leaf.aval.dtype)
    close(dot(got, directions), dot(cotangents, differences), 10 * point.tolerance)

    if RULES[entry.name].jvp is None:
        with pytest.raises(HvpNotSupported):
            tape.hvp(whole, wrt=leaves)
        return
    (first, products) = tape.hvp(curved(tape, results, cotangents), wrt=leaves)[0]
    ahead, behind = (_gradients(point, s, cotangents) for s in (point.step, -point.step))
    for leaf, a, b in zip(leaves, ahead, behind, strict=True):
        close(products[leaf], (a - b) / (2 * point.step), 20 * point.tolerance)
        assert products[leaf].dtype == leaf.aval.dtype
    for leaf, expected in zip(leaves, _gradients(point, 0.0, cotangents), strict=True):
        close(first[leaf], expected, point.tolerance)


@pytest.mark.parametrize(("entry", "sample", "dtype"), DIFFERENTIABLE)
def test_the_hessian_is_symmetric(entry: Op, sample: Sample, dtype: np.dtype[Any]) -> None:
    if RULES[entry.name].jvp is None:
        return  # the test above holds it to its error
    point = Point(ENGINE, entry, sample, dtype)
    tape, leaves, every = point.record()
    results = inexact(every)
    loss = curved(tape, results, point.cotangents(results))
    u, v = given(point.directions), given(point.other)
    along = [dict(zip(leaves, direction, strict=True)) for direction in (u, v)]
    (_, hu), (_, hv) = tape.hvp(loss, along, wrt=leaves)
    left = dot(v, [hu[leaf] for leaf in leaves])
    right = dot(u, [hv[leaf] for leaf in leaves])
    scale = max(abs(left), 1.0)
    assert abs(left - right) <= (1e-4 if point.step > 1e-4 else 1e-10) * scale


def _gradients(point: Point, step: float, cotangents: Sequence[Array]) -> list[Array]:
    tape, leaves, results = point.record(step)
    found = tape.pullback(curved(tape, inexact(results), cotangents), wrt=leaves)[0]
    return [found[leaf] for leaf in leaves]
