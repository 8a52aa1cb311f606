"""Gauss-Newton products: H·v with nodes that are taken as linear."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.samples import cases
from tests.server.engine.points import Point, curved, inexact

from backhaul_proto.catalog.ops import Op, Sample
from backhaul_proto.errors import MissingNode
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.rules import RULES
from backhaul_server.engine.tape import Tape

W = np.array([0.3, -0.7, 1.1])
V = np.array([1.0, -2.0, 0.5])
A = np.random.default_rng(0).normal(size=(4, 3))


@pytest.fixture
def tape() -> Tape:
    return Tape(Engine())


def model(tape: Tape, w: Node) -> Node:
    """Outputs tanh(A w²)."""
    inner = tape.apply("matmul", [tape.constant(A), tape.apply("multiply", [w, w])])
    result: Node = tape.apply("tanh", [inner])
    return result


def loss_of(tape: Tape, y: Node) -> Node:
    """Sum of exp(y) y."""
    product = tape.apply("multiply", [tape.apply("exp", [y]), y])
    result: Node = tape.apply("sum", [product])
    return result


def jacobian(w: Any) -> Any:
    y = np.tanh(A @ w**2)
    return (1 - y**2)[:, None] * A * (2 * w)


def curvature(y: Any) -> Any:
    """Second derivative of exp(y) y."""
    return np.exp(y) * (y + 2)


def test_a_product_through_linear_outputs_is_the_gauss_newton_product(tape: Tape) -> None:
    w = tape.leaf(W)
    y = model(tape, w)
    loss = loss_of(tape, y)
    ((gradients, products),) = tape.hvp(loss, [{w: V}], None, [y])
    J = jacobian(W)
    np.testing.assert_allclose(products[w], J.T @ (curvature(y.value) * (J @ V)), rtol=1e-12)
    np.testing.assert_array_equal(gradients[w], tape.pullback(loss)[0][w])
    ((_, whole),) = tape.hvp(loss, [{w: V}])
    assert np.abs(whole[w] - products[w]).max() > 0.1


def test_what_passes_the_outputs_by_keeps_its_own_second_derivatives(tape: Tape) -> None:
    w = tape.leaf(W)
    y = model(tape, w)
    cubes = tape.apply("multiply", [w, tape.apply("multiply", [w, w])])
    loss = tape.apply("add", [loss_of(tape, y), tape.apply("sum", [cubes])])
    ((_, products),) = tape.hvp(loss, [{w: V}], None, [y])
    J = jacobian(W)
    expected = J.T @ (curvature(y.value) * (J @ V)) + 6 * W * V
    np.testing.assert_allclose(products[w], expected, rtol=1e-12)


def test_several_outputs_and_directions(tape: Tape) -> None:
    w, u = tape.leaf(W), tape.leaf(np.array(2.0))
    y, z = model(tape, w), tape.apply("exp", [u])
    loss = loss_of(tape, tape.apply("multiply", [y, z]))
    found = tape.hvp(loss, [{w: V}, {u: np.array(1.0)}], [u, w], [y, z])
    J, e = jacobian(W), np.exp(2.0)
    H = e**2 * curvature(e * y.value)
    np.testing.assert_allclose(found[0][1][w], J.T @ (H * (J @ V)), rtol=1e-12)
    second = np.sum(y.value**2 * curvature(e * y.value)) * e * e
    np.testing.assert_allclose(found[1][1][u], second, rtol=1e-12)
    # Symmetry: what u moves of w is what w moves of u.
    np.testing.assert_allclose(found[1][1][w] @ V, found[0][1][u], rtol=1e-10)


def test_several_results_of_one_op_may_be_linear(tape: Tape) -> None:
    matrix = tape.leaf(np.array([[2.0, 0.3], [0.3, 1.0]]))
    values, _ = tape.apply("linalg.eigh", [matrix])
    loss = tape.apply("sum", [tape.apply("multiply", [values, values])])
    v = np.array([[0.5, 0.2], [0.2, -0.4]])
    ((_, products),) = tape.hvp(loss, [{matrix: v}], None, [values])
    _, Q = np.linalg.eigh(matrix.value)
    expected = Q @ np.diag(2 * np.diag(Q.T @ v @ Q)) @ Q.T
    np.testing.assert_allclose(products[matrix], expected, rtol=1e-10)


def test_a_linear_leaf_changes_nothing(tape: Tape) -> None:
    w = tape.leaf(W)
    loss = loss_of(tape, model(tape, w))
    ((_, whole),) = tape.hvp(loss, [{w: V}])
    ((_, products),) = tape.hvp(loss, [{w: V}], None, [w])
    np.testing.assert_array_equal(products[w], whole[w])


def test_a_linear_node_requires_a_gradient(tape: Tape) -> None:
    w = tape.leaf(W)
    with pytest.raises(MissingNode, match="node of linear"):
        tape.hvp(loss_of(tape, model(tape, w)), [{w: V}], None, [tape.constant(W)])


ENGINE = Engine()
DOUBLE = [
    each
    for each in cases(differentiable=True)
    if each.values[2].name in ("float64", "complex128")
    and RULES[each.values[0].name].jvp is not None
]


@pytest.mark.parametrize(("entry", "sample", "dtype"), DOUBLE)
def test_every_op_may_be_below_the_outputs(entry: Op, sample: Sample, dtype: np.dtype[Any]) -> None:
    point = Point(ENGINE, entry, sample, dtype)
    tape, leaves, results = point.record()
    outputs = [y for y in inexact(results) if y.requires_grad]
    weights = point.cotangents(outputs)
    loss = curved(tape, outputs, weights)
    ((_, products),) = tape.hvp(loss, wrt=leaves, linear=outputs)
    expected = {leaf: np.zeros(leaf.aval.shape, leaf.aval.dtype) for leaf in leaves}
    for y, weight in zip(outputs, weights, strict=True):
        (along,) = tape.pushforward(y)
        # The loss has Re(w y^2), so its Hessian takes a tangent t to 2 conj(w t).
        ct = np.asarray(2 * np.conj(weight * along), y.aval.dtype)
        (pulled,) = tape.pullback(y, [ct], leaves)
        for leaf in leaves:
            expected[leaf] = expected[leaf] + pulled[leaf]
    for leaf in leaves:
        scale = max(1.0, np.abs(expected[leaf]).max(initial=0.0))
        np.testing.assert_allclose(products[leaf], expected[leaf], rtol=1e-8, atol=1e-9 * scale)
