"""One test body for the client that waits and the one that is awaited, over each transport."""

from __future__ import annotations

import asyncio
import functools
import inspect
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

import pytest

import backhaul
import backhaul.aio


@dataclass(frozen=True, slots=True)
class Client:
    """A client and its connection.

    Attributes:
        bh: the module, `backhaul` or `backhaul.aio`.
        connection: one of its connections.
    """

    bh: Any
    connection: Any

    def tape(self) -> Any:
        """A new tape on the connection."""
        return self.bh.Tape(self.connection)

    async def ask(self, answer: Any) -> Any:
        """What a question gave, awaited where that is needed."""
        return await answer if inspect.isawaitable(answer) else answer

    async def error(self, kind: type[backhaul.BackhaulError], ask: Callable[[], Any]) -> Any:
        """The error that a question raises."""
        with pytest.raises(kind) as raised:
            await self.ask(ask())
        return raised.value

    def trips(self) -> int:
        """How many calls were made."""
        count: int = self.connection.calls.total()
        return count


Body = Callable[[Client], Awaitable[None]]


def both(body: Body) -> Callable[..., None]:
    """A test of this body with each client, over each transport."""

    def test(request: pytest.FixtureRequest, client: str, transport: str) -> None:
        target = "embedded" if transport == "embedded" else request.getfixturevalue("target")

        async def awaited() -> None:
            async with backhaul.aio.connect(target, timeout=60) as connection:
                await body(Client(backhaul.aio, connection))

        async def waited() -> None:
            with backhaul.connect(target, timeout=60) as connection:
                await body(Client(backhaul, connection))

        asyncio.run(awaited() if client == "awaited" else waited())

    test.__doc__ = body.__doc__
    test = pytest.mark.parametrize("transport", ["embedded", "grpc"])(test)
    return pytest.mark.parametrize("client", ["waited for", "awaited"])(test)


def in_loop(body: Callable[..., Awaitable[None]]) -> Callable[..., None]:
    """A test that runs this coroutine in an event loop."""

    @functools.wraps(body)
    def test(*arguments: Any, **named: Any) -> None:
        async def main() -> None:
            await body(*arguments, **named)

        asyncio.run(main())

    return test


async def value(tensor: Any) -> float:
    """The sum of a tensor's elements, its value asked for."""
    return float((await backhaul.aio.fetch(tensor))[0].sum())


def over_each_transport(body: Callable[[str], Awaitable[None]]) -> Callable[..., None]:
    """A test of this body with the target of each transport."""

    @pytest.mark.parametrize("transport", ["embedded", "grpc"])
    def test(request: pytest.FixtureRequest, transport: str) -> None:
        target = "embedded" if transport == "embedded" else request.getfixturevalue("target")

        async def main() -> None:
            await body(target)

        asyncio.run(main())

    return test
