"""Elements that the loss does not reach have gradient 0, whatever is computed there and not taken."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backhaul as bh

Array = np.ndarray[Any, Any]
INF, NAN = math.inf, math.nan
ROWS = np.array([[False], [True]])

# what, loss, x, gradient of the sum of the loss, H·v along ones
CASES: list[tuple[str, Callable[[Any], Any], Any, Any, Any]] = [
    (
        "where of a root",
        lambda x: bh.where([False, True], bh.sqrt(x), 0.0),
        [0.0, 4.0],
        [0, 0.25],
        [0, -1 / 32],
    ),
    (
        "where of a logarithm",
        lambda x: bh.where([False, True], 0.0 + bh.log(x), 0.0),
        [0.0, 2.0],
        [0, 0.5],
        [0, -0.25],
    ),
    (
        "where of an overflow",
        lambda x: bh.where([True, False], bh.exp(x), x),
        [0.0, 1e4],
        [1, 1],
        [1, 0],
    ),
    (
        "where of NaN in data",
        lambda x: bh.where([True, False], x * x, 0.0),
        [1.0, NAN],
        [2, 0],
        [2, 0],
    ),
    (
        "a square of where",
        lambda x: bh.where([False, True], bh.sqrt(x), 0.0) ** 2,
        [0.0, 4.0],
        [0, 1],
        [0, 0],
    ),
    (
        "where, of a shape moved",
        lambda x: bh.where(ROWS, bh.reshape(bh.sqrt(x), (2, 1)), 0.0),
        [0.0, 4.0],
        [0, 0.25],
        [0, -1 / 32],
    ),
    ("a slice of a root", lambda x: bh.sqrt(x)[1:], [0.0, 4.0], [0, 0.25], [0, -1 / 32]),
    ("the greatest of logarithms", lambda x: bh.max(bh.log(x)), [0.0, 2.0], [0, 0.5], [0, -0.25]),
    ("relu of a logarithm", lambda x: bh.relu(bh.log(x)), [0.0, 2.0], [0, 0.5], [0, -0.25]),
    (
        "maximum with a logarithm",
        lambda x: bh.maximum(bh.log(x), -1.0),
        [0.0, 2.0],
        [0, 0.5],
        [0, -0.25],
    ),
    (
        "clip of a logarithm",
        lambda x: bh.clip(bh.log(x), -1.0, 9.0),
        [0.0, 2.0],
        [0, 0.5],
        [0, -0.25],
    ),
    (
        "where of rows of softmax",
        lambda x: bh.where(ROWS, bh.softmax(x, axis=-1), 0.0)[:, 0],
        [[-INF, -INF], [0.0, 0.0]],
        [[0, 0], [0.25, -0.25]],
        [[0, 0], [0, 0]],
    ),
    (
        "where of an inverse norm",
        lambda x: bh.where([False, True], bh.linalg.vector_norm(x, axis=1) ** -1.0, 0.0),
        [[0.0, 0.0], [3.0, 4.0]],
        [[0, 0], [-0.024, -0.032]],
        [[0, 0], [0.01216, 0.01888]],
    ),
    (
        "where of a spread's inverse",
        lambda x: bh.where([False, True], 1 / bh.std(x, axis=1), 0.0),
        [[1.0, 1.0], [1.0, 2.0]],
        [[0, 0], [2, -2]],
        [[0, 0], [0, 0]],
    ),
]


def derivatives(loss: Callable[[Any], Any], x: Any) -> tuple[Array, Array]:
    with bh.Tape() as tape:
        leaf = tape.leaf_with_tangent(np.asarray(x), np.ones_like(np.asarray(x)))
        total = bh.sum(loss(leaf))
        result = tape.hvp(total)
        np.testing.assert_array_equal(tape.pullback(total)[leaf], result.gradients[leaf])
        return result.gradients[leaf], result.hvp[leaf]


@pytest.mark.parametrize(
    ("what", "loss", "x", "gradient", "product"),
    CASES,
    ids=lambda x: x if isinstance(x, str) else "",
)
def test_what_is_not_taken_is_not_reached(
    what: str, loss: Callable[[Any], Any], x: Any, gradient: Any, product: Any
) -> None:
    found, moved = derivatives(loss, x)
    np.testing.assert_allclose(found, gradient, 1e-14, 1e-15)
    np.testing.assert_allclose(moved, product, 1e-13, 1e-14)


def test_a_path_that_reaches_an_element_is_enough() -> None:
    def loss(x: Any) -> Any:
        return bh.where([False, True], bh.log(x), 0.0) + bh.sqrt(x)

    gradient, _ = derivatives(loss, [0.0, 4.0])
    np.testing.assert_array_equal(gradient, [INF, 0.5])


def test_a_cotangent_that_is_zero_by_value_is_no_mask() -> None:
    """The derivative of sqrt(x)² at 0 is 1; by the chain it is 0 * inf, and to say 0 would be wrong."""
    gradient, _ = derivatives(lambda x: bh.where([True, True], bh.sqrt(x) ** 2, 0.0), [0.0, 4.0])
    np.testing.assert_array_equal(gradient, [NAN, 1])


def test_broadcast_operands_are_summed_without_what_is_not_reached() -> None:
    with bh.Tape() as tape:
        x, scale = tape.leaf([0.0, 4.0]), tape.leaf(4.0)
        loss = bh.sum(bh.where([False, True], bh.sqrt(x * scale), 0.0))
        gradients = tape.pullback(loss)
    np.testing.assert_array_equal(gradients[x], [0, 0.5])
    np.testing.assert_array_equal(gradients[scale], 0.5)
