"""Connections whose calls are awaited."""

from __future__ import annotations

import asyncio
import contextlib
import os
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import TYPE_CHECKING

from backhaul.aio.driver import drive
from backhaul.aio.renewal import Renewer
from backhaul.connection import CLOSED_AT_ONCE, CLOSING_SECONDS, AnyConnection
from backhaul.endpoint import endpoint
from backhaul.leases import Batch
from backhaul.progress import Progress
from backhaul.server_ops import OpInfo
from backhaul.tls import TLS
from backhaul.unusable import connection_closed, forked, other_event_loop
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.errors import BackhaulError
from backhaul_proto.messages import (
    Answer,
    ContractionCost,
    EndedSession,
    Execute,
    Inferred,
    ServerInfo,
    SessionSummary,
)

if TYPE_CHECKING:
    from backhaul.transport.aio import AsyncTransport

_nothing = contextlib.nullcontext()


def connect(
    target: str | None = None,
    *,
    token: str | None = None,
    tls: TLS | str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    progress: bool | Callable[[Progress], object] | None = None,
    recover: bool = False,
    recover_bytes: int | None = None,
) -> Connection:
    """Say where tapes send their work; as `backhaul.connect`, with the same arguments and errors.

    ``progress`` is called in the event loop. There is no ``shared_memory``.

    Example:
        >>> import asyncio
        >>> import backhaul.aio as bh
        >>> async def main():
        ...     async with bh.connect("embedded") as connection:
        ...         x = bh.Tape(connection).leaf([1.0, 2.0])
        ...         return await bh.sum(x).item()
        >>> asyncio.run(main())
        3.0
    """
    return Connection(endpoint(target, token, tls, timeout, None, progress, recover, recover_bytes))


class Connection(AnyConnection):
    """The way to one server, made by `connect`, for the tasks of one event loop: that of its first call.

    It is an async context manager: at its end it is closed.
    """

    _transport: AsyncTransport | None = None
    _loop: asyncio.AbstractEventLoop | None = None
    _process = 0
    _opening: asyncio.Future[Callable[[], AsyncTransport]] | None = None
    _renewer: Renewer | None = None

    @property
    def calls(self) -> Counter[str]:
        """How many calls were made so far, by their names in the protocol."""
        return Counter() if self._transport is None else self._transport.calls

    async def ping(self) -> float:
        """Seconds that a call takes to the server and back.

        Raises:
            TransportError: no server answers.
        """
        transport = await self._ready()
        start = time.perf_counter()
        await transport.server_info(timeout=self.timeout)
        return time.perf_counter() - start

    async def info(self) -> ServerInfo:
        """Version, backend and limits of the server.

        Raises:
            TransportError: no server answers.
        """
        return await (await self._ready()).server_info(timeout=self.timeout)

    async def ops(self) -> tuple[OpInfo, ...]:
        """The ops of the server, by name, with their documentation.

        Raises:
            TransportError: no server answers.
        """
        return await (await self._ready()).list_ops(timeout=self.timeout)

    async def sessions(self) -> list[SessionSummary]:
        """One's own sessions on the server, in the order in which they were opened.

        They are told apart by digests: nobody learns an id from the list.

        Raises:
            TransportError: no server answers.
        """
        return list(await (await self._ready()).list_sessions(timeout=self.timeout))

    async def close(self) -> None:
        """Close it, and with it the sessions of its tapes, which are of no use then.

        Sessions that are computing at the moment are left to their leases. Closing again does nothing.
        """
        self._closed = True
        if self._transport is None and self._opening is None:
            return
        self.check_loop()
        if self._renewer is not None:
            await self._renewer.stop()
        with contextlib.suppress(BackhaulError):
            transport = await self._opened()
            self._forgotten += self.leases.idle_sessions()
            await self._end_forgotten(
                transport, len(self._forgotten), timeout=self._bounded(CLOSING_SECONDS)
            )
            await transport.close()

    async def __aenter__(self) -> Connection:
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        await self.close()

    # For tapes

    def check_loop(self) -> None:
        """Raises Unavailable (OTHER_EVENT_LOOP) outside the event loop that it belongs to.

        It belongs to the one in which this is first called.
        """
        try:
            loop = asyncio.get_running_loop()
        except RuntimeError:
            raise other_event_loop(self._target) from None
        if self._loop is None:
            self._loop, self._process = loop, os.getpid()
        if self._process != os.getpid():
            raise forked(self._target)
        if self._loop is not loop:
            raise other_event_loop(self._target)

    @property
    def stranded(self) -> bool:
        """Whether the event loop that it belongs to was closed."""
        return self._loop is not None and self._loop.is_closed()

    def abandon(self) -> None:
        """Let go of the server without a call. For one that is stranded."""
        if self._transport is not None:
            self._transport.abandon()

    async def execute(self, request: Execute) -> Answer:
        """One request of a session."""
        transport = self._transport
        if transport is None or self._forgotten:
            transport = await self._ready()
        return await transport.execute(request, timeout=self.timeout)

    async def infer(self, op: str, avals: tuple[Aval, ...], attributes: Attributes) -> Inferred:
        """The results of an op that the client does not know: asked once for these arguments."""

        async def ask(asked: tuple[str, tuple[Aval, ...], Attributes]) -> Inferred:
            return await (await self._ready()).infer(*asked, timeout=self.timeout)

        return await drive(self._infer(op, avals, attributes), ask, _nothing)

    def inferred_before(
        self, op: str, avals: tuple[Aval, ...], attributes: Attributes
    ) -> Inferred | None:
        """What `infer` was answered before; None when it was not asked."""
        return self._inferred.get((op, avals, attributes))

    async def contract_path(
        self, avals: tuple[Aval, ...], attributes: Attributes, memory_limit: int, device: str = ""
    ) -> ContractionCost:
        """How the server would contract an einsum."""
        transport = await self._ready()
        return await transport.contract_path(
            avals, attributes, memory_limit, device, timeout=self.timeout
        )

    async def close_session(self, session: bytes, epoch: bytes) -> None:
        """Close a session if the server can be reached; if not, its lease ends it."""
        with contextlib.suppress(BackhaulError):
            transport = await self._ready()
            await transport.close_session(session, epoch, timeout=self._bounded(CLOSING_SECONDS))

    async def _ready(self) -> AsyncTransport:
        self.check_loop()
        if self._closed:
            raise connection_closed(self._target)
        transport = self._transport or await self._opened()
        if self._forgotten:
            await self._end_forgotten(
                transport, CLOSED_AT_ONCE, timeout=self._bounded(CLOSING_SECONDS)
            )
        return transport

    def _renew_from_now_on(self, sooner: bool) -> None:
        if self._renewer is None:
            self._renewer = Renewer(self, asyncio.get_running_loop())
            self._renewer.plan()
        elif sooner:
            self._renewer.plan()

    async def renew_leases(self) -> None:
        """Renew the leases of its tapes, and close the sessions of those that are gone."""
        transport = self._transport
        if transport is None:
            return
        timeout = self._bounded(max(1.0, self.leases.pause))

        async def renew(batch: Batch) -> Sequence[EndedSession]:
            return await transport.renew_lease(*batch, timeout=timeout)

        await drive(self.leases.renewing(), renew, _nothing)
        await self._end_forgotten(transport, len(self._forgotten), timeout=timeout)

    async def _end_forgotten(
        self, transport: AsyncTransport, at_most: int, *, timeout: float | None
    ) -> None:
        async def close(forgotten: tuple[bytes, bytes]) -> None:
            try:
                await transport.close_session(*forgotten, timeout=timeout)
            except asyncio.CancelledError:
                self._forgotten.append(forgotten)
                raise

        await drive(self._close_forgotten(at_most), close, _nothing)

    async def _opened(self) -> AsyncTransport:
        """The transport. What is imported and started for it takes long, and does so in a thread."""
        if self._transport is not None:
            return self._transport
        if self._opening is None:
            loop = asyncio.get_running_loop()
            self._opening = loop.run_in_executor(None, self._transport_maker)
        opening = self._opening
        try:
            make = await asyncio.shield(opening)  # another task may wait for it too
        except Exception:
            if self._opening is opening:
                self._opening = None
            raise
        if self._transport is None:
            self._transport = make()
        return self._transport

    def _transport_maker(self) -> Callable[[], AsyncTransport]:
        """What gives the transport in the loop. Runs on a thread."""
        target = self._target
        if target.kind == "embedded":
            from backhaul.transport.aio_embedded import AsyncEmbeddedTransport

            made = AsyncEmbeddedTransport(target)
            return lambda: made
        from backhaul.transport.aio_grpc import AsyncGrpcTransport

        at = self._endpoint
        return lambda: AsyncGrpcTransport(
            target, token=at.token, tls=at.tls, reporting=at.reporting, retries=self._retries()
        )


class _Default:
    """The connection of tapes that name none: one a process, for one event loop after the other."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._connection: Connection | None = None

    def get(self) -> Connection:
        with self._lock:
            kept = self._connection
            if kept is not None and self._process == os.getpid() and kept.stranded:
                kept.abandon()
                kept = None
            if kept is None or self._process != os.getpid():
                kept = self._connection = connect()
                self._process = os.getpid()
            return kept


_default = _Default()


def default_connection() -> Connection:
    """The connection to ``$BACKHAUL_TARGET``, else to a server inside this process.

    When the event loop that it belonged to was closed, a new one is made.
    """
    return _default.get()
