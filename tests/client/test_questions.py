"""What may be asked: checked in the order of the interface, at the caller's line, without a call."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.client.flaky import FlakyTransport, flaky

import backhaul as bh


@pytest.fixture
def flaky_tape() -> Iterator[tuple[bh.Tape, FlakyTransport]]:
    with flaky() as made:
        yield made


@pytest.fixture
def tape(flaky_tape: tuple[bh.Tape, FlakyTransport]) -> bh.Tape:
    return flaky_tape[0]


Ask = Callable[[bh.Tape, Any], Any]
ASKS: list[Ask] = [
    lambda tape, loss: tape.pullback(loss),
    lambda tape, loss: tape.hvp(loss),
    lambda tape, loss: tape.hvp(loss, tangents={}),
]


@pytest.mark.parametrize("ask", ASKS)
def test_first_the_loss_is_a_node_of_this_tape_that_requires_a_gradient(
    flaky_tape: tuple[bh.Tape, FlakyTransport], ask: Ask
) -> None:
    tape, transport = flaky_tape
    x = tape.leaf(np.ones(3))
    other = bh.Tape()
    foreign = other.leaf(np.ones(3))
    gone = x * x
    gone_id = gone.node_id
    del gone
    named = x + x
    tape.release(named)
    # Vectors all, and a complex one: that comes later in the order.
    missing = [
        foreign,
        tape.constant(np.ones(3)),
        x.detach(),
        x.detach().node_id,
        named,
        gone_id,
        tape.constant(np.ones(2))._id,
        0,
        -1,
        10**9,
        10**30,
        np.int64(77),
        x.detach() * 1j,
    ]
    loss: Any
    for loss in missing:
        with pytest.raises(bh.MissingNode):
            ask(tape, loss)
    with pytest.raises(bh.MissingNode) as error:
        ask(tape, foreign)
    assert str(tape) in str(error.value)
    assert str(other) in str(error.value)
    for loss in ("x", 1.5, np.ones(3), [x]):
        with pytest.raises(bh.InvalidArgument) as invalid:
            ask(tape, loss)
        assert invalid.value.reason == "INVALID_VALUE"
    assert transport.calls.total() == 0


@pytest.mark.parametrize("ask", ASKS)
def test_then_it_has_one_element_and_is_real(
    flaky_tape: tuple[bh.Tape, FlakyTransport], ask: Ask
) -> None:
    tape, transport = flaky_tape
    x = tape.leaf(np.ones((2, 1)))
    for loss in (x, x.node_id, x * 1j, bh.reshape(x, (2,))):
        with pytest.raises(bh.NonScalarLoss):
            ask(tape, loss)
    with pytest.raises(bh.InvalidArgument) as error:
        ask(tape, bh.sum(x) * 1j)
    assert error.value.reason == "COMPLEX_LOSS"
    assert transport.calls.total() == 0


def test_last_there_is_a_direction(flaky_tape: tuple[bh.Tape, FlakyTransport]) -> None:
    tape, transport = flaky_tape
    x = tape.leaf(1.0)
    loss = x * x
    given: list[Any] = [None, {}, [], [{}], [{x: 1.0}, {}]]
    for tangents in given:
        with pytest.raises(bh.InvalidArgument) as error:
            tape.hvp(loss, tangents=tangents)
        assert error.value.reason == "HVP_WITHOUT_TANGENT"
    assert transport.calls.total() == 0
    tape.leaf_with_tangent(1.0, 1.0)
    assert tape.hvp(loss).hvp[x] == 0.0
    assert tape.hvp(loss, tangents={x: 1.0}).hvp[x] == 2.0


def test_one_element_of_any_rank_is_a_loss(tape: bh.Tape) -> None:
    for shape in ((), (1,), (1, 1)):
        x = tape.leaf(np.full(shape, 3.0))
        grads = tape.pullback(x * x)
        np.testing.assert_array_equal(grads[x], np.full(shape, 6.0))
        assert grads.value.shape == shape


COTANGENTS: list[Any] = [
    1.0,
    [1.0, 2.0],
    np.ones((3, 2)),
    np.ones((2, 3), "f8"),
    np.ones((2, 3), "c8"),
    np.ones((1, 2, 3), "f4"),
    [[1, 2, 3], [4, 5, 6j]],
]


@pytest.mark.parametrize("cotangent", COTANGENTS)
def test_a_cotangent_has_the_outputs_exact_shape_and_dtype(tape: bh.Tape, cotangent: Any) -> None:
    x = tape.leaf(np.ones((2, 3), "f4"))
    with pytest.raises(bh.InvalidArgument) as error:
        tape.pullback(x * x, cotangent=cotangent)
    assert error.value.reason == "COTANGENT_MISMATCH"
    assert error.value.details["expected"] == "float32[2,3]"


def test_numbers_and_lists_take_the_outputs_dtype(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones((2, 2), "f4"))
    gradient = tape.pullback(x * 3.0, cotangent=[[1, 2], [3, 4]])[x]
    np.testing.assert_array_equal(gradient, np.array([[3, 6], [9, 12]], "f4"))
    assert tape.pullback(bh.sum(x) * 1j, cotangent=1j)[x].tolist() == [[1.0, 1.0]] * 2
    z = tape.leaf(np.ones(2, "c8"))
    assert tape.pullback(z * 1.0, cotangent=[1, 2])[z].dtype == np.dtype("c8")


def test_a_list_with_one_axis_more_than_the_output_is_several_cotangents(
    flaky_tape: tuple[bh.Tape, FlakyTransport],
) -> None:
    tape, transport = flaky_tape
    x = tape.leaf([1.0, 2.0])
    y = x * 3.0
    several: list[Any] = [
        [[1.0, 0.0], [0.0, 1.0]],
        [np.array([1.0, 0.0]), np.array([0.0, 1.0])],
        (tape.constant([1.0, 0.0]), [0.0, 1.0]),
    ]
    for cotangents in several:
        found = tape.pullback(y, cotangent=cotangents)
        assert [each[x].tolist() for each in found] == [[3.0, 0.0], [0.0, 3.0]]
        found[0].value[:] = 9.0
        assert found[1].value.tolist() == [3.0, 6.0]
    assert transport.calls == {"Execute": 3}
    assert tape.pullback(y, cotangent=[1.0, 0.0])[x].tolist() == [3.0, 0.0]
    assert [each[x].tolist() for each in tape.pullback(bh.sum(y), cotangent=[1.0, 2.0])] == [
        [3.0, 3.0],
        [6.0, 6.0],
    ]
    assert tape.pullback(bh.sum(y), cotangent=[]) == []
    empty = tape.leaf(np.zeros(0))
    assert tape.pullback(empty, cotangent=[])[empty].shape == (0,)


def test_cotangents_and_tangents_may_be_tensors_of_the_tape(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    y = x * x
    assert tape.pullback(y, cotangent=y)[x].tolist() == [2.0, 16.0]
    assert tape.hvp(bh.sum(y * x), tangents={x: y}).hvp[x].tolist() == [6.0, 48.0]
    foreign = bh.Tape().leaf([1.0, 2.0])
    with pytest.raises(bh.MissingNode):
        tape.pullback(y, cotangent=foreign)
    with pytest.raises(bh.MissingNode):
        tape.hvp(bh.sum(y), tangents={x: foreign})
    with pytest.raises(bh.InvalidArgument) as error:
        tape.pullback(y, cotangent=tape.constant(np.ones(2, "f4")))
    assert error.value.reason == "COTANGENT_MISMATCH"
    with pytest.raises(bh.InvalidArgument) as error:
        tape.hvp(bh.sum(y), tangents={x: tape.constant(np.ones(2, "f4"))})
    assert error.value.reason == "TANGENT_DTYPE_MISMATCH"
    with pytest.raises(bh.TangentShapeMismatch):
        tape.hvp(bh.sum(y), tangents={x: tape.constant(1.0)})


def test_tangents_are_of_leaves_and_fit_them(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(2, "f4"))
    loss = bh.sum(x * x)
    for tangents, reason in [
        ({loss: 1.0}, "INVALID_VALUE"),
        ({x: np.ones(2)}, "TANGENT_DTYPE_MISMATCH"),
        ({x: 1.0}, "TANGENT_SHAPE_MISMATCH"),
        ({x: np.ones((2, 1), "f4")}, "TANGENT_SHAPE_MISMATCH"),
        ({tape.constant(1.0): 1.0}, "INVALID_VALUE"),
        ({bh.Tape().leaf(1.0): 1.0}, "MISSING_NODE"),
        ({99: 1.0}, "MISSING_NODE"),
        ({x: [1.0, 2.0], x.node_id or 0: [1.0, 2.0]}, "INVALID_VALUE"),
        ([1.0], "INVALID_VALUE"),
    ]:
        given: Any = tangents
        with pytest.raises(bh.AutodiffError) as error:
            tape.hvp(loss, tangents=given)
        assert error.value.reason == reason, tangents
    assert tape.hvp(loss, tangents={x.node_id or 0: [1, 2]}).hvp[x].tolist() == [2.0, 4.0]


def test_several_directions_are_one_trip(flaky_tape: tuple[bh.Tape, FlakyTransport]) -> None:
    tape, transport = flaky_tape
    x = tape.leaf([1.0, 2.0])
    results = tape.hvp(bh.sum(x * x * x), tangents=[{x: [1.0, 0.0]}, {x: [0.0, 1.0]}])
    assert [each.hvp[x].tolist() for each in results] == [[6.0, 0.0], [0.0, 12.0]]
    assert [each.gradients[x].tolist() for each in results] == [[3.0, 12.0]] * 2
    assert [float(each.value) for each in results] == [9.0, 9.0]
    assert transport.calls == {"Execute": 1}


def test_wrt_names_tensors_that_require_a_gradient(tape: bh.Tape) -> None:
    x, unused = tape.leaf([1.0, 2.0]), tape.leaf(5.0)
    y = x * x
    loss = bh.sum(y)
    grads = tape.pullback(loss, wrt=[y, unused.node_id or 0])
    assert list(grads) == [y.node_id, unused.node_id]
    assert grads[y].tolist() == [1.0, 1.0]
    assert grads[unused] == 0.0
    alone: Any = y
    assert list(tape.pullback(loss, wrt=alone)) == [y.node_id]
    assert len(tape.pullback(loss, wrt=[])) == 0
    for bad in (tape.constant(1.0), bh.Tape().leaf(1.0), 99):
        with pytest.raises(bh.MissingNode, match=r"wrt\[1\]"):
            tape.pullback(loss, wrt=[x, bad])


def test_a_loss_that_failed_raises_its_error_again_without_a_call(
    flaky_tape: tuple[bh.Tape, FlakyTransport],
) -> None:
    tape, transport = flaky_tape
    a = tape.leaf(-np.eye(2))
    factor = bh.linalg.cholesky(a)
    loss = bh.sum(factor)
    with pytest.raises(bh.LinearAlgebraError):
        tape.pullback(loss)
    later = loss * 2.0
    for ask in (loss.numpy, factor.numpy, later.numpy, lambda: tape.pullback(later)):
        with pytest.raises(bh.LinearAlgebraError):
            ask()
    assert transport.calls == {"Execute": 1}
    assert "NOT_POSITIVE_DEFINITE" in repr(factor)
    assert "NOT_POSITIVE_DEFINITE" in repr(later)
    good = bh.linalg.cholesky(a + 2 * np.eye(2))
    np.testing.assert_array_equal(good.numpy(), np.eye(2))
