"""Leases under asyncio: renewed in the loop, with nothing left behind at its end."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Iterator

import numpy as np
import pytest

import backhaul.aio as bh
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

LEASE = 2.0


@pytest.fixture(scope="module")
def leased() -> Iterator[str]:
    """A server whose sessions end soon."""
    server = Server(Dispatcher(Engine(), lease=LEASE), ["127.0.0.1:0"])
    server.start()
    yield server.targets[0]
    server.stop(None)


def test_a_tape_outlives_its_lease_and_frees_what_is_dropped(leased: str) -> None:
    async def main() -> None:
        async with bh.connect(leased, timeout=30) as connection:
            tape = bh.Tape(connection)
            x, y = tape.leaf(np.arange(100.0)), tape.leaf(np.ones(100))
            await tape.flush()
            del y
            async with asyncio.timeout(120):
                while (await connection.sessions())[0].info.age_seconds < 3 * LEASE:
                    await asyncio.sleep(0.05)
            assert connection.calls["RenewLease"] >= 3
            assert (await connection.sessions())[0].info.nodes == 1
            assert await bh.sum(x + 1.0).item() == 5050.0

    asyncio.run(main())


def test_closing_the_connection_closes_its_sessions(leased: str) -> None:
    async def main() -> None:
        async with bh.connect(leased, timeout=30) as watcher:
            connection = bh.connect(leased, timeout=30)
            tape = bh.Tape(connection)
            tape.leaf(1.0)
            await tape.flush()
            assert len(await watcher.sessions()) == 1
            await connection.close()
            assert await watcher.sessions() == []

    asyncio.run(main())


def test_a_loop_that_ends_has_nothing_pending(
    leased: str, capfd: pytest.CaptureFixture[str]
) -> None:
    async def main() -> bh.Connection:
        connection = bh.connect(leased, timeout=30)
        tape = bh.Tape(connection)
        tape.leaf(1.0)
        await tape.flush()
        assert [each for each in asyncio.all_tasks() if each is not asyncio.current_task()] == []
        return connection

    loop = asyncio.new_event_loop()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        connection = loop.run_until_complete(main())
        loop.close()
    assert connection.stranded
    connection.abandon()
    assert "Task was destroyed" not in capfd.readouterr().err
