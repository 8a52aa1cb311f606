"""What could lose a gradient or mean something else is refused, in words, where the user stands."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.client.flaky import flaky

import backhaul as bh
from backhaul.connection import CLOSED_AT_ONCE


@pytest.fixture
def tape() -> bh.Tape:
    return bh.Tape()


MASKED: Any = np.ma.array([1.0, 2.0], mask=[False, True])
LOSING: dict[str, Callable[[bh.TrackedTensor], Any]] = {
    "masked * tensor": lambda x: MASKED * x,
    "masked + tensor": lambda x: MASKED + x,
    "np.ma.multiply": lambda x: np.ma.multiply(MASKED, x),
    "np.ma.sum": lambda x: np.ma.sum(x),
    "vectorize": lambda x: np.vectorize(lambda value: value * 2.0)(x),
    "mean of a list": lambda x: np.mean([x, x]),
    "polynomial": lambda x: np.polynomial.Polynomial([1, 2])(x),
}


@pytest.mark.parametrize("way", LOSING)
def test_numpy_does_not_drop_a_gradient(tape: bh.Tape, way: str) -> None:
    with pytest.raises(TypeError, match=r"lose the gradient|record on a tape"):
        LOSING[way](tape.leaf([1.0, 2.0]))


def test_the_value_is_taken_on_purpose(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    np.testing.assert_array_equal(np.asarray(x), [1.0, 2.0])
    np.testing.assert_array_equal(x, [1.0, 2.0])
    np.testing.assert_array_equal(np.ma.multiply(MASKED, x.detach()).filled(0.0), [1.0, 0.0])


@pytest.mark.parametrize("given", [MASKED, np.ones((1, 2)).view(np.matrix)])
def test_arrays_that_mean_something_else_are_refused(tape: bh.Tape, given: Any) -> None:
    x = tape.leaf([1.0, 2.0])
    for call in (tape.leaf, tape.constant, lambda each: x * each):
        with pytest.raises(bh.InvalidArgument) as error:
            call(given)
        assert error.value.reason == "INVALID_VALUE"


def test_lists_with_tensors_in_them_become_no_leaf(tape: bh.Tape) -> None:
    x = tape.leaf(1.0)
    endless: list[Any] = []
    endless.append(endless)
    for call in (tape.leaf, tape.constant):
        for given in ([x, x], [[1.0], (x,)]):
            with pytest.raises(bh.InvalidArgument, match=r"bh\.stack"):
                call(given)  # type: ignore[arg-type]  # wrong on purpose
        with pytest.raises(bh.InvalidArgument):
            call(endless)


@pytest.mark.parametrize("dtype", ["f2", "g", "G", "O", "U5", "M8[s]", "V4", "S3"])
def test_a_dtype_that_is_not_carried_is_refused_at_the_line(tape: bh.Tape, dtype: str) -> None:
    x = tape.leaf([1.0, 2.0])
    for call in (x.astype, lambda d: bh.astype(x, d), lambda d: bh.apply("astype", x, dtype=d)):
        with pytest.raises(bh.InvalidArgument) as error:
            call(dtype)
        assert error.value.reason == "DTYPE_NOT_SUPPORTED"
    assert float(bh.sum(x)) == 3.0


def test_no_order_of_complex_numbers(tape: bh.Tape) -> None:
    z = tape.leaf(1j)
    assert z == 1j
    for use in (operator.lt, operator.ge, bh.maximum, lambda a, b: bh.clip(a, b, None)):
        for pair in ((z, 1.0), (tape.leaf(1.0), 1j)):
            with pytest.raises(bh.InvalidArgument) as error:
                use(*pair)
            assert error.value.reason == "DTYPE_NOT_SUPPORTED"


WRONG: dict[str, Callable[[bh.Tape, bh.TrackedTensor], Any]] = {
    "release": lambda tape, x: tape.release(x._id),  # type: ignore[arg-type]  # wrong on purpose
    "tape": lambda tape, x: bh.Tape("host:1"),  # type: ignore[arg-type]  # wrong on purpose
    "sizes": lambda tape, x: bh.einsum("->k", x, sizes="k2"),  # type: ignore[arg-type]  # wrong on purpose
    "wrt": lambda tape, x: tape.pullback(x, wrt=5.0),  # type: ignore[call-overload]  # wrong on purpose
    "tangents": lambda tape, x: tape.hvp(x, tangents=1),  # type: ignore[call-overload]  # wrong on purpose
    "tangents tensor": lambda tape, x: tape.hvp(x, tangents=x),  # type: ignore[call-overload]  # wrong on purpose
    "grads": lambda tape, x: tape.pullback(x)["a"],  # type: ignore[index]  # wrong on purpose
    "grads.get": lambda tape, x: tape.pullback(x).get("a"),  # type: ignore[arg-type]  # wrong on purpose
    "timeout": lambda tape, x: bh.connect(timeout="5"),  # type: ignore[arg-type]  # wrong on purpose
    "apply": lambda tape, x: bh.apply("\ud800", x),
    "apply a number": lambda tape, x: bh.apply(5, x),  # type: ignore[arg-type]  # wrong on purpose
}


@pytest.mark.parametrize("what", WRONG)
def test_arguments_of_a_wrong_kind_are_explained(tape: bh.Tape, what: str) -> None:
    with pytest.raises(bh.InvalidArgument):
        WRONG[what](tape, tape.leaf(1.0))


@pytest.mark.parametrize("timeout", [math.inf, 1e300, 10**400])
def test_a_timeout_without_end_is_none(timeout: float) -> None:
    if timeout == 10**400:  # too large for a float
        with pytest.raises(bh.InvalidArgument):
            bh.connect("host:1", timeout=timeout)
    else:
        assert bh.connect("host:1", timeout=timeout).timeout is None


def test_a_host_without_a_port_is_told_the_port(tape: bh.Tape) -> None:
    for target in ("foo", "grpc://foo"):
        with pytest.raises(bh.InvalidArgument, match="the port is missing, as in foo:50051"):
            bh.connect(target)


def test_a_number_that_an_integer_dtype_cannot_hold(tape: bh.Tape) -> None:
    with pytest.raises(bh.InvalidArgument, match="-1 cannot be held in uint8"):
        tape.constant(np.ones(2, "u1")) * -1


def test_keywords_that_change_nothing_are_taken(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 3)))
    reshaped: Any = np.reshape(x, (3, 2), order="C")
    assert reshaped.shape == (3, 2)
    assert float(np.sum(x, dtype=None, out=None)) == 6.0
    assert float(np.add(x, 1.0, out=None).sum()) == 12.0
    for call in (lambda: np.reshape(x, 6, order="F"), lambda: np.sum(x, dtype="f4")):
        with pytest.raises(TypeError):
            call()


def test_lines_of_nodes_that_are_gone_are_forgotten(tape: bh.Tape) -> None:
    for _ in range(50):
        x = tape.leaf(1.0)
        y = x
        for _ in range(500):
            y = y * x
        assert float(tape.pullback(y)[x]) == 501.0
    assert len(tape._recorder.sources.codes) < 5000


def test_forgotten_sessions_are_closed_a_few_at_a_time() -> None:
    with flaky() as (tape, transport):
        connection = tape._core.connection
        for i in range(CLOSED_AT_ONCE + 5):
            connection.forget(bytes([i]) * 16, b"")
        float(tape.leaf(1.0) * 1.0)
        assert transport.calls["CloseSession"] == CLOSED_AT_ONCE
    assert transport.calls["CloseSession"] >= CLOSED_AT_ONCE + 5
