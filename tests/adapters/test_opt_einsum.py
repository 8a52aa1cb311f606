"""opt_einsum contracts tensors, on its own test expressions."""

from __future__ import annotations

from typing import Any

import numpy as np
import opt_einsum as oe
import pytest
from numpy.testing import assert_allclose
from opt_einsum.testing import build_shapes
from opt_einsum.tests import test_backends, test_contract
from tests.adapters.counting import counted

import backhaul as bh

_contract: Any = oe.contract  # its types know the backends that it names
_EXPRESSIONS = list(dict.fromkeys([*test_contract.tests, *test_backends.tests]))

Array = np.ndarray[Any, Any]


def _operands(expression: str) -> list[Array]:
    rng = np.random.default_rng(len(expression))
    sizes = {label: 2 + i % 3 for i, label in enumerate(sorted(set(expression) - set(",->")))}
    return [rng.standard_normal(shape) for shape in build_shapes(expression, sizes)]


def test_there_are_expressions() -> None:
    assert len(_EXPRESSIONS) > 70


@pytest.mark.parametrize("expression", _EXPRESSIONS)
def test_its_own_expressions(tape: bh.Tape, expression: str) -> None:
    arrays = _operands(expression)
    leaves = [tape.leaf(each) for each in arrays]
    found = _contract(expression, *leaves, backend="backhaul")
    assert isinstance(found, bh.TrackedTensor)
    expected = np.einsum(expression, *arrays)
    assert_allclose(found.numpy(), expected, rtol=1e-9, atol=1e-11)
    # It is multilinear: the gradient by an operand, at that operand, is the value again.
    ct = np.random.default_rng(0).standard_normal(expected.shape)
    grads = tape.pullback(found, cotangent=ct)
    for leaf, array in zip(leaves, arrays, strict=True):
        assert_allclose(np.sum(grads[leaf] * array), np.sum(ct * expected), rtol=1e-8, atol=1e-9)


def test_the_backend_is_found_from_the_tensors(tape: bh.Tape) -> None:
    a, b, c = (np.random.default_rng(i).standard_normal((3, 3)) for i in range(3))
    for place in range(3):
        operands: list[Any] = [a, b, c]
        leaf = operands[place] = tape.leaf(operands[place])
        found = _contract("ij,jk,kl->il", *operands, optimize=[(0, 1), (0, 1)])
        assert_allclose(found.numpy(), a @ b @ c)
        assert tape.pullback(found, cotangent=np.ones((3, 3)))[leaf].shape == (3, 3)


def test_expressions_with_constants_and_one_round_trip(
    connection: bh.Connection, tape: bh.Tape
) -> None:
    a, b, c = (np.random.default_rng(i).standard_normal((3, 3)) for i in range(3))
    expression = oe.contract_expression("ij,jk,kl->", (3, 3), b, (3, 3), constants=[1])
    x, y = tape.leaf(a), tape.leaf(c)
    with counted(connection) as trips:
        grads = tape.pullback(expression(x, y))
    assert trips.count == 1
    assert_allclose(grads[x], np.outer(np.ones(3), (b @ c).sum(1)))
    assert_allclose(grads.value, (a @ b @ c).sum())


def test_shared_intermediates(tape: bh.Tape) -> None:
    a, b, c = (tape.leaf(np.random.default_rng(i).standard_normal((3, 3))) for i in range(3))
    with oe.shared_intermediates():
        one = _contract("ij,jk,kl->il", a, b, c)
        other = _contract("ij,jk,kl->li", a, b, c)
    assert_allclose(one.numpy(), other.numpy().T)
