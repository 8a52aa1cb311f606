"""What is over the limit of a message streams, whether the client waits or is awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both, in_loop, value
from tests.client.proxy import Proxy
from tests.client.waiting import wait_until

import backhaul
import backhaul.aio as bh
from backhaul_proto.chunks import CHUNK_BYTES
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

Array = np.ndarray[Any, Any]
LIMIT = 1 << 16
COUNT = (2 * CHUNK_BYTES + 100) // 8


@pytest.fixture(scope="module")
def narrow() -> Iterator[Server]:
    """A server that takes messages of 64 kB."""
    running = Server(Dispatcher(Engine(), max_message_bytes=LIMIT, memory=1 << 28), ["127.0.0.1:0"])
    running.start()
    yield running
    running.stop(None)


@pytest.fixture(scope="module")
def target(narrow: Server) -> str:
    return narrow.targets[0]


def bits(count: int) -> Array:
    """float64 with any bits."""
    return np.random.default_rng(3).integers(0, 256, count * 8, np.uint8).view(np.float64)


@both
async def test_arrays_come_back_as_they_went(client: Client) -> None:
    with_limit = await client.ask(client.connection.info())
    assert with_limit.limits.max_message_bytes >= LIMIT
    for count in [*range(LIMIT // 8 - 12, LIMIT // 8 + 2), COUNT]:
        array = bits(count)
        y = client.bh.reshape(client.tape().leaf(array), (1, -1))
        assert (await client.ask(y.numpy())).tobytes() == array.tobytes()


@both
async def test_gradients_and_directions(client: Client) -> None:
    a, v = np.random.default_rng(0).normal(size=(2, COUNT))
    tape = client.tape()
    x = tape.leaf(a)
    found = await client.ask(tape.hvp(client.bh.sum(x * x * x), tangents={x: v}))
    np.testing.assert_allclose(found.gradients[x], 3 * a * a, rtol=1e-14)
    np.testing.assert_allclose(found.hvp[x], 6 * a * v, rtol=1e-14)


@both
async def test_what_never_fits_is_refused_and_the_tape_goes_on(client: Client) -> None:
    # A budget of its own, so that the server in this process refuses it too.
    tape = client.bh.Tape(client.connection, memory_limit=1 << 26)
    one = tape.leaf(1.0)
    large = tape.leaf(np.zeros((1 << 26) // 8 + 1))
    await client.error(backhaul.MemoryLimitExceeded, large.sum().numpy)
    del large
    assert float(await client.ask((one + 2.0).numpy())) == 3.0


@in_loop
async def test_the_way_is_chosen_by_size_and_known_limit(target: str) -> None:
    async with bh.connect(target, timeout=60) as connection:
        tape = bh.Tape(connection)
        assert await bh.sum(tape.leaf(np.ones(LIMIT // 8 + 100))).item() == LIMIT // 8 + 100
        assert connection.calls == {"Execute": 1, "ExecuteStream": 1}  # the limit was not known
        assert await bh.sum(tape.leaf(np.ones(LIMIT // 8 + 101))).item() == LIMIT // 8 + 101
        assert connection.calls == {"Execute": 1, "ExecuteStream": 2}
        assert await bh.sum(tape.leaf(np.ones(5))).item() == 5
        assert connection.calls == {"Execute": 2, "ExecuteStream": 2}


@in_loop
async def test_other_tasks_go_on_meanwhile(target: str) -> None:
    told: list[backhaul.Progress] = []
    async with bh.connect(target, timeout=60, progress=told.append) as connection:
        await connection.info()
        one, large = bh.Tape(connection), bh.Tape(connection)
        x, y = one.leaf(1.0), -large.leaf(np.ones(8 * CHUNK_BYTES // 8))
        asked = asyncio.ensure_future(value(y))
        during = 0
        while not asked.done():
            await value(x + float(during))
            during += 1
        assert await asked == -8 * CHUNK_BYTES // 8
        assert during > 1
    up = [each.sent for each in told if not each.to_receive]
    down = [each.received for each in told if each.to_receive]
    assert up == down == [n * CHUNK_BYTES for n in range(1, 9)]


class Stop(Exception):
    pass


@in_loop
async def test_what_progress_raises_ends_the_call_and_the_tape_goes_on(narrow: Server) -> None:
    stops = True

    def progress(now: backhaul.Progress) -> None:
        if stops and now.sent >= 2 * CHUNK_BYTES:
            raise Stop

    async with bh.connect(narrow.targets[0], timeout=60, progress=progress) as connection:
        y = -bh.Tape(connection).leaf(np.ones(8 * CHUNK_BYTES // 8))
        with pytest.raises(Stop):
            await value(y)
        stops = False
        assert await value(y) == -8 * CHUNK_BYTES // 8
    wait_until(lambda: narrow._stream._free._value == 16)


@in_loop
async def test_a_cancelled_task_ends_its_stream(narrow: Server) -> None:
    proxy = Proxy(narrow.targets[0])
    async with bh.connect(proxy.target, timeout=60) as connection:
        await connection.info()
        y = -bh.Tape(connection).leaf(np.ones(8 * CHUNK_BYTES // 8))
        proxy.reset()
        proxy.stall_up = 2 * CHUNK_BYTES
        asked = asyncio.ensure_future(value(y))
        while proxy.flowing.is_set():
            await asyncio.sleep(0.01)
        asked.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asked
        proxy.flowing.set()
        assert await value(y) == -8 * CHUNK_BYTES // 8
    proxy.close()
    wait_until(lambda: narrow._stream._free._value == 16)


@in_loop
async def test_an_upload_or_answer_that_breaks_is_made_again_and_runs_once(narrow: Server) -> None:
    proxy = Proxy(narrow.targets[0])
    async with bh.connect(proxy.target, timeout=60) as connection:
        await connection.info()
        tape = bh.Tape(connection)
        x = tape.leaf(np.ones(COUNT))
        assert await bh.sum(x).item() == COUNT
        for way in ("cut_up", "cut_down"):
            y = x * 2.0 if way == "cut_down" else x * np.full(COUNT, 2.0)
            seq, before = tape._core._session.last_seq, connection.calls["ExecuteStream"]
            proxy.reset()
            setattr(proxy, way, CHUNK_BYTES)
            assert await value(y) == 2 * COUNT
            assert tape._core._session.last_seq == seq + 1
            assert before + 2 <= connection.calls["ExecuteStream"] <= before + 4
    proxy.close()


@in_loop
async def test_a_deadline_in_the_middle(narrow: Server) -> None:
    proxy = Proxy(narrow.targets[0])
    async with bh.connect(proxy.target, timeout=60) as connection:
        await connection.info()
        y = -bh.Tape(connection).leaf(np.ones(8 * CHUNK_BYTES // 8))
        for connection.timeout in (0.5, 5, 50):  # on a busy machine it may pass before the middle
            proxy.reset()
            proxy.stall_up = CHUNK_BYTES
            with pytest.raises(backhaul.DeadlineExceeded):
                await value(y)
            if not proxy.flowing.is_set():
                break
        connection.timeout = 60
        assert not proxy.flowing.is_set()
        proxy.flowing.set()
        assert await value(y) == -8 * CHUNK_BYTES // 8
    proxy.close()
    wait_until(lambda: narrow._stream._free._value == 16)


@in_loop
async def test_a_connection_closed_in_the_middle(narrow: Server) -> None:
    proxy = Proxy(narrow.targets[0])
    connection = bh.connect(proxy.target, timeout=60)
    await connection.info()
    y = -bh.Tape(connection).leaf(np.ones(8 * CHUNK_BYTES // 8))
    proxy.reset()
    proxy.stall_up = 2 * CHUNK_BYTES
    asked = asyncio.ensure_future(value(y))
    while proxy.flowing.is_set():
        await asyncio.sleep(0.01)
    transport: Any = connection._transport
    await transport.close()
    with pytest.raises(backhaul.Unavailable, match="closed"):
        await asked
    proxy.flowing.set()
    proxy.close()
    wait_until(lambda: narrow._stream._free._value == 16)
