"""Who owns an array: the caller his own, before, during and after a call; and each one handed back."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from tests.faults.awkward import Array

import backhaul as bh

SIZES = (3, 20_000)
"""Values that are kept beside their tensor, and values that are not."""


def test_what_is_changed_after_it_was_given_changes_nothing(tape: bh.Tape) -> None:
    for n in SIZES:
        given = [np.full(n, float(k)) for k in range(1, 7)]
        leaf, tangent, constant, operand, cotangent, direction = given
        x = tape.leaf_with_tangent(leaf, tangent)
        z = tape.leaf(leaf)
        y = (x + z) * tape.constant(constant) + operand
        for each in given[:4]:
            each[:] = 99.0
        np.testing.assert_array_equal(y.numpy(), np.full(n, 10.0))
        np.testing.assert_array_equal(x.numpy(), np.full(n, 1.0))
        np.testing.assert_array_equal(tape.pushforward(y).tangent, np.full(n, 6.0))
        grads = tape.pullback(y, cotangent=cotangent)
        pushed = tape.pushforward(y, tangents={x: direction})
        cotangent[:] = direction[:] = 99.0
        np.testing.assert_array_equal(grads[x], np.full(n, 15.0))
        np.testing.assert_array_equal(pushed.tangent, np.full(n, 18.0))
        # An equal constant is found by content: not the array that was changed.
        again = y + np.full(n, 3.0) + np.full(n, 99.0)
        np.testing.assert_array_equal(again.numpy(), np.full(n, 112.0))


@contextmanager
def changing(tape: bh.Tape, array: Array) -> Iterator[list[int]]:
    """Overwrite the array when the call is about to be sent, as another thread may."""
    transport = tape._core.connection._ready()
    execute = transport.execute
    seen: list[int] = []

    def changed(request: Any, **options: Any) -> Any:
        array[...] = 99.0
        seen.append(request.seq)
        return execute(request, **options)

    transport.execute = changed  # type: ignore[method-assign]
    try:
        yield seen
    finally:
        del transport.execute


def _pullback(tape: bh.Tape, x: bh.TrackedTensor, array: Array) -> Array:
    return tape.pullback(x * 2.0, cotangent=array)[x]


def _pullbacks(tape: bh.Tape, x: bh.TrackedTensor, array: Array) -> Array:
    found: Array = tape.pullback(x * 2.0, cotangent=[array, array])[1][x]
    return found


def _pushforward(tape: bh.Tape, x: bh.TrackedTensor, array: Array) -> Array:
    return tape.pushforward(x * 2.0, tangents={x: array}).tangent


def _hvp(tape: bh.Tape, x: bh.TrackedTensor, array: Array) -> Array:
    return tape.hvp(bh.sum(x * x), tangents={x: array}).hvp[x]


def _leaf(tape: bh.Tape, x: bh.TrackedTensor, array: Array) -> Array:
    return (tape.leaf(array) * 2.0).numpy()


def _operand(tape: bh.Tape, x: bh.TrackedTensor, array: Array) -> Array:
    return (x * array * 2.0).numpy()


ASKED: tuple[Callable[[bh.Tape, bh.TrackedTensor, Array], Array], ...] = (
    *(_pullback, _pullbacks, _pushforward, _hvp),
    *(_leaf, _operand),
)


@pytest.mark.parametrize("ask", ASKED)
@pytest.mark.parametrize("layout", ["C", "reversed", "big-endian"])
def test_what_another_thread_changes_while_the_question_travels_changes_nothing(
    tape: bh.Tape, ask: Callable[[bh.Tape, bh.TrackedTensor, Array], Array], layout: str
) -> None:
    for n in SIZES:
        array = np.arange(1.0, n + 1)
        match layout:
            case "reversed":
                array = array[::-1]
            case "big-endian":
                array = array.astype(">f8")
        expected = 2.0 * array.astype("f8")
        x = tape.leaf(np.ones(n))
        with changing(tape, array) as seen:
            np.testing.assert_array_equal(ask(tape, x, array), expected)
        assert seen
        assert (array == 99.0).all()


def handed_back(tape: bh.Tape, x: bh.TrackedTensor) -> dict[str, Array]:
    """All the arrays of one answer of each kind, by name."""
    n = x.size
    ones = np.ones(n)
    square = x * x
    loss = bh.sum(square)
    first, second = tape.pullback(square, cotangent=[ones, 2 * ones], wrt=[x, square])
    result = tape.hvp(loss, tangents=[{x: ones}, {x: ones}])
    pushed = tape.pushforward(x, tangents=[{x: ones}, {x: ones}])
    same, again = bh.fetch(square, square)
    found = {"value": x.numpy(), "value again": x.numpy(), "same": same, "same again": again}
    for k, each in enumerate((first, second)):
        found |= {f"gradient {k}": each[x], f"to y {k}": each[square], f"value {k}": each.value}
    for k, one in enumerate(result):
        found |= {f"hvp gradient {k}": one.gradients[x], f"hvp {k}": one.hvp[x]}
        found |= {f"loss {k}": one.value, f"loss of gradients {k}": one.gradients.value}
        found |= {f"loss of hvp {k}": one.hvp.value}
    for k, one_pushed in enumerate(pushed):
        found |= {f"pushed {k}": one_pushed.value, f"tangent {k}": one_pushed.tangent}
    return found | {"loss": loss.numpy(), "asarray": np.asarray(square)}


@pytest.mark.parametrize("n", SIZES)
def test_writing_to_an_array_handed_back_changes_nothing_else(tape: bh.Tape, n: int) -> None:
    mine = np.arange(1.0, n + 1)
    x = tape.leaf(mine)
    found = handed_back(tape, x)
    untouched = {name: array.copy() for name, array in found.items()}
    for name, array in found.items():
        array[...] = -7.0
        for other, each in found.items():
            if other != name:
                np.testing.assert_array_equal(each, untouched[other], err_msg=f"{name}, {other}")
        array[...] = untouched[name]
    for array in found.values():
        array[...] = -7.0
    for name, array in handed_back(tape, x).items():
        np.testing.assert_array_equal(array, untouched[name], err_msg=name)
    np.testing.assert_array_equal(mine, np.arange(1.0, n + 1))


def test_an_array_handed_back_can_be_given_again_and_then_written_to(tape: bh.Tape) -> None:
    for n in SIZES:
        x = tape.leaf(np.ones(n))
        value = (x * 3.0).numpy()
        y = tape.leaf(value)
        z = tape.constant(value)
        value[:] = 0.0
        np.testing.assert_array_equal((y + z).numpy(), np.full(n, 6.0))


def test_the_callers_array_stays_as_it_was(tape: bh.Tape) -> None:
    for n in SIZES:
        array = np.arange(float(n))
        x = tape.leaf_with_tangent(array, array)
        y = x * tape.constant(array) + array
        tape.pullback(y, cotangent=array)
        tape.pushforward(y, tangents={x: array})
        tape.hvp(bh.sum(y), tangents={x: array})
        np.testing.assert_array_equal(array, np.arange(float(n)))
        assert array.flags.writeable
        assert array.flags.owndata
        array.resize(2 * n, refcheck=True)  # nobody holds on to it
