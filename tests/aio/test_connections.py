"""Connections of one event loop: opened by the first call, shared by its tasks, closed once."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from typing import Any

import grpc
import numpy as np
import pytest
from google.rpc import error_details_pb2
from tests.aio.clients import in_loop, over_each_transport, value
from tests.client.answering import INFO, answering, refusing

import backhaul
import backhaul.aio as bh
from backhaul.aio import connection as module
from backhaul_proto.errors import REASONS


@over_each_transport
async def test_a_hundred_tasks_share_a_connection(target: str) -> None:
    async with bh.connect(target, timeout=60) as connection:

        async def work(number: int) -> bool:
            async with bh.Tape(connection) as tape:
                x = tape.leaf(np.full(3, float(number)))
                first = await tape.pullback(bh.sum(x * x))
                second, value = await asyncio.gather(
                    tape.pullback(bh.sum(x * x * x)), bh.fetch(x * 5.0)
                )
                return (
                    np.array_equal(first[x], np.full(3, 2.0 * number))
                    and np.array_equal(second[x], np.full(3, 3.0 * number**2))
                    and np.array_equal(value[0], np.full(3, 5.0 * number))
                )

        assert all(await asyncio.gather(*map(work, range(100))))
        assert connection.calls == {"Execute": 300, "CloseSession": 100}


@over_each_transport
async def test_values_of_several_tapes_are_fetched_together(target: str) -> None:
    async with bh.connect(target, timeout=60) as connection:
        tapes = [bh.Tape(connection) for _ in range(3)]
        tensors = [tape.leaf(float(i)) * 2.0 for i, tape in enumerate(tapes) for _ in range(2)]
        assert [float(each) for each in await bh.fetch(*tensors)] == [0.0, 0.0, 2.0, 2.0, 4.0, 4.0]
        assert connection.calls["Execute"] == 3
        assert await bh.fetch() == []


def test_connecting_sends_nothing_and_needs_no_loop() -> None:
    connection = bh.connect("localhost:1")
    x = bh.Tape(connection).leaf(1.0)
    assert connection.calls.total() == 0
    assert "localhost:1" in repr(connection)
    assert x.shape == ()

    async def ask() -> None:
        with pytest.raises(bh.Unavailable, match=r"localhost:1.*backhaul serve"):
            await connection.ping()
        await connection.close()

    asyncio.run(ask())


# One event loop


def reason_of(ask: Callable[[], Awaitable[Any]]) -> str:
    """The reason that a call fails for, in a new event loop."""

    async def main() -> str:
        with pytest.raises(bh.BackhaulError) as raised:
            await ask()
        assert isinstance(raised.value, bh.Unavailable)
        return raised.value.reason

    return asyncio.run(main())


@pytest.mark.parametrize("transport", ["embedded", "grpc"])
def test_another_event_loop_is_told_whether_the_first_is_closed_or_not(
    request: pytest.FixtureRequest, transport: str
) -> None:
    target = "embedded" if transport == "embedded" else request.getfixturevalue("target")
    connection = bh.connect(target, timeout=60)
    tape = bh.Tape(connection)
    x = tape.leaf(2.0)

    def from_another_thread() -> None:
        found.append(reason_of(lambda: value(x * 5.0)))

    found: list[str] = []

    async def main() -> None:
        assert await value(x * 3.0) == 6.0
        thread = threading.Thread(target=from_another_thread)
        thread.start()
        await asyncio.to_thread(thread.join)
        assert await value(x * 7.0) == 14.0

    asyncio.run(main())
    assert found == ["OTHER_EVENT_LOOP"]
    for ask in (connection.ping, connection.close, lambda: value(x * 5.0), tape.close):
        assert reason_of(ask) == "OTHER_EVENT_LOOP"
    connection.abandon()


def test_a_coroutine_that_is_stepped_without_a_loop_is_told() -> None:
    with pytest.raises(bh.Unavailable) as raised:
        bh.connect("embedded").ping().send(None)
    assert raised.value.reason == "OTHER_EVENT_LOOP"


def test_the_default_connection_is_one_for_one_loop_after_the_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("BACKHAUL_TARGET", raising=False)
    monkeypatch.setattr(module, "_default", module._Default())

    async def square() -> bh.Connection:
        first, second = bh.Tape(), bh.Tape()
        assert first._core.connection is second._core.connection
        x = first.leaf(3.0)
        assert (await first.pullback(x * x))[x] == 6.0
        return first._core.connection

    before = threading.active_count()
    connections = [asyncio.run(square()) for _ in range(3)]
    assert len({id(each) for each in connections}) == 3
    for each in connections[:2]:
        transport: Any = each._transport
        transport._threads.shutdown()
        assert not transport._dispatcher._worker._thread.is_alive()
    connections[2].abandon()
    assert threading.active_count() <= before + 2


def test_a_forked_process_is_told_and_makes_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BACKHAUL_TARGET", raising=False)
    monkeypatch.setattr(module, "_default", module._Default())

    async def square() -> float:
        tape = bh.Tape()
        x = tape.leaf(3.0)
        return float((await tape.pullback(x * x))[x])

    async def main() -> None:
        connection = bh.connect("embedded")
        tape = bh.Tape(connection)
        x = tape.leaf(1.0)
        assert await value(x * 2.0) == 2.0
        assert await square() == 6.0
        assert in_child(lambda: value(x * 3.0)) == "Unavailable FORKED"
        assert in_child(lambda: tape.pullback(x)) == "Unavailable FORKED"
        assert in_child(connection.ping) == "Unavailable FORKED"
        assert in_child(tape.close) == "None"
        assert in_child(square) == "6.0"
        assert await value(x * 3.0) == 3.0
        await connection.close()

    asyncio.run(main())


def in_child(work: Callable[[], Any]) -> str:
    """What a coroutine returns or raises in an event loop of a forked process, in words."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            said = repr(asyncio.run(work()))
        except BaseException as error:
            said = f"{type(error).__name__} {getattr(error, 'reason', error)}"
        os.write(writing, said.encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as pipe:
        said = pipe.read()
    os.waitpid(child, 0)
    return said


# Closing


@over_each_transport
async def test_every_use_after_close_says_so(target: str) -> None:
    unused = bh.connect(target)
    await unused.close()
    used = bh.connect(target)
    tape = bh.Tape(used)
    x = tape.leaf(1.0)
    assert await value(x * 2.0) == 2.0
    await used.close()
    await used.close()
    for ask in (unused.ping, used.ping, lambda: value(x * 3.0), used.info, used.ops):
        with pytest.raises(bh.Unavailable) as error:
            await ask()
        assert error.value.reason == "CONNECTION_CLOSED"
    await tape.close()


@over_each_transport
async def test_closing_closes_forgotten_tapes(target: str) -> None:
    connection = bh.connect(target)
    tape = bh.Tape(connection)
    assert await value(tape.leaf(1.0) * 2.0) == 2.0
    del tape
    await connection.close()
    assert connection.calls == {"Execute": 1, "CloseSession": 1}


def test_calls_under_way_end_with_the_connection() -> None:
    entered, go = threading.Semaphore(0), threading.Event()

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        entered.release()
        go.wait(120)
        return INFO

    async def main(target: str) -> None:
        connection = bh.connect(target)
        asked = asyncio.create_task(connection.info())
        await asyncio.to_thread(entered.acquire, timeout=120)
        await connection.close()
        with pytest.raises(bh.Unavailable) as error:
            await asked
        assert error.value.reason == "CONNECTION_CLOSED"
        go.set()

    with answering(answer) as target:
        asyncio.run(main(target))


@in_loop
async def test_a_first_question_that_is_cancelled_leaves_the_opening_to_the_next() -> None:
    async with bh.connect("embedded") as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(2.0)
        first = asyncio.create_task(value(x * 3.0))
        while (opening := connection._opening) is None:
            await asyncio.sleep(0)
        first.cancel()
        await asyncio.wait([first])
        assert await value(x * 5.0) == 10.0
        assert connection._opening is opening


# What travels, and what comes back


def test_session_and_token_travel_as_metadata() -> None:
    seen: list[dict[str, Any]] = []

    def answer(_: bytes, context: grpc.ServicerContext) -> bytes:
        seen.append(dict(context.invocation_metadata()))
        return b""

    async def main(target: str) -> None:
        async with bh.connect(target, token="secret", timeout=120) as connection:
            await connection.ping()
            connection.forget(b"\x0f" * 16, b"")
            await connection.ping()

    with answering(answer) as target:
        asyncio.run(main(target))
    assert [each.get("authorization") for each in seen] == ["Bearer secret"] * 3
    assert [each.get("backhaul-session") for each in seen] == [None, "0f" * 16, None]


@pytest.mark.parametrize("reason", sorted(REASONS))
def test_an_error_of_the_server_is_raised_as_it_was_there(reason: str) -> None:
    kind = REASONS[reason]
    told = error_details_pb2.ErrorInfo(reason=reason, domain="backhaul", metadata={"node": "7"})

    async def main(target: str) -> None:
        async with bh.connect(target, timeout=120) as connection:
            with pytest.raises(kind.error) as error:
                await connection.info()
            assert type(error.value) is kind.error
            assert error.value.reason == reason
            assert error.value.message == "What, why, what to do."
            assert error.value.details == {"node": "7"}

    answer = refusing(grpc.StatusCode[kind.status], told, message="What, why, what to do.")
    with answering(answer) as target:
        asyncio.run(main(target))


def test_requests_and_answers_that_are_too_large() -> None:
    async def main(target: str, message: str) -> None:
        async with bh.connect(target, timeout=120) as connection:
            x = bh.Tape(connection).leaf(np.ones(2000))
            with pytest.raises(bh.MessageTooLarge, match=message) as error:
                await value(x * 2.0)
            assert error.value.details["limit"] == "10000"

    with answering(lambda _, __: INFO) as target:
        asyncio.run(main(target, r"The request has 1[0-9],\d\d\d bytes"))

    async def ask(target: str) -> None:
        async with bh.connect(target, timeout=120) as connection:
            with pytest.raises(bh.MessageTooLarge, match="The answer has"):
                await connection.info()

    with answering(lambda _, __: bytes(20_000)) as target:
        asyncio.run(ask(target))


# What cannot be awaited


@in_loop
async def test_what_asks_without_awaiting_says_that_it_must_be_awaited() -> None:
    async with bh.connect("embedded") as connection, bh.Tape(connection) as tape:
        x = tape.leaf(2.0)
        y = x * 3.0
        mask, array = tape.leaf([1.0, 2.0]) > 1.5, tape.leaf([1.0, 2.0])
        asks: list[Callable[[], object]] = [
            lambda: float(y),
            lambda: int(y),
            lambda: complex(y),
            lambda: bool(y > 1.0),
            lambda: f"{y:.3f}",
            lambda: np.asarray(y),
            lambda: np.array([y, y]),
            lambda: array[mask],
            lambda: bh.linalg.svd_truncated(array * np.eye(2), cutoff=1e-3),
            lambda: backhaul.fetch(y),
            lambda: backhaul.contract_path("i->", array),
            lambda: backhaul.apply("of a plugin", y),
        ]
        for ask in asks:
            with pytest.raises(bh.InvalidArgument, match="await") as error:
                ask()
            assert error.value.reason == "MUST_BE_AWAITED"
        assert connection.calls.total() == 0
        assert "shape=()" in repr(y)
        assert f"{y}" == str(y)
        await bh.fetch(y, mask)
        with pytest.raises(bh.InvalidArgument):
            float(y)
        picked: Any = array[mask]  # typed as of the client that waits
        np.testing.assert_array_equal(await picked.numpy(), [2.0])
        assert connection.calls.total() == 2


@in_loop
async def test_the_two_clients_are_not_mixed() -> None:
    async with bh.connect("embedded") as connection:
        with backhaul.connect("embedded") as waiting:
            theirs, ours = backhaul.Tape(waiting).leaf(1.0), bh.Tape(connection).leaf(1.0)
            wrong: list[tuple[str, Callable[[], Any]]] = [
                ("INVALID_VALUE", lambda: bh.Tape(waiting)),  # type: ignore[arg-type]  # refused
                ("INVALID_VALUE", lambda: backhaul.Tape(connection)),  # type: ignore[arg-type]  # refused
                ("MISSING_NODE", lambda: ours + theirs),
            ]
            for reason, make in wrong:
                with pytest.raises(bh.BackhaulError) as error:
                    make()
                assert error.value.reason == reason
            asks: list[Callable[[], Awaitable[Any]]] = [
                lambda: bh.fetch(theirs),
                lambda: bh.contract_path("->", theirs),
                lambda: bh.contract_path("->", ours, connection=waiting),  # type: ignore[arg-type]  # refused
                lambda: bh.apply("of a plugin", theirs),
            ]
            for ask in asks:
                with pytest.raises(bh.InvalidArgument) as refused:
                    await ask()
                assert refused.value.reason == "INVALID_VALUE"


@in_loop
async def test_a_function_that_is_checked_may_be_awaited() -> None:
    async def f(x: Any) -> Any:
        scale = await bh.sum(x.detach() * 0.0 + 1.0).item()
        return bh.sum(bh.sin(x) * scale)

    async with bh.connect("embedded") as connection:
        report = await bh.check_grad(f, np.array([0.5, 1.0, -2.0]), connection=connection)
        assert report, report


def test_importing_the_client_that_waits_loads_no_asyncio() -> None:
    heavy = ("asyncio", "grpc", "google.protobuf", "backhaul.aio")
    code = f"import sys, backhaul; print([each for each in {heavy} if each in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
