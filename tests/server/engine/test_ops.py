"""Tests that every op gets from its catalog entry alone: its samples × the dtypes it takes.

Inner products are real ones, Re sum(conj(a) b), so that complex rules are held to their convention.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import pytest

from backhaul_proto.catalog import ops as catalog
from backhaul_proto.catalog.avals import INEXACT, aval
from backhaul_proto.catalog.ops import CATALOG, Op, Sample
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.node import Node
from backhaul_server.engine.rules import RULES
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
ENGINE = Engine()
_STEP = {4: 3e-3, 8: 1e-6}
_TOLERANCE = {4: 3e-2, 8: 1e-6}


def _cases() -> Iterator[Any]:
    for entry in CATALOG.values():
        for i, sample in enumerate(entry.samples):
            for dtype in INEXACT:
                yield pytest.param(entry, sample, dtype, id=f"{entry.name}-{i}-{dtype}")


CASES = list(_cases())
DIFFERENTIABLE = [case for case in CASES if case.values[0].differentiable]


class Drawn:
    """An op at a point, with directions for its operands and a cotangent for each result."""

    def __init__(self, entry: Op, sample: Sample, dtype: np.dtype[Any]) -> None:
        seed = zlib.crc32(f"{entry.name} {sample.shapes} {dtype}".encode())
        self.rng = np.random.default_rng(seed)
        self.dtype = dtype
        self.sample = sample
        self.operands = [self._operand(i) for i in range(len(sample.shapes))]
        self.directions = [self._direction(i) for i in range(len(sample.shapes))]
        avals = tuple(aval(x.shape, x.dtype) for x in self.operands)
        bound = catalog.bind(entry, sample.attributes)
        self.call: PreparedCall = ENGINE.prepare_bound(entry, bound, avals)
        width = np.dtype(dtype).type(0).real.dtype.itemsize
        self.step, self.tolerance = _STEP[width], _TOLERANCE[width]

    def normal(self, shape: Sequence[int], dtype: Any = None) -> Array:
        dtype = np.dtype(dtype or self.dtype)
        x = self.rng.standard_normal(tuple(shape))
        if dtype.kind == "c":
            x = x + 1j * self.rng.standard_normal(tuple(shape))
        return np.asarray(x).astype(dtype)

    def _operand(self, i: int) -> Array:
        x = self.normal(self.sample.shapes[i])
        match self.sample.domain:
            case "positive":
                return np.asarray(np.abs(x) + 0.5).astype(self.dtype)
            case "positive_definite":
                eye = np.eye(x.shape[-1], dtype=self.dtype)
                return np.asarray(x @ x.conj().mT + x.shape[-1] * eye)
            case "lower_triangular" if i == 0:
                return np.asarray(np.tril(x) + 3 * np.eye(x.shape[-1], dtype=self.dtype))
            case _:
                return x

    def _direction(self, i: int) -> Array:
        x = self.normal(self.sample.shapes[i])
        if self.sample.domain == "positive_definite":
            return np.asarray((x + x.conj().mT) / 2).astype(self.dtype)
        if self.sample.domain == "lower_triangular" and i == 0:
            return np.tril(x)
        return x

    def at(self, step: float) -> list[Array]:
        return [
            np.asarray(x + step * d).astype(self.dtype)
            for x, d in zip(self.operands, self.directions, strict=True)
        ]

    def record(self, operands: Sequence[Array]) -> tuple[Tape, list[Node], tuple[Node, ...]]:
        tape = Tape(ENGINE)
        leaves = [tape.leaf(x, d) for x, d in zip(operands, self.directions, strict=True)]
        return tape, leaves, tape.run(self.call, leaves)


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
    drawn = Drawn(entry, sample, dtype)
    _, _, results = drawn.record(drawn.operands)
    for node, inferred in zip(results, drawn.call.results, strict=True):
        assert node.error is None
        assert (node.value.shape, node.value.dtype) == (inferred.shape, inferred.dtype)
        assert node.requires_grad is (entry.differentiable and inferred.inexact)


@pytest.mark.parametrize(("entry", "sample", "dtype"), DIFFERENTIABLE)
def test_first_and_second_derivatives(entry: Op, sample: Sample, dtype: np.dtype[Any]) -> None:
    """jvp against central differences, Re⟨ct, jvp⟩ = Re⟨vjp, t⟩, H·v against differenced gradients."""
    drawn = Drawn(entry, sample, dtype)
    tape, leaves, results = drawn.record(drawn.operands)
    plus, minus = (drawn.record(drawn.at(s))[2] for s in (drawn.step, -drawn.step))
    cotangents = [drawn.normal(node.aval.shape, node.aval.dtype) for node in results]

    differences = [(p.value - m.value) / (2 * drawn.step) for p, m in zip(plus, minus, strict=True)]
    whole = _weighted(tape, results, cotangents)
    gradients = tape.pullback(whole, wrt=leaves)[0]
    got = [gradients[leaf] for leaf in leaves]
    for leaf, g in zip(leaves, got, strict=True):
        assert (g.shape, g.dtype) == (leaf.aval.shape, leaf.aval.dtype)
    close(dot(got, drawn.directions), dot(cotangents, differences), 10 * drawn.tolerance)

    # The curved loss Σ Re(ct y²) has a Hessian also where the op itself is linear.
    (first, products) = tape.hvp(_curved(tape, results, cotangents), wrt=leaves)[0]
    ahead, behind = (_gradients(drawn, s, cotangents) for s in (drawn.step, -drawn.step))
    for leaf, a, b in zip(leaves, ahead, behind, strict=True):
        close(products[leaf], (a - b) / (2 * drawn.step), 20 * drawn.tolerance)
        assert products[leaf].dtype == leaf.aval.dtype
    for leaf, expected in zip(leaves, _gradients(drawn, 0.0, cotangents), strict=True):
        close(first[leaf], expected, drawn.tolerance)


@pytest.mark.parametrize(("entry", "sample", "dtype"), DIFFERENTIABLE)
def test_the_hessian_is_symmetric(entry: Op, sample: Sample, dtype: np.dtype[Any]) -> None:
    drawn = Drawn(entry, sample, dtype)
    tape, leaves, results = drawn.record(drawn.operands)
    cotangents = [drawn.normal(node.aval.shape, node.aval.dtype) for node in results]
    loss = _curved(tape, results, cotangents)
    u = drawn.directions
    v = [drawn._direction(i) for i in range(len(u))]
    along = [dict(zip(leaves, direction, strict=True)) for direction in (u, v)]
    (_, hu), (_, hv) = tape.hvp(loss, along, wrt=leaves)
    left = dot(v, [hu[leaf] for leaf in leaves])
    right = dot(u, [hv[leaf] for leaf in leaves])
    scale = max(abs(left), 1.0)
    assert abs(left - right) <= (1e-4 if drawn.step > 1e-4 else 1e-10) * scale


def _weighted(tape: Tape, results: Sequence[Node], weights: Sequence[Array]) -> Node:
    """Σ Re(conj(w) y) over all results."""
    return _total(tape, [_term(tape, y, np.conj(w)) for y, w in zip(results, weights, strict=True)])


def _curved(tape: Tape, results: Sequence[Node], weights: Sequence[Array]) -> Node:
    """Σ Re(w y²) over all results."""
    squares = [tape.apply("multiply", [y, y]) for y in results]
    return _total(tape, [_term(tape, y, w) for y, w in zip(squares, weights, strict=True)])


def _term(tape: Tape, y: Node, weight: Array) -> Node:
    weighted = tape.apply("multiply", [y, tape.constant(np.asarray(weight))])
    return tape.apply("sum", [tape.apply("real", [weighted])])  # type: ignore[no-any-return]  # Tape.apply gives Any


def _total(tape: Tape, terms: Sequence[Node]) -> Node:
    total = terms[0]
    for term in terms[1:]:
        total = tape.apply("add", [total, term])
    return total


def _gradients(drawn: Drawn, step: float, cotangents: Sequence[Array]) -> list[Array]:
    tape, leaves, results = drawn.record(drawn.at(step))
    found = tape.pullback(_curved(tape, results, cotangents), wrt=leaves)[0]
    return [found[leaf] for leaf in leaves]
