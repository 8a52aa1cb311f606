"""NumPy's functions and methods over and along axes, on tensors: NumPy's arguments and NumPy's answers."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backhaul as bh

X = np.array([[3.0, -1.0, 2.5], [0.5, 4.0, -2.0]])
WEIGHTS = np.array([0.2, 0.5, 0.3])
Use = Callable[[Any], Any]

WITH_GRADIENT: list[Use] = [
    lambda x: np.mean(x),
    lambda x: np.mean(x, axis=0),
    lambda x: np.mean(x, 1, keepdims=True),
    lambda x: np.prod(x, axis=(0, 1)),
    lambda x: np.max(x, axis=-1),
    lambda x: np.amax(x, 0),
    lambda x: np.min(x),
    lambda x: np.amin(x, axis=(1,), keepdims=True),
    lambda x: np.var(x, axis=1, ddof=1),
    lambda x: np.var(x, axis=1, correction=1),
    lambda x: np.std(x, keepdims=True),
    lambda x: np.std(x, 0, ddof=1),
    lambda x: np.median(x, axis=1),
    lambda x: np.ptp(x, axis=0),
    lambda x: np.average(x),
    lambda x: np.average(x, axis=1, weights=WEIGHTS),
    lambda x: np.average(x, axis=-1, weights=WEIGHTS, keepdims=True),
    lambda x: np.average(x, weights=X + 3),
    lambda x: np.average(X, axis=0, weights=x),
    lambda x: np.quantile(x, 0.3),
    lambda x: np.quantile(x, [0.0, 0.25, 1.0], axis=1, method="linear"),
    lambda x: np.percentile(x, 40, axis=0, keepdims=True),
    lambda x: np.cumsum(x),
    lambda x: np.cumsum(x, axis=1),
    lambda x: np.cumprod(x, 0),
    lambda x: np.cumprod(x),
    lambda x: np.cumulative_sum(x, axis=0),
    lambda x: np.sort(x),
    lambda x: np.sort(x, axis=0, kind="stable"),
    lambda x: np.sort(x, axis=None, stable=True),
    lambda x: np.diff(x),
    lambda x: np.diff(x, n=2, axis=1),
    lambda x: np.diff(x, 1, 0),
    lambda x: np.diff(x, prepend=0.0),
    lambda x: np.diff(x, axis=0, prepend=X[:1], append=5.0),
    lambda x: np.diff(X, append=x),
    lambda x: np.trapezoid(x),
    lambda x: np.trapezoid(x, dx=0.5, axis=0),
    lambda x: np.trapezoid(x, [0.0, 1.0, 3.0]),
    lambda x: np.trapezoid(x, np.array([2.0, 3.5]), axis=0),
    lambda x: np.trapezoid(X, x, axis=1),
    lambda x: np.trapezoid(X[0], x[1]),
    lambda x: np.linalg.norm(x),
    lambda x: np.linalg.norm(x, 2),
    lambda x: np.linalg.norm(x, -2, axis=(1, 0)),
    lambda x: np.linalg.norm(x, "nuc", (0, 1), keepdims=True),
    lambda x: np.linalg.norm(x, axis=0),
    lambda x: np.linalg.norm(x, 1, axis=1, keepdims=True),
    lambda x: np.linalg.norm(x, np.inf),
    lambda x: np.linalg.norm(x, "fro", axis=(1, 0)),
    lambda x: np.linalg.norm(x, -1, (0, 1), True),
    lambda x: np.linalg.norm(x, ord=-np.inf, axis=(1, 0)),
    lambda x: np.linalg.vector_norm(x, axis=1, ord=3),
    lambda x: np.linalg.matrix_norm(x, ord=1, keepdims=True),
    lambda x: np.linalg.matrix_norm(x),
    lambda x: x.mean(0),
    lambda x: x.prod(axis=1),
    lambda x: x.max(),
    lambda x: x.min(axis=0, keepdims=True),
    lambda x: x.std(ddof=1),
    lambda x: x.var(axis=1),
    lambda x: x.cumsum(axis=0),
    lambda x: x.cumprod(),
]


@pytest.mark.parametrize("use", WITH_GRADIENT)
def test_with_a_gradient(use: Use) -> None:
    result = use(bh.Tape().leaf(X))
    assert isinstance(result, bh.TrackedTensor)
    assert result.requires_grad
    expected = use(X)
    assert result.shape == np.shape(expected)
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-14, atol=1e-15)


CONSTANT: list[Use] = [
    lambda x: np.argmax(x),
    lambda x: np.argmax(x, axis=0),
    lambda x: np.argmin(x, 1, keepdims=True),
    lambda x: np.argsort(x, axis=0),
    lambda x: np.argsort(x, None),
    lambda x: np.all(x > 0, axis=1),
    lambda x: np.any(x > 3),
    lambda x: np.count_nonzero(x > 0, axis=0),
    lambda x: x.argmax(1),
    lambda x: x.argmin(),
    lambda x: x.argsort(),
    lambda x: (x > -9).all(),
    lambda x: (x < 0).any(axis=0, keepdims=True),
]


@pytest.mark.parametrize("use", CONSTANT)
def test_constants(use: Use) -> None:
    result = use(bh.Tape().leaf(X))
    assert isinstance(result, bh.TrackedTensor)
    assert not result.requires_grad
    expected = np.asarray(use(X))
    assert result.dtype == expected.dtype
    np.testing.assert_array_equal(result.numpy(), expected)


REFUSED: list[tuple[Use, str]] = [
    (lambda x: np.max(x, initial=0.0), "initial"),
    (lambda x: np.sum(x, where=X > 0), "where="),
    (lambda x: np.mean(x, dtype="f4"), "dtype="),
    (lambda x: np.std(x, mean=0.5), "mean"),
    (lambda x: np.quantile(x, 0.5, method="nearest"), "method"),
    (lambda x: np.average(x, returned=True), "returned"),
    (lambda x: np.cumsum(x, out=np.zeros(6)), "out="),
    (lambda x: np.nanmean(x), "nanmean"),
]


@pytest.mark.parametrize(("use", "named"), REFUSED)
def test_what_is_not_there_is_a_type_error(use: Use, named: str) -> None:
    x = bh.Tape().leaf(X)
    with pytest.raises(TypeError, match=named):
        use(x)


def test_sort_gives_a_new_tensor() -> None:
    x = bh.Tape().leaf(X)
    np.testing.assert_array_equal(x.sort(axis=0).numpy(), np.sort(X, axis=0))
    np.testing.assert_array_equal(x.numpy(), X)


def test_truth_of_a_whole_tensor() -> None:
    x = bh.Tape().leaf(X)
    assert bool((x > -3).all())
    assert not (x > 9).any()


def test_an_average_is_differentiated_for_values_and_weights() -> None:
    tape = bh.Tape()
    x, w = tape.leaf([1.0, 2.0, 4.0]), tape.leaf([1.0, 1.0, 2.0])
    grads = tape.pullback(bh.average(x, weights=w))
    np.testing.assert_allclose(grads[x], [0.25, 0.25, 0.5])
    np.testing.assert_allclose(grads[w], (np.array([1.0, 2.0, 4.0]) - 2.75) / 4)


@pytest.mark.parametrize(
    ("use", "reason"),
    [
        (lambda x: bh.average(x, axis=0, weights=WEIGHTS), "SHAPE_MISMATCH"),
        (lambda x: bh.average(x, axis=(1, 0), weights=X.T), "SHAPE_MISMATCH"),
        (lambda x: bh.var(x, ddof=1, correction=1), "INVALID_ATTRIBUTE"),
        (lambda x: bh.percentile(x, 101), "INVALID_ATTRIBUTE"),
        (lambda x: bh.quantile(x, np.array([[0.5]])), "INVALID_ATTRIBUTE"),
        (lambda x: bh.quantile(x, x), "INVALID_ATTRIBUTE"),
        (lambda x: bh.sort(x, axis=2), "INVALID_ATTRIBUTE"),
        (lambda x: bh.max(x, axis=2), "INVALID_ATTRIBUTE"),
        (lambda x: bh.linalg.norm(x, 3), "INVALID_ATTRIBUTE"),
        (lambda x: bh.linalg.norm(x, "fro", axis=0), "INVALID_ATTRIBUTE"),
        (lambda x: bh.linalg.norm(x, axis=(0, 0)), "INVALID_ATTRIBUTE"),
        (lambda x: bh.linalg.norm(bh.stack([x, x]), 2), "INVALID_ATTRIBUTE"),
        (lambda x: bh.linalg.matrix_norm(bh.sum(x)), "SHAPE_MISMATCH"),
    ],
)
def test_arguments_that_cannot_be_right(use: Use, reason: str) -> None:
    with pytest.raises(bh.InvalidArgument) as caught:
        use(bh.Tape().leaf(X))
    assert caught.value.reason == reason


def test_norms_of_integers_are_float64() -> None:
    tape = bh.Tape()
    x = tape.constant(np.array([[1, -2], [3, 4]]))
    for order in (1, math.inf, "fro"):
        found = bh.linalg.norm(x, order)
        assert found.dtype == np.float64
        assert float(found) == np.linalg.norm(np.array([[1, -2], [3, 4]]), order)


@pytest.mark.parametrize("order", [1, -1, math.inf, -math.inf, "fro", 2, -2, "nuc"])
def test_matrix_norms_of_stacks_and_of_any_two_axes(order: Any) -> None:
    values = np.random.default_rng(8).standard_normal((2, 3, 4))
    x = bh.Tape().leaf(values)
    got = bh.linalg.matrix_norm(x, ord=order).numpy()
    np.testing.assert_allclose(got, np.linalg.matrix_norm(values, ord=order), 1e-13)
    for axes in ((2, 0), (0, 1), (-1, 1)):
        got = bh.linalg.norm(x, order, axes, keepdims=True).numpy()
        np.testing.assert_allclose(got, np.linalg.norm(values, order, axes, keepdims=True), 1e-13)
