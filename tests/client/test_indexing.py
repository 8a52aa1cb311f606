"""Indexing of tensors: NumPy's meaning, its gradient, and what is refused where the user stands."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backhaul as bh

RNG = np.random.default_rng(20)
X = RNG.standard_normal((4, 3, 5))
MASK = X[..., 0] > 0
INDICES: list[Any] = [
    0,
    -1,
    (1, 2),
    np.int64(2),
    np.array(3),
    (),
    ...,
    None,
    slice(1, 3),
    slice(None, None, -1),
    slice(3, 0, -2),
    slice(0, 0),
    slice(np.int64(1), 10**30),
    (..., 0),
    (0, ..., 1),
    (None, 0, None),
    (slice(2), None, slice(None, None, 2)),
    [0, 2, 2],
    [],
    np.zeros((2, 0), int),
    np.array([[0, 1], [3, 3]]),
    np.array([1, -2], np.int8),
    np.array([1, 2], np.uint64),
    range(2),
    (slice(None), [0, 2]),
    ([0, 1], slice(None), [1, 2]),
    (0, slice(None), [1, 2]),
    (slice(None), 0, [1, 2]),
    (0, None, [1, 1]),
    (None, [1, 1]),
    ([1, 1], None, None, [0, 1]),
    (slice(None), [0, 1], [[1], [2]]),
    (slice(None), [0], ..., [1]),
    (slice(None), [0], [1], ...),
    (np.array(0), slice(None), np.array(1)),
    np.ix_([0, 2], [1, 0], [3]),
    MASK,
    (MASK, 0),
    (MASK, None, slice(2)),
    (slice(None), MASK[0]),
    (..., X[0, 0] > 0),
    (X[:, 0, 0] > -9, [0, 2, 1, 1]),
    [True, False, True, False],
    np.zeros(X.shape, bool),
]


@pytest.mark.parametrize("index", INDICES, ids=repr)
def test_values_gradients_and_their_derivatives_are_numpys(index: Any) -> None:
    tape = bh.Tape()
    direction = RNG.standard_normal(X.shape)
    x = tape.leaf_with_tangent(X, direction)
    expected = X[index]
    picked = x[index]
    assert (picked.shape, picked.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_array_equal(picked.numpy(), expected)

    ct = RNG.standard_normal(expected.shape)
    gradient = np.zeros_like(X)
    np.add.at(gradient, index, ct)
    np.testing.assert_allclose(tape.pullback(picked, cotangent=ct)[x], gradient, atol=1e-14)

    # Σ ct y³ has the gradient 3 ct y² and, along d, its derivative 6 ct y d, at the elements picked.
    result = tape.hvp(bh.sum(picked * picked * picked * ct))
    products = np.zeros_like(X)
    np.add.at(products, index, 6 * ct * expected * direction[index])
    np.testing.assert_allclose(result.hvp[x], products, rtol=1e-12, atol=1e-12)

    added = X.copy()
    np.add.at(added, index, ct)
    np.testing.assert_allclose(bh.scatter_add(x, index, ct).numpy(), added, atol=1e-14)


def test_a_tensor_of_integers_is_an_operand(tape: bh.Tape) -> None:
    x = tape.leaf(X)
    where = tape.constant(np.array([1, -1, 1]))
    picked = x[:, where]
    np.testing.assert_array_equal(picked.numpy(), X[:, [1, -1, 1]])
    expected: Any = np.zeros_like(X)
    np.add.at(expected.transpose(1, 0, 2), [1, -1, 1], 1.0)
    np.testing.assert_array_equal(tape.pullback(bh.sum(picked))[x], expected)


def test_values_of_an_index_tensor_are_checked_by_the_server(tape: bh.Tape) -> None:
    x = tape.leaf(X)
    picked = x[tape.constant(np.array([0, 4]))]
    with pytest.raises(bh.IndexOutOfRange, match=r"index 4 .*test_indexing\.py") as error:
        picked.numpy()
    assert error.value.reason == "INDEX_OUT_OF_RANGE"
    with pytest.raises(bh.IndexOutOfRange):
        bh.scatter_add(x, tape.constant(np.array([-5])), 1.0).numpy()
    np.testing.assert_array_equal(x[0].numpy(), X[0])


def test_a_mask_on_the_server_costs_one_trip(connection: bh.Connection) -> None:
    value = RNG.random(70_000) > 0.5  # too large to be kept here
    numbers = RNG.standard_normal(value.size)
    with bh.Tape(connection) as tape:
        x = tape.leaf(numbers)
        mask = tape.constant(value)
        before = connection.calls.total()
        picked = x[mask]
        assert connection.calls.total() == before + 1
        np.testing.assert_array_equal(picked.numpy(), numbers[value])


REFUSED: list[tuple[Any, str]] = [
    (4, "INDEX_OUT_OF_RANGE"),
    ((0, -4), "INDEX_OUT_OF_RANGE"),
    ((0, 0, 0, 0), "INDEX_OUT_OF_RANGE"),
    ([0, 4], "INDEX_OUT_OF_RANGE"),
    ((..., np.array([-6])), "INDEX_OUT_OF_RANGE"),
    ((..., ...), "INVALID_ATTRIBUTE"),
    (slice(None, None, 0), "INVALID_ATTRIBUTE"),
    (slice(1.5), "INVALID_ATTRIBUTE"),
    (1.0, "DTYPE_NOT_SUPPORTED"),
    ([0.0, 1.0], "DTYPE_NOT_SUPPORTED"),
    ("a", "DTYPE_NOT_SUPPORTED"),
    (True, "INVALID_VALUE"),
    (np.array(False), "INVALID_VALUE"),
    (MASK.T, "SHAPE_MISMATCH"),
    ([True], "SHAPE_MISMATCH"),
    (([0, 1], [0, 1, 2]), "SHAPE_MISMATCH"),
]


@pytest.mark.parametrize(("index", "reason"), REFUSED, ids=repr)
def test_an_index_that_cannot_be_is_refused_at_the_call(index: Any, reason: str) -> None:
    x = bh.Tape().leaf(X)
    with pytest.raises(bh.InvalidArgument) as error:
        x[index]
    assert error.value.reason == reason
    assert isinstance(error.value, IndexError) is (reason == "INDEX_OUT_OF_RANGE")


def test_tensors_that_are_no_index_are_refused() -> None:
    x = bh.Tape().leaf(X)
    with pytest.raises(bh.InvalidArgument, match="tensor of float64"):
        x[x]
    with pytest.raises(bh.InvalidArgument, match="stack"):
        x[[x, x]]
    with pytest.raises(TypeError):
        x[0] = 1.0  # type: ignore[index]  # that is the test


def test_a_tensor_is_a_sequence_that_ends() -> None:
    x = bh.Tape().leaf(X)
    assert len(x) == 4
    rows = list(reversed(x))
    assert [row.shape for row in rows] == [(3, 5)] * 4
    np.testing.assert_array_equal(rows[0].numpy(), X[3])


def test_complex_and_single_elements() -> None:
    value = np.array([1 + 2j, 3 - 1j], np.complex64)
    tape = bh.Tape()
    x = tape.leaf(value)
    picked = x[1]
    assert (picked.shape, picked.dtype) == ((), value.dtype)
    assert complex(picked) == 3 - 1j
    ct = np.array(2 + 1j, np.complex64)
    np.testing.assert_array_equal(tape.pullback(picked, cotangent=ct)[x], [0, 2 + 1j])


@pytest.mark.parametrize("axis", [None, 0, -1])
@pytest.mark.parametrize("indices", [1, [0, 2, 2], np.array([[2], [-1]]), []])
def test_take(indices: Any, axis: int | None) -> None:
    x = bh.Tape().leaf(X)
    wanted = np.asarray(indices, int)
    np.testing.assert_array_equal(bh.take(x, indices, axis).numpy(), np.take(X, wanted, axis))
    np.testing.assert_array_equal(x.take(indices, axis).numpy(), np.take(X, wanted, axis))


@pytest.mark.parametrize("mode", ["wrap", "clip"])
def test_take_beyond_the_axis(mode: Any) -> None:
    x: Any = bh.Tape().leaf(X)
    indices = [-7, 1, 9]
    expected = np.take(X, indices, 1, mode=mode)
    taken: Any = np.take(x, indices, 1, mode=mode)
    np.testing.assert_array_equal(taken.numpy(), expected)
    with pytest.raises(bh.IndexOutOfRange):
        bh.take(x, indices, 1)


def test_what_take_refuses() -> None:
    tape = bh.Tape()
    x = tape.leaf(X)
    where = tape.constant(np.array([0]))
    for indices, mode, reason in (
        (0.5, "raise", "DTYPE_NOT_SUPPORTED"),
        ([True], "raise", "DTYPE_NOT_SUPPORTED"),
        (x, "raise", "DTYPE_NOT_SUPPORTED"),
        ([0], "bounce", "INVALID_ATTRIBUTE"),
        (where, "clip", "INVALID_ATTRIBUTE"),
    ):
        with pytest.raises(bh.InvalidArgument) as error:
            bh.take(x, indices, 0, mode)  # type: ignore[arg-type]  # no such mode
        assert error.value.reason == reason


@pytest.mark.parametrize("axis", [0, 1, -1])
def test_take_along_axis(axis: int) -> None:
    tape = bh.Tape()
    x: Any = tape.leaf(X)
    order = np.argsort(X, axis)
    picked = bh.take_along_axis(x, order, axis)
    np.testing.assert_array_equal(picked.numpy(), np.sort(X, axis))
    weights = RNG.standard_normal(X.shape)
    expected = np.empty_like(X)
    np.put_along_axis(expected, order, weights, axis)
    np.testing.assert_array_equal(tape.pullback(bh.sum(picked * weights))[x], expected)
    best: Any = tape.constant(np.argmax(X, axis, keepdims=True))
    kept: Any = np.take_along_axis(x, best, axis)
    np.testing.assert_array_equal(kept.numpy(), np.max(X, axis, keepdims=True))
    with pytest.raises(bh.InvalidArgument, match="equally many axes"):
        bh.take_along_axis(x, [0, 1], axis)


def test_take_along_the_axis_of_a_flat_array() -> None:
    picked = bh.take_along_axis(bh.Tape().leaf(X), np.array([59, 0]), None)
    np.testing.assert_array_equal(picked.numpy(), X.ravel()[[59, 0]])


def test_scatter_add_of_tensors(tape: bh.Tape) -> None:
    """Both operands have gradients; the updates broadcast, and repeated places add up."""
    base, new = RNG.standard_normal((3, 2)), RNG.standard_normal(2)
    x, u = tape.leaf(base), tape.leaf(new)
    result = bh.scatter_add(x, [0, 2, 2], u)
    expected = base + np.outer([1, 0, 2], new)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-15)
    gradients = tape.pullback(bh.sum(result * result))
    np.testing.assert_allclose(gradients[x], 2 * expected, rtol=1e-14)
    np.testing.assert_allclose(gradients[u], 2 * expected[[0, 2, 2]].sum(0), rtol=1e-14)
    only_updates = bh.scatter_add(np.zeros(3), np.array([True, False, True]), u)
    np.testing.assert_array_equal(only_updates.numpy(), [new[0], 0, new[1]])
    with pytest.raises(bh.InvalidArgument, match="broadcast"):
        bh.scatter_add(x, 0, np.ones(3))
