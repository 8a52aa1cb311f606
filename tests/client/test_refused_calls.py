"""Calls that the server refused for a moment leave nothing behind when they were answered in the end."""

from __future__ import annotations

import asyncio
import gc
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import backhaul as bh
import backhaul.aio
from backhaul_proto.errors import make_error
from backhaul_server.engine.engine import Engine
from backhaul_server.service.admission import Slots
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry
from backhaul_server.service.server import Server


class EverySecond(Slots):
    """Refuses the first call of an `Execute`, and every other after it."""

    def __init__(self) -> None:
        super().__init__(8)
        self.refused = 0
        self._refuses = True

    def enter(self, principal: str, method: str) -> None:
        if method == "Execute":
            self._refuses = not self._refuses
            if not self._refuses:
                self.refused += 1
                raise make_error("SERVER_BUSY", "The server is full.", retry_after=0.001)
        super().enter(principal, method)


@pytest.fixture
def slots() -> EverySecond:
    return EverySecond()


@pytest.fixture
def targets(slots: EverySecond, tmp_path: Path) -> Iterator[dict[str, str]]:
    socket = f"unix:{tmp_path / 'socket'}"
    server = Server(
        Dispatcher(Engine()),
        ["127.0.0.1:0", socket],
        shared_memory=64 << 20,
        entry=Entry(admission=slots),
    )
    server.start()
    yield dict(zip(("tcp", "unix"), server.targets, strict=True))
    server.stop(None)


@pytest.fixture
def uncollected() -> Iterator[None]:
    gc.collect()
    gc.disable()
    yield
    gc.enable()


@pytest.mark.usefixtures("uncollected")
@pytest.mark.parametrize("way", ["tcp", "unix"])
@pytest.mark.parametrize("size", [2, 50_000])
def test_tensors_are_dropped_without_the_garbage_collector(
    targets: dict[str, str], slots: EverySecond, way: str, size: int
) -> None:
    with bh.connect(targets[way], timeout=60) as connection, bh.Tape(connection) as tape:

        def ask() -> weakref.ref[bh.TrackedTensor]:
            y = bh.sum(tape.leaf(np.ones(size)))
            assert float(y) == size
            return weakref.ref(y)

        dropped = [ask() for _ in range(3)]
        assert [each() for each in dropped] == [None] * 3
        assert slots.refused >= 3


@pytest.mark.usefixtures("uncollected")
def test_awaited_tensors_are_dropped_without_the_garbage_collector(
    targets: dict[str, str], slots: EverySecond
) -> None:
    async def work() -> None:
        connection = backhaul.aio.connect(targets["tcp"], timeout=60)
        async with connection, backhaul.aio.Tape(connection) as tape:

            async def ask() -> weakref.ref[Any]:
                y: Any = bh.sum(tape.leaf(np.ones(2)))
                assert float(await y.numpy()) == 2.0
                return weakref.ref(y)

            dropped = [await ask() for _ in range(3)]
            assert [each() for each in dropped] == [None] * 3
            assert slots.refused >= 3

    asyncio.run(work())
