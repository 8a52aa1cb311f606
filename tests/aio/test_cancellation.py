"""Cancelled tasks, timeouts and lost calls: the tape is right afterwards, whenever they came."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from tests.aio.clients import in_loop, over_each_transport, value
from tests.aio.gated import gated, held
from tests.client.answering import INFO, answering
from tests.client.flaky import blocks

import backhaul.aio as bh
from backhaul_proto.errors import make_error


def ops(transport: Any) -> list[str]:
    """The ops of the steps that reached the server."""
    sent = [block for block in blocks(transport.flaky) if block is not None]
    return [block.calls[i].op for block in sent for i in block.steps]


async def cancelled(task: asyncio.Task[Any]) -> None:
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize("gate", ["send", "answer"])
@pytest.mark.parametrize("questions_before", [0, 1])
@in_loop
async def test_a_question_cancelled_before_or_after_it_was_run(
    gate: str, questions_before: int
) -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        for _ in range(questions_before):
            assert await value(x * 1.0) == 3.0
        getattr(transport, gate).clear()
        y = x * 3.0
        task = asyncio.create_task(value(y))
        await (transport.arrived if gate == "send" else transport.ran).acquire()
        for _ in range(questions_before):
            await (transport.arrived if gate == "send" else transport.ran).acquire()
        z = y * 5.0
        await cancelled(task)
        transport.send.set()
        transport.answer.set()
        assert not tape._recorder.lock.locked()
        assert [await value(each) for each in (z, y)] == [45.0, 9.0]
        grads = await tape.pullback(bh.sum(z))
        np.testing.assert_array_equal(grads[x], [15.0, 15.0])
        once = ops(transport)
        if gate == "answer":
            assert once.count("leaf") == 1, "nothing is run twice"
            assert once.count("multiply") == 2 + questions_before


@in_loop
async def test_a_question_cancelled_while_it_waits_for_its_turn_sends_nothing() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf(2.0)
        first = await held(transport, value(x * 3.0))
        second = asyncio.create_task(value(x * 5.0))
        await asyncio.sleep(0)
        await cancelled(second)
        transport.answer.set()
        assert await first == 6.0
        assert await value(x * 7.0) == 14.0
        assert [each.seq for each in transport.flaky.requests] == [1, 2]


@over_each_transport
async def test_a_question_cancelled_after_any_number_of_turns_of_the_loop(target: str) -> None:
    async with bh.connect(target, timeout=60) as connection:
        await connection.ping()
        turns = 0
        while True:
            async with bh.Tape(connection) as tape:
                x = tape.leaf(3.0)
                y = x * 5.0
                task = asyncio.create_task(tape.pullback(y * y))
                for _ in range(turns):
                    await asyncio.sleep(0)
                done = task.done()
                task.cancel()
                await asyncio.wait([task])
                loss = y * x + 7.0
                assert (await tape.pullback(loss))[x] == 30.0, turns
                assert await value(loss) == 52.0, turns
                assert await value(y) == 15.0, turns
            if done:
                break
            turns += 1 + turns // 8
        assert turns > 1, "it was cancelled on its way"


@over_each_transport
async def test_many_questions_at_once_of_which_some_are_cancelled(target: str) -> None:
    async with bh.connect(target, timeout=60) as connection:
        rng = np.random.default_rng(20261202)

        async def work(number: int) -> bool:
            async with bh.Tape(connection) as tape:
                x = tape.leaf(float(number))
                y: Any = x
                for turn in range(5):
                    y = y + x
                    task = asyncio.create_task(tape.pullback(y * y))
                    if rng.random() < 0.5:
                        for _ in range(int(rng.integers(20))):
                            await asyncio.sleep(0)
                        task.cancel()
                        await asyncio.wait([task])
                        continue
                    if (await task)[x] != 2.0 * number * (turn + 2) ** 2:
                        return False
                return await value(y) == 6.0 * number

        assert all(await asyncio.gather(*map(work, range(40))))


@in_loop
async def test_asyncios_own_timeout_cancels_too() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf(2.0)
        transport.answer.clear()
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await value(x * 3.0)
        transport.answer.set()
        assert await value(x * 5.0) == 10.0


@in_loop
async def test_a_close_that_is_cancelled_is_made_up_for() -> None:
    async with bh.connect("embedded") as connection:
        tape = bh.Tape(connection)
        assert await value(tape.leaf(2.0) * 3.0) == 6.0
        closing = asyncio.create_task(tape.close())
        await asyncio.sleep(0)
        await cancelled(closing)
        await connection.ping()
        await connection.ping()
        assert connection.calls["CloseSession"] >= 1
        assert not connection._forgotten
        with pytest.raises(bh.SessionClosed):
            tape.leaf(1.0)


# Over gRPC and embedded, the server hears of it.


def test_the_server_hears_of_a_cancelled_task_and_of_a_timeout() -> None:
    heard = threading.Semaphore(0)

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        gone = threading.Event()
        context.add_callback(gone.set)
        entered.release()
        gone.wait(30)
        heard.release()
        return INFO

    entered = threading.Semaphore(0)

    async def main(target: str) -> None:
        async with bh.connect(target) as connection:
            task = asyncio.create_task(connection.info())
            await asyncio.to_thread(entered.acquire, timeout=30)
            await cancelled(task)
            assert await asyncio.to_thread(heard.acquire, timeout=30)
        async with bh.connect(target, timeout=2.0) as connection:
            with pytest.raises(bh.DeadlineExceeded, match=r"within 2.0 s.*timeout="):
                await connection.info()
            assert await asyncio.to_thread(heard.acquire, timeout=30)

    with answering(answer) as target:
        asyncio.run(main(target))


@pytest.mark.parametrize("how", ["cancel", "timeout"])
@in_loop
async def test_the_embedded_server_hears_of_it(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    async with bh.connect("embedded") as connection, bh.Tape(connection) as tape:
        x = tape.leaf(2.0)
        assert await value(x * 1.0) == 2.0
        transport: Any = connection._transport
        dispatcher = transport._dispatcher
        answer: Callable[..., Any] = dispatcher.answer
        entered, go, refused = threading.Event(), threading.Event(), threading.Event()

        def held(method: str, message: Any, arrays: Any, principal: str, call: Any) -> Any:
            entered.set()
            go.wait(30)
            try:
                return answer(method, message, arrays, principal, call)
            except (bh.Cancelled, bh.DeadlineExceeded):
                refused.set()
                raise

        monkeypatch.setattr(dispatcher, "answer", held)
        connection.timeout = 0.1 if how == "timeout" else None
        task = asyncio.create_task(value(x * 3.0))
        await asyncio.to_thread(entered.wait, 30)
        if how == "timeout":
            with pytest.raises(bh.DeadlineExceeded):
                await task
        else:
            await cancelled(task)
        go.set()
        assert await asyncio.to_thread(refused.wait, 30)
        monkeypatch.undo()
        connection.timeout = None
        assert await value(x * 5.0) == 10.0


# Lost calls, as in tests/client/test_session.py.


@pytest.mark.parametrize(
    "fates",
    [
        ["request"],
        ["answer"],
        ["request", "request"],
        ["request", None, "request"],
        ["request", None, "answer"],
        ["answer", "request"],
        ["answer", "answer"],
    ],
)
@in_loop
async def test_lost_calls_are_settled_by_the_next_question(
    fates: list[str | BaseException | None],
) -> None:
    async with gated() as (tape, transport):
        x = tape.leaf(2.0)
        assert await value(x * 1.0) == 2.0
        transport.flaky.lose = fates.copy()
        tensors = [x * 3.0]
        for _ in filter(None, fates):
            with pytest.raises(bh.Unavailable):
                await value(tensors[-1])
            tensors.append(tensors[-1] * 5.0)
        expected = [6.0 * 5.0**i for i in range(len(tensors))]
        assert [await value(each) for each in reversed(tensors)] == expected[::-1]


@in_loop
async def test_what_nothing_needs_is_left_out_of_a_refused_block() -> None:
    async with gated() as (tape, transport):
        small, large = tape.leaf(2.0), tape.leaf(np.zeros(1000))
        total = bh.sum(large * np.full(1000, 3.0))
        transport.flaky.lose = [make_error("MEMORY_LIMIT_EXCEEDED", "Too large.")]
        with pytest.raises(bh.MemoryLimitExceeded):
            await value(total)
        del large, total
        assert await value(small * small) == 4.0
        request = transport.flaky.requests[0]
        assert request.seq == 1
        assert [array.size for array in request.tensors] == [1]


@in_loop
async def test_a_block_that_the_server_forgot_is_sent_whole_again() -> None:
    async with gated() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        for _ in range(2):
            assert await value(bh.sum(x * x)) == 5.0
        dispatcher: Any = transport.flaky._dispatcher
        dispatcher._sessions._blocks._blocks.clear()
        assert await value(bh.sum(x * x)) == 5.0
        last = [each.block for each in transport.flaky.requests[-2:]]
        assert [each is not None and each.block is not None for each in last] == [False, True]
