"""Ctrl-C at any moment of a call: the next one is right all the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.client import test_interrupts as interrupts
from tests.functional.functions import X, bowl

import backhaul as bh

STRIDE = 37  # a prime: other instructions of each loop
FILES = (*interrupts.TRACED, "applying", "programs", "tapes", "gradients", "evaluating", "pytrees")


def loss(x: Any) -> Any:
    first, second, third = bh.unstack(x * np.array([2.0, 3.0, 5.0]))
    return first * second + third * 7.0


def of_jit(connection: bh.Connection) -> Callable[[Any], Any]:
    g = bh.value_and_grad(bh.jit(loss), connection=connection)
    g(X)
    g(X)
    return g


CALLS: dict[str, Callable[[bh.Connection], Callable[[Any], Any]]] = {
    "called": lambda connection: bh.value_and_grad(loss, connection=connection),
    "first of jit": lambda connection: bh.value_and_grad(bh.jit(loss), connection=connection),
    "of jit": of_jit,
}


@pytest.mark.parametrize("kind", CALLS)
def test_an_interrupt_at_any_instruction_leaves_the_next_call_right(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(interrupts, "TRACED", FILES)
    expected = [6 * X[0] * X[1] + 35 * X[2], [6 * X[1], 6 * X[0], 35.0]]
    n = hits = 0
    with bh.connect("embedded") as connection:
        other = bh.grad(bowl, connection=connection)
        of_other = other(X)
        while True:
            g = CALLS[kind](connection)
            hit = interrupts.interrupted(lambda: g(X + 1.0), n)  # noqa: B023  # called at once
            for tape in connection.idle_tapes:
                if tape._recorder.lock.locked():  # as the tracer has it, and Ctrl-C has not
                    tape._recorder.lock.release()
            for _ in range(2):
                value, gradient = g(X)
                assert float(value) == pytest.approx(expected[0], rel=1e-14), n
                np.testing.assert_allclose(gradient, expected[1], rtol=1e-14)
                np.testing.assert_array_equal(other(X), of_other)
            if not hit:
                break
            hits += 1
            n += STRIDE
    assert hits > 50
