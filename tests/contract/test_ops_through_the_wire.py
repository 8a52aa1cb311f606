"""Every op of the catalog recorded by a client: what comes back is what the engine computes, bit for bit."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.samples import cases, draw

import backhaul as bh
from backhaul_proto.catalog.ops import Op, Sample
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.rules import RULES
from backhaul_server.engine.tape import Tape

CASES = list(cases(private=False))


# As the workers have it: BLAS's kernels leave flags of what lies beside their arrays, now and then.
@np.errstate(all="ignore")
@pytest.mark.parametrize(("entry", "sample", "dtype"), CASES)
def test_an_op_through_the_wire(
    entry: Op, sample: Sample, dtype: np.dtype[Any], tape: bh.Tape
) -> None:
    drawn = draw(entry, sample, dtype)
    pairs = list(zip(drawn.operands, drawn.directions, strict=True))
    engine = Tape(Engine())
    nodes = [engine.constant(x) if d is None else engine.leaf(x, d) for x, d in pairs]
    expected = engine.apply(entry.name, nodes, **sample.attributes)
    given = [tape.constant(x) if d is None else tape.leaf_with_tangent(x, d) for x, d in pairs]
    got = bh.apply(entry.name, *given, **sample.attributes)
    if not entry.several:
        expected, got = (expected,), (got,)
    for node, tensor in zip(expected, got, strict=True):
        assert (tensor.shape, tensor.dtype) == (node.aval.shape, node.aval.dtype)
        np.testing.assert_array_equal(tensor.numpy(), node.value)
    if not entry.differentiable:
        assert not any(tensor.requires_grad for tensor in got)
        return
    if not any(tensor.requires_grad for tensor in got):
        return
    node, tensor = next(each for each in zip(expected, got, strict=True) if each[1].requires_grad)
    leaves, nodes = [x for x in given if x.requires_grad], [x for x in nodes if x.requires_grad]
    squares = engine.apply("multiply", [node, engine.apply("conj", [node])])  # phases cancel
    loss = engine.apply("sum", [engine.apply("real", [squares])])
    loss_here = bh.sum(bh.real(tensor * bh.conj(tensor)))
    (gradients,) = engine.pullback(loss, wrt=nodes)
    again = tape.pullback(loss_here, wrt=leaves)
    for leaf, each in zip(leaves, nodes, strict=True):
        np.testing.assert_array_equal(again[leaf], gradients[each])
    if RULES[entry.name].jvp is None:
        with pytest.raises(bh.HvpNotSupported, match=entry.name):
            tape.hvp(loss_here, wrt=leaves)
        return
    result = tape.hvp(loss_here, wrt=leaves)
    ((first, products),) = engine.hvp(loss, wrt=nodes)
    for leaf, each in zip(leaves, nodes, strict=True):
        np.testing.assert_array_equal(result.gradients[leaf], first[each])
        np.testing.assert_array_equal(result.hvp[leaf], products[each])
