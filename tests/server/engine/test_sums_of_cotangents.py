"""Cotangents that arrive at one node from several places, with tangents and without."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
X = np.array([1.0, 2.0])
C = np.array([3.0, 5.0])
T = np.array([0.5, -1.0])


@pytest.mark.parametrize("kinds", [*itertools.product(("linear", "square"), repeat=4)])
def test_sums_in_any_order(kinds: tuple[str, ...]) -> None:
    """A linear term sends a plain cotangent, a square a dual one."""
    tape = Tape(Engine())
    x, c = tape.leaf(X), tape.constant(C)
    products = [tape.apply("multiply", [x, c if kind == "linear" else x]) for kind in kinds]
    total = products[0]
    for product in products[1:]:
        total = tape.apply("add", [total, product])
    ((gradients, hvp),) = tape.hvp(tape.apply("sum", [total]), [{x: T}])
    squares = kinds.count("square")
    assert np.array_equal(gradients[x], C * (4 - squares) + 2 * X * squares)
    assert np.array_equal(hvp[x], 2 * T * squares)
    assert np.array_equal(T, [0.5, -1.0])
