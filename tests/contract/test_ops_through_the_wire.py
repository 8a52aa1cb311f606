"""Every op of the catalog recorded by a client: what comes back is what the engine computes, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backhaul as bh
from backhaul_proto.catalog.avals import INEXACT
from backhaul_proto.catalog.ops import CATALOG, Op, Sample
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
CASES = [
    pytest.param(entry, sample, dtype, id=f"{entry.name}-{i}-{dtype}")
    for entry in CATALOG.values()
    if not entry.private
    for i, sample in enumerate(entry.samples)
    for dtype in INEXACT
]


def _operands(sample: Sample, dtype: np.dtype[Any]) -> list[Array]:
    rng = np.random.default_rng(11)
    drawn = []
    for shape in sample.shapes:
        x = rng.standard_normal(shape) + (
            1j * rng.standard_normal(shape) if dtype.kind == "c" else 0
        )
        x = np.asarray(x).astype(dtype)
        if sample.domain == "positive_definite":
            x = x @ x.conj().mT + 3 * np.eye(shape[-1], dtype=dtype)
        drawn.append(x)
    return drawn


@pytest.mark.parametrize(("entry", "sample", "dtype"), CASES)
def test_an_op_through_the_wire(
    entry: Op, sample: Sample, dtype: np.dtype[Any], tape: bh.Tape
) -> None:
    operands = _operands(sample, dtype)
    engine = Tape(Engine())
    nodes = [engine.leaf(x, x) for x in operands]
    expected = engine.apply(entry.name, nodes, **sample.attributes)
    leaves = [tape.leaf_with_tangent(x, x) for x in operands]
    got = bh.apply(entry.name, *leaves, **sample.attributes)
    if not entry.several:
        expected, got = (expected,), (got,)
    for node, tensor in zip(expected, got, strict=True):
        assert (tensor.shape, tensor.dtype) == (node.aval.shape, node.aval.dtype)
        np.testing.assert_array_equal(tensor.numpy(), node.value)
    if not entry.differentiable:
        assert not any(tensor.requires_grad for tensor in got)
        return
    node, tensor = expected[0], got[0]
    loss = engine.apply("sum", [engine.apply("real", [engine.apply("multiply", [node, node])])])
    loss_here = bh.sum(bh.real(tensor * tensor))
    result = tape.hvp(loss_here, wrt=leaves)
    ((gradients, products),) = engine.hvp(loss, wrt=nodes)
    again = tape.pullback(loss_here, wrt=leaves)
    for leaf, each in zip(leaves, nodes, strict=True):
        np.testing.assert_array_equal(result.gradients[leaf], gradients[each])
        np.testing.assert_array_equal(again[leaf], gradients[each])
        np.testing.assert_array_equal(result.hvp[leaf], products[each])
