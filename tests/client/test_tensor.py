"""A tensor behaves as an array does, on the tape."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.client.flaky import flaky

import backhaul as bh

Array = np.ndarray[Any, Any]
VALUES = np.arange(1.0, 7.0).reshape(2, 3)


@pytest.fixture
def x() -> bh.TrackedTensor:
    return bh.Tape().leaf(VALUES)


def test_what_is_known_without_asking() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf_with_tangent(VALUES.astype("c8"), VALUES.astype("c8"))
        assert (x.shape, x.dtype, x.ndim, x.size, x.nbytes) == ((2, 3), np.dtype("c8"), 2, 6, 48)
        assert (x.node_id, x.requires_grad, x.has_tangent) == (1, True, True)
        assert x.tape is tape
        assert len(x) == 2
        assert transport.calls.total() == 0


def test_operators_in_both_orders(x: bh.TrackedTensor) -> None:
    right: Any
    for right in (2.0, VALUES, VALUES.tolist(), np.float64(2), x):
        value = VALUES if right is x else np.asarray(right)
        results = {
            "+": (x + right, right + x, VALUES + value),
            "*": (x * right, right * x, VALUES * value),
        }
        for name, (forward, backward, expected) in results.items():
            assert isinstance(backward, bh.TrackedTensor), name
            np.testing.assert_array_equal(forward.numpy(), expected)
            np.testing.assert_array_equal(backward.numpy(), expected)
        np.testing.assert_array_equal((x - right).numpy(), VALUES - value)
        np.testing.assert_array_equal((right - x).numpy(), value - VALUES)
    np.testing.assert_array_equal((-x).numpy(), -VALUES)
    np.testing.assert_array_equal((x @ VALUES.T).numpy(), VALUES @ VALUES.T)
    product: Any = VALUES.T @ x
    np.testing.assert_array_equal(product.numpy(), VALUES.T @ VALUES)


def test_a_gradient_flows_through_either_order() -> None:
    tape = bh.Tape()
    x = tape.leaf([1.0, 2.0])
    weights: Any = np.array([3.0, 4.0])
    for loss in (
        x @ weights,
        weights @ x,
        bh.sum(weights * x),
        bh.sum(np.float64(1) * x * weights),
    ):
        assert tape.pullback(loss)[x].tolist() == [3.0, 4.0]


def test_methods(x: bh.TrackedTensor) -> None:
    assert x.sum().numpy() == 21.0
    assert x.sum(axis=0).numpy().tolist() == [5.0, 7.0, 9.0]
    assert x.sum(1, keepdims=True).shape == (2, 1)
    np.testing.assert_array_equal(x.dot(VALUES.T).numpy(), VALUES @ VALUES.T)
    assert x.reshape(3, 2).shape == x.reshape((3, 2)).shape == x.reshape(3, -1).shape == (3, 2)
    assert x.reshape(-1).shape == x.reshape([6]).shape == (6,)
    assert x.astype("c16").dtype == np.dtype("c16")
    z = x * (1 + 2j)
    np.testing.assert_array_equal(z.conj().numpy(), VALUES * (1 - 2j))
    np.testing.assert_array_equal(z.real.numpy(), VALUES)
    np.testing.assert_array_equal(z.imag.numpy(), VALUES * 2)
    np.testing.assert_array_equal(x.T.numpy(), VALUES.T)
    assert x.reshape(1, 2, 3).T.shape == (3, 2, 1)
    assert x.sum().T.shape == ()
    detached = x.detach()
    assert (detached.node_id, detached.requires_grad) == (None, False)
    np.testing.assert_array_equal(detached.numpy(), VALUES)


def test_iteration_gives_the_parts_along_the_first_axis(x: bh.TrackedTensor) -> None:
    first, second = x
    assert first.numpy().tolist() == [1.0, 2.0, 3.0]
    assert second.numpy().tolist() == [4.0, 5.0, 6.0]
    assert [float(each) for each in first] == [1.0, 2.0, 3.0]
    for use in (iter, len):
        with pytest.raises(TypeError, match="0-d"):
            use(x.sum())


def test_a_single_element_is_a_python_number() -> None:
    tape = bh.Tape()
    for shape in ((), (1,), (1, 1)):
        x = tape.leaf(np.full(shape, 2.5))
        assert (float(x), complex(x), int(x), bool(x), x.item()) == (2.5, 2.5 + 0j, 2, True, 2.5)
    assert not tape.leaf(0.0)
    assert complex(tape.leaf(1j)) == 1j
    assert f"{tape.leaf(2.0) * 1.5:.2f}" == "3.00"
    for use in (float, complex, int, bool):
        with pytest.raises(bh.InvalidArgument, match="single number"):
            use(tape.leaf([1.0, 2.0]))
    with pytest.raises(TypeError):
        float(tape.leaf(1j))


OPERATORS: list[Callable[[Any, Any], Any]] = [
    operator.truediv,
    operator.floordiv,
    operator.mod,
    operator.pow,
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


@pytest.mark.parametrize("apply", OPERATORS)
def test_operators_that_do_not_commute(
    x: bh.TrackedTensor, apply: Callable[[Any, Any], Any]
) -> None:
    right: Any
    for right in (
        2.0,
        3,
        np.full(3, 2.0),
        [[2.0], [3.0]],
        np.float64(3),
        x.tape.constant(VALUES - 2.5),
    ):
        value = right.numpy() if isinstance(right, bh.TrackedTensor) else np.asarray(right, float)
        for result, expected in (
            (apply(x, right), apply(VALUES, value)),
            (apply(right, x), apply(value, VALUES)),
        ):
            assert isinstance(result, bh.TrackedTensor)
            assert result.dtype == expected.dtype
            np.testing.assert_array_equal(result.numpy(), expected)


def test_operators_of_one_tensor(x: bh.TrackedTensor) -> None:
    y = x - 3.0
    np.testing.assert_array_equal(abs(y).numpy(), abs(VALUES - 3))
    np.testing.assert_array_equal((+y).numpy(), VALUES - 3)
    np.testing.assert_array_equal((~(y > 0)).numpy(), VALUES <= 3)
    np.testing.assert_array_equal(y.clip(-1, 1).numpy(), (VALUES - 3).clip(-1, 1))
    np.testing.assert_array_equal((y / 8).round(1).numpy(), ((VALUES - 3) / 8).round(1))


def test_logic_of_bools_and_bits_of_integers() -> None:
    tape = bh.Tape()
    for left, right in (([True, True, False], [True, False, False]), ([6, 5, -1], [3, 8, 1])):
        p, q = np.array(left), np.array(right)
        t = tape.constant(p)
        for apply in (operator.and_, operator.or_, operator.xor):
            for result in (apply(t, q), apply(p, tape.constant(q)), apply(t, tape.constant(q))):
                assert isinstance(result, bh.TrackedTensor)
                assert result.dtype == p.dtype
                np.testing.assert_array_equal(result.numpy(), apply(p, q))
    with pytest.raises(bh.InvalidArgument) as error:
        tape.leaf(1.0) & True
    assert error.value.reason == "DTYPE_NOT_SUPPORTED"


def test_a_power_is_recorded_as_what_it_is() -> None:
    tape = bh.Tape()
    x = tape.leaf(np.array([-2.0, 4.0], "f4"))
    for exponent in (2, 2.0, -1, 0, 1, 3, 3.0, True):
        y = x**exponent
        assert y.dtype == np.dtype("f4")
        np.testing.assert_array_equal(y.numpy(), np.array([-2.0, 4.0], "f4") ** int(exponent))
    assert (x**0.5).numpy()[1] == 2.0
    assert (tape.constant(np.array([3])) ** 2).dtype == np.dtype("i8")
    grads = tape.pullback(bh.sum(2.0**x + x**2))
    np.testing.assert_allclose(grads[x], 2.0 ** np.array([-2, 4]) * np.log(2) + [-4, 8], rtol=1e-6)


def test_equality_is_of_elements_and_the_hash_of_the_tensor(x: bh.TrackedTensor) -> None:
    y = x.tape.leaf(VALUES)
    assert (x == y).numpy().all()
    assert not (x != y).numpy().any()
    assert (x == y).requires_grad is False
    assert len({x, y, x}) == 2
    assert {x: 1, y: 2}[y] == 2
    for other in (None, "x", object()):
        assert not x == other  # noqa: SIM201  # == itself is asked
        assert x != other
    assert x in [x, y]  # the first is it
    with pytest.raises(bh.InvalidArgument, match="each is tensor"):
        assert y in [x, y]
    with pytest.raises(bh.InvalidArgument, match="broadcast"):
        assert x == np.ones(2)


def test_it_becomes_an_array_only_when_asked(x: bh.TrackedTensor) -> None:
    np.testing.assert_array_equal(np.asarray(x), VALUES)
    assert np.asarray(x, np.float32).dtype == np.dtype("f4")
    own = np.array(x)
    own[:] = 0
    np.testing.assert_array_equal(x.numpy(), VALUES)
    with pytest.raises(ValueError, match="copy"):
        np.array(x, copy=False)


def test_repr_makes_no_call_and_never_raises() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        y = x * x
        assert repr(y) == "TrackedTensor(shape=(), dtype=float64, node_id=2)"
        assert "value=2." in repr(x)
        assert "constant" in repr(tape.constant(1.0))
        assert transport.calls.total() == 0
        float(y)
        assert "value=4." in repr(y)
        big = tape.leaf(np.zeros(1000))
        assert len(repr(big)) < 200
        tape.close()
        assert "tape closed" in repr(y)
    half: Any = bh.TrackedTensor.__new__(bh.TrackedTensor)
    assert "TrackedTensor" in repr(half)
