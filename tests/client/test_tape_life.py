"""A tape's life: what is frozen, what is known without asking, what is released, how it ends."""

from __future__ import annotations

import copy
import gc
import pickle
from typing import Any

import numpy as np
import pytest
from tests.client.flaky import FlakyTransport, flaky

import backhaul as bh

Array = np.ndarray[Any, Any]


def layouts(values: Array) -> dict[str, Array]:
    """The same values in awkward memory."""
    unaligned = np.frombuffer(b"\0" + values.tobytes(), values.dtype, offset=1).reshape(
        values.shape
    )
    read_only = values.copy()
    read_only.flags.writeable = False
    return {
        "Fortran order": np.asfortranarray(values),
        "negative strides": values[::-1, ::-1].copy()[::-1, ::-1],
        "every second": np.repeat(values, 2, axis=1)[:, ::2],
        "big-endian": values.astype(values.dtype.newbyteorder(">")),
        "unaligned": unaligned,
        "read-only": read_only,
    }


@pytest.mark.parametrize("dtype", ["float32", "complex128"])
def test_any_memory_is_taken_and_frozen(dtype: str) -> None:
    values = np.arange(6.0).reshape(2, 3).astype(dtype)
    with flaky() as (tape, transport):
        for name, array in layouts(values).items():
            before = array.copy()
            x = tape.leaf(array)
            y = tape.leaf_with_tangent(array, array)
            z = x * array
            np.testing.assert_array_equal(array, before, err_msg=name)
            if array.flags.writeable:
                array[:] = 99
            sent = tape._recorder.columns.tensors
            for each in sent:
                np.testing.assert_array_equal(each, values, err_msg=name)
                assert each.flags.c_contiguous
                assert each.dtype == np.dtype(dtype)
            np.testing.assert_array_equal(x.numpy(), values)
            np.testing.assert_array_equal(y.numpy(), values)
            np.testing.assert_array_equal(z.numpy(), values * values)
            assert transport.lose == []


def test_broadcast_zero_size_and_0d_arrays() -> None:
    tape = bh.Tape()
    assert tape.leaf(np.broadcast_to(np.float64(2.0), (2, 3))).numpy().tolist() == [[2.0] * 3] * 2
    assert tape.leaf(np.zeros((0, 4))).shape == (0, 4)
    assert tape.leaf(np.array(1.5)).shape == ()
    assert tape.leaf(3).dtype == np.dtype("f8")
    assert tape.leaf([1, 2]).dtype == np.dtype("f8")
    assert tape.leaf([]).shape == (0,)
    assert tape.leaf(1j).dtype == np.dtype("c16")


@pytest.mark.parametrize(
    "value", [np.array([1, 2]), np.array(True), np.float16(1), np.array(["a"])]
)
def test_a_leaf_of_a_dtype_without_gradient_says_what_to_convert_to(value: Any) -> None:
    tape = bh.Tape()
    with pytest.raises(bh.InvalidArgument, match="astype") as error:
        tape.leaf(value)
    assert error.value.reason == "DTYPE_NOT_SUPPORTED"


def test_a_tangent_fits_its_leaf() -> None:
    tape = bh.Tape()
    single = np.ones(2, "f4")
    value: Any
    tangent: Any
    for tangent in ([1, 2], [1.0, 2.0], np.ones(2, "f4")):
        assert tape.leaf_with_tangent(single, tangent).has_tangent
    assert tape.leaf_with_tangent(3.14, 1).dtype == np.dtype("f8")
    assert tape.leaf_with_tangent(1j, 1).dtype == np.dtype("c16")
    for tangent in (1.0, np.ones((2, 1), "f4"), np.ones(1, "f4"), [[1.0, 2.0]]):
        with pytest.raises(bh.TangentShapeMismatch):
            tape.leaf_with_tangent(single, tangent)
    for value, tangent in (
        (single, np.ones(2)),
        (single, [1j, 2]),
        (1.0, np.float32(1)),
        (1.0, 1j),
    ):
        with pytest.raises(bh.InvalidArgument) as error:
            tape.leaf_with_tangent(value, tangent)
        assert error.value.reason == "TANGENT_DTYPE_MISMATCH"


def test_values_that_are_known_cost_no_trip() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        loss = bh.sum(x * x)
        tape.pullback(loss)
        assert float(loss) == 5.0
        assert x.numpy().tolist() == [1.0, 2.0]
        y = x + 1.0
        assert y.numpy().tolist() == [2.0, 3.0]
        y.numpy()[:] = 7.0
        assert y.numpy().tolist() == [2.0, 3.0]
        assert transport.calls == {"Execute": 2}


def released_by(transport: FlakyTransport) -> list[int]:
    return [node for request in transport.requests for node in request.release]


def test_a_dropped_handle_is_released_with_the_next_request() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(np.ones(2))
        y = x * 3.0
        node = y.node_id
        bh.sum(y).numpy()
        del y
        assert node not in released_by(transport)
        bh.sum(x).numpy()
        assert released_by(transport).count(node or 0) == 1
        with pytest.raises(bh.MissingNode):
            tape.pullback(node or 0)


def test_what_was_dropped_before_it_was_sent_is_released_after_its_block() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        for _ in range(10):
            x = x * 1.5
        assert float(x) == pytest.approx(2 * 1.5**10)
        assert len(released_by(transport)) == 10
        session = tape._core._session
        assert transport.get_session(session.id, b"", timeout=None).nodes == 2  # x and the constant


def test_a_finalizer_makes_no_call_and_takes_no_lock() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        y = x * x
        with tape._recorder.lock:  # a finalizer that waited for it would wait for ever
            del y
            gc.collect()
        assert list(tape._dropped) == [2]
        assert transport.calls.total() == 0


def test_release_by_name() -> None:
    with flaky() as (tape, transport):
        x, other = tape.leaf(2.0), bh.Tape().leaf(1.0)
        y = x * x
        with pytest.raises(bh.MissingNode):
            tape.release(y, other)
        assert float(y) == 4.0
        tape.release(y, y)
        for use in (float, lambda y: y + 1.0, tape.pullback, tape.release):
            with pytest.raises(bh.MissingNode, match="released"):
                use(y)
        assert "released" in repr(y)
        assert y.node_id == 2
        del y
        assert float(x * 1.0) == 2.0
        assert released_by(transport).count(2) == 1


def test_closing_ends_every_use_and_closing_again_is_nothing() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        y = x * x
        grads = tape.pullback(y)
        tape.close()
        tape.close()
        assert transport.calls == {"Execute": 1, "CloseSession": 1}
        uses = (
            lambda: tape.leaf(1.0),
            lambda: tape.constant(1.0),
            lambda: x * x,
            lambda: 2.0 * x,
            lambda: float(y),
            lambda: tape.pullback(y),
            lambda: tape.hvp(y),
            lambda: tape.release(x),
        )
        for use in uses:
            with pytest.raises(bh.SessionClosed) as error:
                use()
            assert error.value.reason == "SESSION_CLOSED"
        assert grads[x] == 4.0
        assert "closed" in repr(x)


def test_a_tape_that_sent_nothing_closes_without_a_call() -> None:
    with flaky() as (tape, transport):
        with tape:
            tape.leaf(1.0)
        assert transport.calls.total() == 0


def test_a_forgotten_tape_is_closed_with_the_next_call_of_its_connection() -> None:
    with flaky() as (tape, transport):
        connection = tape._core.connection
        float(tape.leaf(2.0) * 2.0)
        session = tape._core._session
        del tape
        gc.collect()
        assert transport.calls == {"Execute": 1}
        assert list(connection._forgotten) == [(session.id, session.epoch)]
        connection.ping()
        assert transport.calls == {"Execute": 1, "CloseSession": 1, "GetServerInfo": 1}
        with pytest.raises(bh.SessionClosed):
            transport.get_session(session.id, session.epoch, timeout=None)


def test_a_tensor_keeps_its_tape_and_gradients_do_not() -> None:
    with flaky() as (tape, _):
        connection = tape._core.connection
        x = tape.leaf(2.0)
        grads = tape.pullback(x)
        del tape
        assert float(x * x) == 4.0
        del x
        gc.collect()
        assert len(connection._forgotten) == 1
        assert grads.get(1) == 1.0
        with pytest.raises(bh.MissingNode):
            grads.get(2)


def test_clones_are_the_same_tape_and_copies_are_refused() -> None:
    tape = bh.Tape()
    x = tape.leaf(1.0)
    assert tape.clone() is tape
    assert copy.copy(tape) is tape
    assert copy.copy(x) is x
    for each in (tape, x):
        with pytest.raises(TypeError, match="copied"):
            copy.deepcopy(each)
        with pytest.raises(TypeError, match="pickled"):
            pickle.dumps(each)


def test_half_made_tapes_and_tensors_go_quietly() -> None:
    for kind in (bh.Tape, bh.TrackedTensor):
        half: Any = kind.__new__(kind)
        half.__del__()
