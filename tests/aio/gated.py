"""A connection on which calls wait for the test, and can be lost, for what a tape does meanwhile."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

from tests.client.flaky import FlakyTransport

import backhaul.aio as bh
from backhaul.targets import Target
from backhaul.transport import Array, Reply
from backhaul.transport.aio import AsyncTransport


class GatedTransport(AsyncTransport):
    """The flaky transport, awaited: each Execute waits before it is run and before it is answered.

    Attributes:
        flaky: what runs the calls, remembers the requests, and loses them when told to.
        arrived: how many calls came to the first gate.
        ran: how many came to the second one.
        send: the first gate, open at the beginning.
        answer: the second one.
    """

    def __init__(self) -> None:
        super().__init__(Target("embedded", "embedded"))
        self.flaky = FlakyTransport()
        self.arrived, self.ran = asyncio.Semaphore(0), asyncio.Semaphore(0)
        self.send, self.answer = asyncio.Event(), asyncio.Event()
        self.send.set()
        self.answer.set()

    async def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        if method == "Execute":
            self.arrived.release()
            await self.send.wait()
        found = self.flaky._call(method, header, tensors, reply, timeout, session)
        if method == "Execute":
            self.ran.release()
            await self.answer.wait()
        return found

    async def _close(self) -> None:
        self.flaky.close()


@asynccontextmanager
async def gated() -> AsyncIterator[tuple[bh.Tape, GatedTransport]]:
    """A tape on such a connection, and its transport."""
    transport = GatedTransport()
    async with bh.connect("embedded") as connection:
        connection._transport = transport
        yield bh.Tape(connection), transport
