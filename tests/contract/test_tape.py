"""What a tape does, with one body for the embedded and the gRPC transport."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backhaul as bh
from backhaul_proto.messages import SessionInfo

Array = np.ndarray[Any, Any]


def trips(connection: bh.Connection) -> int:
    return connection.calls.total()


def held(connection: bh.Connection, tape: bh.Tape) -> SessionInfo:
    """What the server holds for a tape."""
    session = tape._core._session
    return connection._ready().get_session(session.id, session.epoch, timeout=120)


def test_the_first_example_of_the_api_verbatim(
    connection: bh.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BACKHAUL_TARGET", connection.target)
    tape = bh.Tape()
    a = tape.leaf(np.ones((2, 3)))
    b = tape.leaf(np.ones((3, 4)))
    c = bh.tracked_einsum("ij,jk->ik", [a, b])
    loss = bh.tracked_einsum("ij,ij->", [c, c])
    grads = tape.pullback(loss)
    ga = grads.get(a.node_id)
    assert ga is not None
    np.testing.assert_array_equal(ga, np.full((2, 3), 24.0))
    gb = grads.get(b.node_id)
    np.testing.assert_array_equal(gb, np.full((3, 4), 12.0))

    x = tape.leaf_with_tangent(np.ones(3), np.ones(3))
    result = tape.hvp(bh.tracked_einsum("i,i->", [x, x]))
    np.testing.assert_array_equal(result.gradients.get(x.node_id), np.full(3, 2.0))
    np.testing.assert_array_equal(result.hvp.get(x.node_id), np.full(3, 2.0))
    tape.close()


def test_scalars(tape: bh.Tape) -> None:
    x = tape.leaf(3.14)
    assert x.requires_grad
    assert not x.has_tangent
    y = tape.leaf_with_tangent(3.14, 1.0)
    assert y.requires_grad
    assert y.has_tangent
    assert tape.pullback(x)[x] == 1.0
    result = tape.hvp(y)
    assert result.gradients[y] == 1.0
    assert result.hvp[y] == 0.0
    assert result.value == 3.14


def test_a_graph_its_session_its_gradient_and_its_value_are_one_round_trip(
    connection: bh.Connection,
) -> None:
    before = trips(connection)
    with bh.Tape(connection) as tape:
        x = tape.leaf_with_tangent(np.arange(3.0), np.ones(3))
        y = x
        for _ in range(100):
            y = y * x - 0.5 * y
        loss = bh.sum(y)
        assert trips(connection) == before
        grads = tape.pullback(loss)
        assert float(loss) == grads.value
        assert trips(connection) == before + 1
        tape.hvp(bh.sum(y * y))
        assert trips(connection) == before + 2


def test_wrt(tape: bh.Tape) -> None:
    x, y, far = tape.leaf([1.0, 2.0]), tape.leaf([3.0, 4.0]), tape.leaf([0.0, 0.0])
    middle = x * y
    loss = bh.sum(middle * middle)
    grads = tape.pullback(loss, wrt=[far, middle, x])
    assert set(grads) == {far.node_id, middle.node_id, x.node_id}
    np.testing.assert_array_equal(grads[middle], [6.0, 16.0])
    np.testing.assert_array_equal(grads[x], [18.0, 64.0])
    np.testing.assert_array_equal(grads[far], [0.0, 0.0])
    assert x.node_id is not None
    np.testing.assert_array_equal(tape.pullback(loss, wrt=[x.node_id])[x], [18.0, 64.0])
    result = tape.hvp(loss, tangents={x: [1.0, 0.0]}, wrt=[middle, y])
    np.testing.assert_array_equal(result.hvp[middle], [6.0, 0.0])
    np.testing.assert_array_equal(result.hvp[y], [12.0, 0.0])


def test_cotangents(tape: bh.Tape, connection: bh.Connection) -> None:
    x = tape.leaf([1 + 2j, 3 - 1j])
    y = x * x
    ct = np.array([2.0 - 1j, 1j])
    grads = tape.pullback(y, cotangent=ct)
    np.testing.assert_allclose(grads[x], ct * np.conj(2 * np.array([1 + 2j, 3 - 1j])))
    np.testing.assert_array_equal(grads.value, np.array([1 + 2j, 3 - 1j]) ** 2)
    before = trips(connection)
    first, second = tape.pullback(y, cotangent=[ct, 1j * ct])
    assert trips(connection) == before + 1
    np.testing.assert_array_equal(first[x], grads[x])
    np.testing.assert_array_equal(second[x], 1j * grads[x])
    tensor = tape.constant(ct)
    np.testing.assert_array_equal(tape.pullback(y, cotangent=tensor)[x], grads[x])


def test_tangents(tape: bh.Tape, connection: bh.Connection) -> None:
    a = np.array([[2.0, 1.0], [0.0, 3.0]])
    x = tape.leaf_with_tangent([1.0, 2.0], [1.0, 0.0])
    loss = bh.einsum("i,ij,j->", x, a, x)
    hessian = a + a.T
    np.testing.assert_allclose(tape.hvp(loss).hvp[x], hessian @ [1.0, 0.0])
    np.testing.assert_allclose(
        tape.hvp(loss, tangents={x: [0.0, 1.0]}).hvp[x], hessian @ [0.0, 1.0]
    )
    np.testing.assert_allclose(tape.hvp(loss).hvp[x], hessian @ [1.0, 0.0])
    before = trips(connection)
    rows = tape.hvp(loss, tangents=[{x: row} for row in np.eye(2)])
    assert trips(connection) == before + 1
    np.testing.assert_allclose([row.hvp[x] for row in rows], hessian)


def test_partial_tangents_give_the_cross_blocks(tape: bh.Tape) -> None:
    x = tape.leaf_with_tangent([1.0, 2.0], [1.0, -1.0])
    y = tape.leaf([5.0, 7.0])
    result = tape.hvp(bh.sum(x * x * y))
    np.testing.assert_array_equal(result.hvp[x], [10.0, -14.0])
    np.testing.assert_array_equal(result.hvp[y], [2.0, -4.0])


def test_the_loss_is_checked_in_order(connection: bh.Connection, tape: bh.Tape) -> None:
    with bh.Tape(connection) as other:
        foreign = other.leaf([1.0, 2.0])
        vector = tape.leaf([1.0, 2.0])
        for ask in (tape.pullback, tape.hvp):
            with pytest.raises(bh.MissingNode) as missing:
                ask(foreign)
            assert "tape" in missing.value.message
            with pytest.raises(bh.MissingNode):
                ask(tape.constant([1.0, 2.0]))
            with pytest.raises(bh.MissingNode):
                ask(vector.detach())
            with pytest.raises(bh.MissingNode):
                ask(10**9)
            with pytest.raises(bh.NonScalarLoss):
                ask(vector)
            with pytest.raises(bh.InvalidArgument) as complex_loss:
                ask(tape.leaf(1j))
            assert complex_loss.value.reason == "COMPLEX_LOSS"
        with pytest.raises(bh.MissingNode):
            bh.add(vector, foreign)
        with pytest.raises(bh.TangentShapeMismatch):
            tape.leaf_with_tangent(np.ones((2, 3)), np.ones((3, 2)))
        with pytest.raises(bh.InvalidArgument) as no_tangent:
            tape.hvp(bh.sum(vector))
        assert no_tangent.value.reason == "HVP_WITHOUT_TANGENT"


def test_losses_of_one_element_of_any_rank(tape: bh.Tape) -> None:
    for shape in ((), (1,), (1, 1)):
        x = tape.leaf(np.full(shape, 3.0))
        np.testing.assert_array_equal(tape.pullback(x * x)[x], np.full(shape, 6.0))


def test_a_failed_step_fails_alone(tape: bh.Tape) -> None:
    older = tape.leaf([1.0, 2.0])
    a = tape.leaf([[1.0, 2.0], [2.0, 1.0]])
    square = older * older
    low = bh.linalg.cholesky(a)
    after = bh.sum(low * low)
    with pytest.raises(bh.LinearAlgebraError) as failed:
        float(after)
    assert failed.value.reason == "NOT_POSITIVE_DEFINITE"
    assert isinstance(failed.value, np.linalg.LinAlgError)
    assert "test_tape.py" in str(failed.value)
    with pytest.raises(bh.LinearAlgebraError):
        tape.pullback(after)
    with pytest.raises(bh.LinearAlgebraError):
        tape.hvp(after, tangents={a: np.eye(2)})
    with pytest.raises(bh.LinearAlgebraError):
        (low + 1.0).numpy()
    np.testing.assert_array_equal(square.numpy(), [1.0, 4.0])
    again = bh.linalg.cholesky(a + 3.0 * np.eye(2))
    loss = bh.sum(again * again)
    np.testing.assert_allclose(tape.pullback(loss)[a], np.eye(2))
    np.testing.assert_array_equal(tape.pullback(bh.sum(square))[older], [2.0, 4.0])


def test_a_long_chain(tape: bh.Tape, connection: bh.Connection) -> None:
    steps = 10_000
    x = tape.leaf_with_tangent(1.0, 1.0)
    y = x
    for _ in range(steps):
        y = y + x * 1e-4
    before = trips(connection)
    assert float(y) == pytest.approx(2.0)
    loss = y * y
    assert tape.pullback(loss)[x] == pytest.approx(8.0)
    assert tape.hvp(loss).hvp[x] == pytest.approx(8.0)
    assert trips(connection) == before + 3


def test_diamonds_are_linear(tape: bh.Tape) -> None:
    x = tape.leaf_with_tangent(1.0, 1.0)
    y = x
    for _ in range(60):
        y = y + y
    assert tape.pullback(y)[x] == 2.0**60
    assert tape.hvp(y).hvp[x] == 0.0


def test_sessions_from_many_threads_do_not_mix(connection: bh.Connection) -> None:
    tapes = [bh.Tape(connection) for _ in range(2)]
    wrong: list[str] = []

    def work(number: int) -> None:
        tape = tapes[number % 2]
        rng = np.random.default_rng(number)
        for _ in range(25):
            value = rng.standard_normal(4)
            x = tape.leaf(value)
            loss = bh.einsum("i,i->", x, x)
            grads = tape.pullback(loss)
            if not np.array_equal(grads[x], 2 * value) or len(grads) != 1:
                wrong.append(f"thread {number}: {grads[x]} for {value}")

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
    for tape in tapes:
        tape.close()


def test_every_use_after_close_says_so(connection: bh.Connection) -> None:
    tape = bh.Tape(connection)
    x = tape.leaf(1.0)
    tape.pullback(x)
    tape.close()
    tape.close()
    for use in (lambda: tape.leaf(1.0), lambda: tape.pullback(x), lambda: x + x, x.numpy):
        with pytest.raises(bh.SessionClosed):
            use()


def test_dropped_handles_are_released(connection: bh.Connection, tape: bh.Tape) -> None:
    x = tape.constant(np.ones(100))
    for _ in range(1000):
        x = x + 1
    np.testing.assert_array_equal(x.numpy(), np.full(100, 1001.0))
    x.numpy()
    tape.leaf(0.0).numpy()
    info = held(connection, tape)
    assert info.bytes <= 3 * 800, "only x, and small constants, are left on the server"


def test_memory_of_a_gradient_is_kept_as_long_as_it_is_needed(tape: bh.Tape) -> None:
    x = tape.leaf(np.arange(4.0))
    y = x * x
    z = y * y
    del y
    loss = bh.sum(z)
    tape.pullback(loss)
    np.testing.assert_array_equal(tape.pullback(loss)[x], 4 * np.arange(4.0) ** 3)
    tape.release(z)
    with pytest.raises(bh.MissingNode):
        z.numpy()
    np.testing.assert_array_equal(tape.pullback(loss)[x], 4 * np.arange(4.0) ** 3)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_dtypes_are_kept(tape: bh.Tape, dtype: str) -> None:
    x = tape.leaf_with_tangent(np.ones((2, 2), dtype), np.ones((2, 2), dtype))
    loss = bh.sum(bh.real(x @ x * 2.0))
    assert x.dtype == dtype
    result = tape.hvp(loss)
    assert result.gradients[x].dtype == dtype
    assert result.hvp[x].dtype == dtype


def test_integer_and_bool_constants(tape: bh.Tape) -> None:
    x = tape.leaf(np.array([1.0, 2.0], np.float32))
    y = x * np.array([2, 3]) + np.array([True, False])
    assert y.dtype == np.float32
    np.testing.assert_array_equal(y.numpy(), np.array([3.0, 6.0], np.float32))
    np.testing.assert_array_equal(tape.pullback(bh.sum(y))[x], [2.0, 3.0])


def test_awkward_values_travel_bit_for_bit(tape: bh.Tape) -> None:
    payload = np.array([0x7FF8_0000_0000_1234, 0xFFF0_0000_0000_0001], np.uint64).view(np.float64)
    value = np.concatenate([payload, [np.inf, -np.inf, -0.0, 5e-324]])
    shapes: list[tuple[int, ...]] = [(6,), (2, 3), (6, 1, 1)]
    for shape in shapes:
        back = tape.leaf(value.reshape(shape)).numpy()
        assert back.shape == shape
        np.testing.assert_array_equal(back.view(np.uint64), value.reshape(shape).view(np.uint64))
    for shape in [(), (0,), (3, 0, 2)]:
        back = tape.constant(np.zeros(shape, np.int16)).numpy()
        assert (back.shape, back.dtype) == (shape, np.int16)


def test_arrays_handed_out_are_the_callers_own(tape: bh.Tape) -> None:
    mine = np.ones(3)
    x = tape.leaf(mine)
    mine[:] = 5.0
    loss = bh.sum(x * x)
    grads = tape.pullback(loss)
    grads[x][:] = 99.0
    x.numpy()[:] = 99.0
    np.testing.assert_array_equal(tape.pullback(loss)[x], np.full(3, 2.0))
    np.testing.assert_array_equal(x.numpy(), np.ones(3))


def test_bad_input_is_refused_where_it_is_given(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    given: dict[str, list[Callable[[], object]]] = {
        "DTYPE_NOT_SUPPORTED": [
            lambda: tape.leaf(np.array([1, 2])),
            lambda: tape.leaf(np.array(["a"])),
            lambda: tape.leaf(np.array([1.0], np.float16)),
            lambda: tape.leaf(np.array([object()])),
            lambda: x + np.array([None, None]),
        ],
        "UNKNOWN_OP": [lambda: bh.apply("nonsense", x)],
        "INVALID_ATTRIBUTE": [lambda: bh.sum(x, axis=1), lambda: bh.apply("sum", x, axes=0)],
        "SHAPE_MISMATCH": [lambda: x + np.ones(3), lambda: x @ np.ones(3)],
        "EINSUM_SYNTAX": [lambda: bh.einsum("i->j->k", x), lambda: bh.einsum("i..", x)],
        "EINSUM_RANK": [lambda: bh.einsum("ij->", x)],
    }
    for reason, uses in given.items():
        for use in uses:
            with pytest.raises(bh.InvalidArgument) as refused:
                use()
            assert refused.value.reason == reason
            assert isinstance(refused.value, ValueError)
    np.testing.assert_array_equal(tape.pullback(bh.sum(x))[x], [1.0, 1.0])


def test_several_results(tape: bh.Tape) -> None:
    x = tape.leaf_with_tangent([[1.0, 2.0], [3.0, 4.0]], np.ones((2, 2)))
    first, second = bh.unstack(x)
    loss = bh.sum(first * second)
    np.testing.assert_array_equal(tape.pullback(loss)[x], [[3.0, 4.0], [1.0, 2.0]])
    np.testing.assert_array_equal(tape.hvp(loss).hvp[x], np.ones((2, 2)))
    np.testing.assert_array_equal(bh.stack([second, first]).numpy(), [[3.0, 4.0], [1.0, 2.0]])


def test_an_hvp_along_one_of_the_leaves_that_meet_in_another(tape: bh.Tape) -> None:
    rng = np.random.default_rng(29)
    a = rng.standard_normal(5)
    b = rng.standard_normal((4, 5))
    v = rng.standard_normal(5)
    x, ws = tape.leaf(a), [tape.leaf(each) for each in b]
    loss = bh.sum(tape.constant(np.zeros(1)))
    for w in ws:
        y = x * w
        loss = loss + bh.sum(y * y)
    # Cotangents without and with a tangent come to x, in either order.
    for i in range(4):
        result = tape.hvp(loss, tangents={ws[i]: v})
        np.testing.assert_allclose(result.gradients[x], 2 * a * (b * b).sum(0), rtol=1e-13)
        np.testing.assert_allclose(result.hvp[x], 4 * a * b[i] * v, rtol=1e-13)
        for j, w in enumerate(ws):
            expected = 2 * a * a * v if i == j else np.zeros(5)
            np.testing.assert_allclose(result.hvp[w], expected, rtol=1e-13)
