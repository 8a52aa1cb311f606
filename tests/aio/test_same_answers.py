"""What a tape does, with one body for questions that are waited for and those that are awaited."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both

import backhaul as errors
import backhaul.aio


@both
async def test_the_first_example(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    a = tape.leaf(np.ones((2, 3)))
    b = tape.leaf(np.ones((3, 4)))
    c = bh.tracked_einsum("ij,jk->ik", [a, b])
    loss = bh.tracked_einsum("ij,ij->", [c, c])
    grads = await client.ask(tape.pullback(loss))
    np.testing.assert_array_equal(grads.get(a.node_id), np.full((2, 3), 24.0))
    np.testing.assert_array_equal(grads[b], np.full((3, 4), 12.0))
    x = tape.leaf_with_tangent(np.ones(3), np.ones(3))
    result = await client.ask(tape.hvp(bh.tracked_einsum("i,i->", [x, x])))
    np.testing.assert_array_equal(result.gradients[x], np.full(3, 2.0))
    np.testing.assert_array_equal(result.hvp[x], np.full(3, 2.0))
    await client.ask(tape.close())


@both
async def test_a_question_is_one_round_trip_and_brings_the_value_along(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    x = tape.leaf_with_tangent(np.arange(3.0), np.ones(3))
    y = x
    for _ in range(100):
        y = y * x - 0.5 * y
    loss = bh.sum(y)
    assert client.trips() == 0
    grads = await client.ask(tape.pullback(loss))
    assert await client.ask(loss.item()) == grads.value
    assert client.trips() == 1
    await client.ask(tape.hvp(bh.sum(y * y)))
    values = await client.ask(bh.fetch(x, loss, y))
    assert client.trips() == 3
    np.testing.assert_array_equal(values[0], np.arange(3.0))
    np.testing.assert_array_equal(values[1], grads.value)


@both
async def test_wrt_and_cotangents(client: Client) -> None:
    tape = client.tape()
    x, far = tape.leaf([1 + 2j, 3 - 1j]), tape.leaf(0.0)
    y = x * x
    ct = np.array([2.0 - 1j, 1j])
    expected = ct * np.conj(2 * np.array([1 + 2j, 3 - 1j]))
    first, second = await client.ask(tape.pullback(y, cotangent=[ct, 1j * ct]))
    np.testing.assert_allclose(first[x], expected)
    np.testing.assert_allclose(second[x], 1j * expected)
    both = await client.ask(tape.pullback(y, cotangent=tape.constant(ct), wrt=[far, x.node_id]))
    np.testing.assert_allclose(both[x], expected)
    assert both[far] == 0.0
    assert await client.ask(tape.pullback(far * 2.0, cotangent=[])) == []


@both
async def test_directions_and_pushforwards(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    a = np.arange(4.0).reshape(2, 2)
    x = tape.leaf_with_tangent([1.0, 2.0], [1.0, 0.0])
    loss = bh.einsum("i,ij,j->", x, a, x)
    hessian = a + a.T
    rows = await client.ask(tape.hvp(loss, tangents=[{x: row} for row in np.eye(2)]))
    np.testing.assert_allclose([row.hvp[x] for row in rows], hessian)
    own = await client.ask(tape.hvp(loss))
    np.testing.assert_allclose(own.hvp[x], hessian[0])
    pushed = await client.ask(tape.pushforward(x * x, tangents={x: [1.0, 0.5]}))
    np.testing.assert_array_equal(pushed.tangent, [2.0, 2.0])
    np.testing.assert_array_equal(pushed.value, [1.0, 4.0])


@both
async def test_a_failed_step_fails_alone_and_names_its_line(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    a = tape.leaf([[1.0, 2.0], [2.0, 1.0]])
    square = a * a
    low = bh.linalg.cholesky(a)
    after = bh.sum(low * low)
    failed = await client.error(errors.LinearAlgebraError, after.item)
    assert failed.reason == "NOT_POSITIVE_DEFINITE"
    assert "test_same_answers.py" in failed.details["source"]
    await client.error(errors.LinearAlgebraError, lambda: tape.pullback(after))
    np.testing.assert_array_equal(await client.ask(square.numpy()), [[1.0, 4.0], [4.0, 1.0]])
    again = bh.linalg.cholesky(a + 3.0 * np.eye(2))
    grads = await client.ask(tape.pullback(bh.sum(again * again)))
    np.testing.assert_allclose(grads[a], np.eye(2))


@both
async def test_questions_are_checked_in_order(client: Client) -> None:
    bh, tape, other = client.bh, client.tape(), client.tape()
    vector, foreign = tape.leaf([1.0, 2.0]), other.leaf([1.0, 2.0])
    for ask in (tape.pullback, tape.hvp):
        await client.error(errors.MissingNode, partial(ask, foreign))
        await client.error(errors.MissingNode, partial(ask, tape.constant([1.0, 2.0])))
        await client.error(errors.NonScalarLoss, partial(ask, vector))
        found = await client.error(errors.InvalidArgument, partial(ask, tape.leaf(1j)))
        assert found.reason == "COMPLEX_LOSS"
    found = await client.error(errors.InvalidArgument, lambda: tape.hvp(bh.sum(vector)))
    assert found.reason == "HVP_WITHOUT_TANGENT"
    found = await client.error(errors.InvalidArgument, vector.item)
    assert found.reason == "INVALID_VALUE"
    found = await client.error(errors.InvalidArgument, lambda: bh.fetch(vector, 3))
    assert found.reason == "INVALID_VALUE"
    assert client.trips() == 0


@both
async def test_released_tensors_and_closed_tapes(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    x = tape.leaf([1.0, 2.0])
    y = x * x
    loss = bh.sum(y)
    await client.ask(tape.pullback(loss))
    tape.release(y)
    await client.error(errors.MissingNode, y.numpy)
    np.testing.assert_array_equal((await client.ask(tape.pullback(loss)))[x], [2.0, 4.0])
    await client.ask(tape.close())
    await client.ask(tape.close())
    for use in (lambda: tape.leaf(1.0), lambda: tape.pullback(loss), lambda: x + x, x.numpy):
        await client.error(errors.SessionClosed, use)
    await client.ask(client.connection.close())
    error = await client.error(errors.Unavailable, client.connection.ping)
    assert error.reason == "CONNECTION_CLOSED"


@both
async def test_dropped_handles_are_released(client: Client) -> None:
    tape = client.tape()
    x = tape.constant(np.ones(100))
    for _ in range(1000):
        x = x + 1
    np.testing.assert_array_equal(await client.ask(x.numpy()), np.full(100, 1001.0))
    await client.ask(tape.leaf(0.0).numpy())
    await client.ask(tape.flush())
    session = tape._core._session
    transport = await client.ask(client.connection._ready())
    info = await client.ask(transport.get_session(session.id, session.epoch, timeout=120))
    assert info.bytes <= 3 * 800, "only x, and small constants, are left on the server"
    assert info.last_seq == session.last_seq


@both
async def test_a_tape_that_is_gone_is_closed_on_the_way_of_the_next_call(client: Client) -> None:
    tape = client.tape()
    await client.ask((tape.leaf(1.0) * 2.0).numpy())
    del tape
    await client.ask(client.connection.ping())
    assert client.connection.calls == {"Execute": 1, "CloseSession": 1, "GetServerInfo": 1}


@both
async def test_a_memory_limit_is_met_and_the_tape_lives_on(client: Client) -> None:
    bh = client.bh
    tape = bh.Tape(client.connection, memory_limit=1_000_000)
    rows = tape.leaf(np.ones((100, 1000)))
    more = rows + rows
    error = await client.error(errors.MemoryLimitExceeded, more.numpy)
    assert error.details["op"] == "add"
    del more
    assert await client.ask(bh.sum(rows).item()) == 100_000.0


@both
async def test_a_connection_tells_of_its_server(client: Client) -> None:
    connection = client.connection
    assert await client.ask(connection.ping()) > 0
    info = await client.ask(connection.info())
    assert (info.protocol, info.backend) == ("backhaul.v1", "numpy")
    names = tuple(op.name for op in await client.ask(connection.ops()))
    assert names == client.bh.ops()
    assert connection.target in repr(connection)


@both
async def test_what_asks_a_server_beside_tapes(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    found = await client.ask(
        bh.contract_path(
            "ij,jk,kl->il", (2, 300), (300, 4), (4, 5), shapes=True, connection=client.connection
        )
    )
    assert (found.path, found.flops) == ([(0, 1), (0, 1)], 4880)
    of_tensors = await client.ask(bh.contract_path("i,i->", tape.leaf([1.0, 2.0]), [3.0, 4.0]))
    assert of_tensors.flops == 4
    report = await client.ask(
        bh.check_grad(
            lambda x, y: bh.sum(bh.exp(x) * y * y),
            np.array([0.5, -1.0]),
            np.array([1.0, 2.0]),
            connection=client.connection,
        )
    )
    assert report, report
    wrong = await client.ask(
        bh.check_grad(
            lambda x: bh.sum(x.detach() * x), np.array([0.5, -1.0]), connection=client.connection
        )
    )
    assert not wrong
    error = await client.error(errors.InvalidArgument, lambda: bh.check_grad(bh.sum, 1.0, order=3))
    assert error.reason == "INVALID_VALUE"
    assert (await client.ask(bh.apply("sum", tape.leaf([[1.0, 2.0]]), axis=1))).shape == (1,)


def test_an_op_that_only_the_server_knows_is_asked_for_once(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backhaul.functions.CATALOG", {})

    @both
    async def body(client: Client) -> None:
        bh, tape = client.bh, client.tape()
        x = tape.leaf(np.ones(3))
        for _ in range(2):
            y = await client.ask(bh.apply("negative", x))
            assert y.shape == (3,)
        np.testing.assert_array_equal(await client.ask(y.numpy()), -np.ones(3))
        assert client.connection.calls == {"Infer": 1, "Execute": 1}
        error = await client.error(errors.InvalidArgument, lambda: bh.apply("nonsense", x))
        assert error.reason == "UNKNOWN_OP"

    run: Any = body
    for client in ("waited for", "awaited"):
        run(request, client, "embedded")


def test_the_names_are_the_same() -> None:
    assert backhaul.aio.__all__ == errors.__all__
    own = {
        name for name in errors.__all__ if getattr(errors, name) is not getattr(backhaul.aio, name)
    }
    assert own == {
        "Connection",
        "Pullback",
        "Tape",
        "TrackedTensor",
        "apply",
        "batched",
        "check_grad",
        "connect",
        "contract_path",
        "fetch",
        "gauss_newton_product",
        "grad",
        "hessian",
        "hvp",
        "jacobian",
        "jit",
        "jvp",
        "value_and_grad",
        "value_grad_and_hessian",
        "vjp",
    }
    assert issubclass(backhaul.aio.TrackedTensor, errors.TrackedTensor)
