"""Values that stay on the server, with questions that are awaited and those that are waited for."""

from __future__ import annotations

import asyncio

import numpy as np
import pytest
from tests.aio.clients import Client, both, in_loop, value
from tests.aio.gated import gated

import backhaul.aio as aio
from backhaul_proto.errors import make_error


@both
async def test_training_is_one_trip_a_step_and_numpys(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    X = np.random.default_rng(3).standard_normal((50, 4))
    y = np.random.default_rng(4).standard_normal(50)
    data, target = tape.constant(X), tape.constant(y)
    w, expected = tape.leaf(np.zeros(4)), np.zeros(4)
    for step in range(10):
        grads = await client.ask(tape.pullback(bh.mean((data @ w - target) ** 2), fetch=False))
        w = tape.leaf(w - 0.1 * grads[w])
        expected = expected - 0.1 * (2.0 / 50.0) * (X.T @ (X @ expected - y))
        assert client.trips() == step + 1
        assert type(w) is bh.TrackedTensor
    np.testing.assert_allclose(await client.ask(w.numpy()), expected, rtol=0, atol=1e-12)


@both
async def test_hvps_and_lists_stay(client: Client) -> None:
    bh, tape = client.bh, client.tape()
    x = tape.leaf_with_tangent(tape.constant([1.0, 2.0]), [1.0, 0.0])
    loss = bh.sum(x * x * x)
    result = await client.ask(tape.hvp(loss, fetch=False))
    assert result.value == 9.0
    found = await client.ask(bh.fetch(result.gradients[x], result.hvp[x]))
    np.testing.assert_array_equal(found, [[3.0, 12.0], [6.0, 0.0]])
    both_ways = [{x: [1.0, 0.0]}, {x: result.gradients[x]}]
    along = await client.ask(tape.hvp(loss, tangents=both_ways, fetch=False))
    found = await client.ask(bh.fetch(*(each.hvp[x] for each in along)))
    np.testing.assert_array_equal(found, [[6.0, 0.0], [18.0, 144.0]])
    cotangents = [np.ones(2), np.array([0.0, 1.0])]
    pulled = await client.ask(tape.pullback(x * x, cotangent=cotangents, wrt=[x], fetch=False))
    found = await client.ask(bh.fetch(*(each[x] for each in pulled)))
    np.testing.assert_array_equal(found, [[2.0, 4.0], [0.0, 4.0]])


@in_loop
async def test_the_value_of_many_elements_is_asked_of_the_loss() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        y = x * x
        grads = await tape.pullback(y, cotangent=np.ones(2), fetch=False)
        with pytest.raises(aio.InvalidArgument) as caught:
            grads.value.sum()
        assert caught.value.reason == "MUST_BE_AWAITED"
        np.testing.assert_array_equal((await aio.fetch(y))[0], [1.0, 4.0])
        assert len(transport.flaky.requests) == 2


@in_loop
async def test_steps_recorded_meanwhile_have_other_ids() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        transport.answer.clear()
        first = asyncio.create_task(tape.pullback(aio.sum(x * x), fetch=False))
        await transport.ran.acquire()
        y, z = x * 5.0, tape.leaf(x)
        gone = x * 7.0
        del gone
        transport.answer.set()
        grads = await first
        assert await value(grads[x] + y) == 21.0
        assert await value(z) == 3.0
        assert await value(grads[x]) == 6.0


@in_loop
async def test_a_block_that_the_server_forgot_is_sent_again_without_what_came_meanwhile() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        for _ in range(3):
            assert await value((await tape.pullback(aio.sum(x * x), fetch=False))[x]) == 6.0
        transport.send.clear()
        transport.flaky.lose = [make_error("BLOCK_UNKNOWN", "Forgotten.")]
        first = asyncio.create_task(tape.pullback(aio.sum(x * x), fetch=False))
        while not transport.arrived._value > 6:
            await asyncio.sleep(0)
        y = x * 5.0
        transport.send.set()
        grads = await first
        assert await value(grads[x] + y) == 21.0
        sent = transport.flaky.requests[-2].block
        assert sent is not None
        assert sent.block is not None


@pytest.mark.parametrize("gate", ["send", "answer"])
@in_loop
async def test_a_cancelled_question_leaves_no_nodes(gate: str) -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        assert await value(x * 1.0) == 3.0
        await (transport.arrived if gate == "send" else transport.ran).acquire()
        getattr(transport, gate).clear()
        task = asyncio.create_task(tape.pullback(aio.sum(x * x), fetch=False))
        await (transport.arrived if gate == "send" else transport.ran).acquire()
        y = x * 5.0
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        del task
        transport.send.set()
        transport.answer.set()
        assert await value(y) == 15.0
        grads = await tape.pullback(aio.sum(x * y), fetch=False)
        assert await value(grads[x] + y) == 45.0
        assert await value(x + 1.0) == 5.0
        session = tape._core._session
        held = transport.flaky.get_session(session.id, session.epoch, timeout=None)
        assert held.nodes <= len(tape._recorder.types)


@in_loop
async def test_wrt_that_was_released_while_the_question_waited_is_refused() -> None:
    async with gated() as (tape, transport):
        x, y = tape.leaf(2.0), tape.leaf(3.0)
        loss = x * y
        transport.answer.clear()
        first = asyncio.create_task(value(x * 1.0))
        await transport.ran.acquire()
        second = asyncio.create_task(tape.pullback(loss, wrt=[y.node_id or 0], fetch=False))
        await asyncio.sleep(0)
        del y
        transport.answer.set()
        assert await first == 2.0
        with pytest.raises(aio.MissingNode):
            await second
        assert await value((await tape.pullback(loss, fetch=False))[x]) == 3.0
