"""What happens to a tape while one of its questions is being answered."""

from __future__ import annotations

import asyncio
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import in_loop, over_each_transport, value
from tests.aio.gated import GatedTransport, gated
from tests.client.flaky import blocks

import backhaul.aio as bh
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import Answer, Execute


@in_loop
async def test_steps_recorded_meanwhile_travel_with_the_next_question() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        transport.answer.clear()
        first = asyncio.create_task(value(x * 3.0))
        await transport.ran.acquire()
        y = x * 5.0
        z = tape.leaf(np.ones(2)) + y
        transport.answer.set()
        assert await first == 9.0
        assert await value(z) == 17.0
        sent = [[block.calls[i].op for i in block.steps] for block in blocks(transport.flaky)]
        assert sent == [
            ["leaf", "constant", "multiply"],
            ["constant", "multiply", "leaf", "add"],
        ]


@in_loop
async def test_questions_of_one_tape_are_answered_one_after_the_other() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf(2.0)
        transport.answer.clear()
        first = asyncio.create_task(value(x * 3.0))
        await transport.ran.acquire()
        second = asyncio.create_task(value(x * 5.0))
        third = asyncio.create_task(value(x * 7.0))
        for _ in range(10):
            await asyncio.sleep(0)
        assert len(transport.flaky.requests) == 1
        transport.answer.set()
        assert [await first, await second, await third] == [6.0, 10.0, 14.0]
        assert [each.seq for each in transport.flaky.requests] == [1, 2, 3]


@in_loop
async def test_what_is_released_meanwhile_is_released_with_the_next_question() -> None:
    async with gated() as (tape, transport):
        x, old = tape.leaf(2.0), tape.leaf(3.0)
        gone = tape.leaf(5.0)
        gone_id = gone._id
        del gone
        transport.answer.clear()
        first = asyncio.create_task(value(x * old))
        await transport.ran.acquire()
        late, new = old._id, tape.leaf(7.0)
        late_new = new._id
        del new
        tape.release(old)
        tape._core.take_dropped()
        transport.answer.set()
        assert await first == 6.0
        assert await value(x) == 2.0, "known here, not asked"
        assert await value(x * 1.0) == 2.0
        before, after = transport.flaky.requests
        assert gone_id in before.release
        assert late not in before.release
        assert {late, late_new} <= set(after.release)
        assert not set(before.release) & set(after.release)


@in_loop
async def test_a_tensor_released_while_its_value_is_on_the_way() -> None:
    async with gated() as (tape, transport):
        small, known = tape.leaf([1.0, 2.0]) * 3.0, tape.leaf(4.0)
        transport.answer.clear()
        asked = asyncio.create_task(bh.fetch(small, known))
        await transport.ran.acquire()
        tape.release(small, known)
        transport.answer.set()
        first, second = await asked
        np.testing.assert_array_equal(first, [3.0, 6.0])
        assert second == 4.0
        assert small._value is None
        with pytest.raises(bh.MissingNode):
            await bh.fetch(small)


@in_loop
async def test_equal_constants_are_sent_once_also_when_met_again_meanwhile() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf(np.zeros(100))
        weights = np.arange(100.0)
        transport.answer.clear()
        first = asyncio.create_task(value(x + weights))
        await transport.ran.acquire()
        again = x - weights
        transport.answer.set()
        assert await first == 4950.0
        assert await value(again) == -4950.0
        assert [len(each.tensors) for each in transport.flaky.requests] == [2, 0]


@in_loop
async def test_a_step_that_fails_meanwhile_fails_what_is_recorded_on_it() -> None:
    async with gated() as (tape, transport):
        a = tape.leaf([[1.0, 2.0], [2.0, 1.0]])
        low = bh.linalg.cholesky(a)
        transport.answer.clear()
        first = asyncio.create_task(value(a * 1.0))
        await transport.ran.acquire()
        after, fine = bh.sum(low), bh.sum(a)
        transport.answer.set()
        assert await first == 6.0
        assert await value(fine) == 6.0
        with pytest.raises(bh.LinearAlgebraError) as failed:
            await value(after)
        assert "test_meanwhile.py" in failed.value.details["source"]


def refuse(
    monkeypatch: pytest.MonkeyPatch, transport: GatedTransport, op: str, error: BackhaulError
) -> None:
    """Let the server refuse any request with a step of this op in it."""
    execute = transport.execute
    known: dict[bytes, bytes] = {}

    async def refusing(request: Execute, *, timeout: float | None) -> Answer:
        block = request.block
        if block is not None and op.encode() in known.setdefault(block.hash, block.block or b""):
            await asyncio.sleep(0)
            raise make_error(error.reason, error.message, **error.details)
        return await execute(request, timeout=timeout)

    monkeypatch.setattr(transport, "execute", refusing)


@in_loop
async def test_steps_recorded_while_others_are_refused_wait_for_the_next_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with gated() as (tape, transport):
        refuse(monkeypatch, transport, "tril", make_error("INTERNAL", "A bug.", incident="1234"))
        x = tape.leaf(np.ones((2, 2)))
        bad, good = bh.tril(x), bh.sum(x)
        recorded: list[Any] = []

        async def record() -> None:
            while not first.done():
                recorded.append(bh.sum(x * float(len(recorded))))
                recorded.append(bh.tril(x))
                await asyncio.sleep(0)

        first = asyncio.create_task(value(good))
        other = asyncio.create_task(record())
        assert await first == 4.0
        await other
        assert len(recorded) > 6, "several were recorded on the way"
        with pytest.raises(bh.InternalError):
            await value(bad)
        later = recorded[2:12]
        recorded.clear()
        for i, each in enumerate(later):
            if i % 2:
                with pytest.raises(bh.InternalError):
                    await value(each)
            else:
                assert await value(each) == 4.0 * (2 + i)


@in_loop
async def test_a_question_waiting_for_its_turn_finds_the_tape_closed() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf(2.0)
        transport.answer.clear()
        first = asyncio.create_task(value(x * 3.0))
        await transport.ran.acquire()
        closing = asyncio.create_task(tape.close())
        await asyncio.sleep(0)
        waiting = asyncio.create_task(value(x * 5.0))
        await asyncio.sleep(0)
        transport.answer.set()
        assert await first == 6.0
        await closing
        with pytest.raises(bh.SessionClosed):
            await waiting
        await tape.close()


@in_loop
async def test_arrays_of_a_question_are_taken_when_it_begins() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        cotangent, direction = np.ones(2), np.ones(2)
        transport.send.clear()
        pulled = asyncio.create_task(tape.pullback(x * x, cotangent=cotangent))
        pushed = asyncio.create_task(tape.pushforward(x * x, tangents={x: direction}))
        twice = asyncio.create_task(tape.hvp(bh.sum(x * x * x), tangents=[{x: direction}]))
        await transport.arrived.acquire()
        cotangent[:] = direction[:] = 99.0
        transport.send.set()
        np.testing.assert_array_equal((await pulled)[x], [2.0, 4.0])
        np.testing.assert_array_equal((await pushed).tangent, [2.0, 4.0])
        np.testing.assert_array_equal((await twice)[0].hvp[x], [6.0, 12.0])


@in_loop
async def test_nothing_is_sent_without_a_question(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("backhaul.connection.BLOCK_BYTES", 1000)
    async with gated() as (tape, transport):
        x = tape.leaf(np.ones(1000))
        y = tape.leaf(np.ones(1000)) + x
        tape._recorder.full_at = tape._recorder.next_id
        for _ in range(10):
            y = y + x
        assert transport.flaky.requests == []
        await tape.flush()
        assert len(transport.flaky.requests) == 1
        assert await value(y) == 12_000.0


@over_each_transport
async def test_a_long_question_leaves_the_loop_to_others(target: str) -> None:
    ticks = 0

    async def tick() -> None:
        nonlocal ticks
        while True:
            await asyncio.sleep(0.002)
            ticks += 1

    async with bh.connect(target) as connection, bh.Tape(connection) as tape:
        await tape.leaf(1.0).numpy()
        x = tape.leaf(np.full((1500, 1500), 1e-4))
        y: Any = x
        for _ in range(8):
            y = y @ x
        ticker = asyncio.create_task(tick())
        await tape.pullback(bh.sum(y))
        ticker.cancel()
    assert ticks > 20
