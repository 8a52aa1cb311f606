"""How requests reach a server from an event loop: `Transport` with calls that are awaited."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence

from backhaul.server_ops import OpInfo
from backhaul.transport import Array, Reply, TransportState, calls
from backhaul.transport.calls import Call, Result
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.messages import (
    Answer,
    ContractionCost,
    EndedSession,
    Execute,
    Inferred,
    Renewal,
    ServerInfo,
    SessionInfo,
    SessionSummary,
)


class AsyncTransport(TransportState, ABC):
    """The way to one server, for the tasks of one event loop. They may share it."""

    async def call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        *,
        timeout: float | None,
        session: bytes | None = None,
    ) -> tuple[Reply, Sequence[Array]]:
        """Make one call; its arguments, result and errors are those of `Transport.call`.

        A cancelled task cancels the work on the server.
        """
        self._check_usable()
        self.calls[method] += 1
        return await self._call(method, header, tensors, reply, timeout, session)

    @abstractmethod
    async def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]: ...

    async def close(self) -> None:
        """Let go of the server. Calls that wait for an answer end with CONNECTION_CLOSED."""
        if not self._closed and os.getpid() == self._process:
            self._closed = True
            await self._close()

    @abstractmethod
    async def _close(self) -> None: ...

    def abandon(self) -> None:
        """Let go of the server once the event loop is closed. It is the server that notices."""

    async def execute(self, request: Execute, *, timeout: float | None) -> Answer:
        answer = await self._make(calls.execute(request), timeout)
        self._note(answer)
        return answer

    async def close_session(self, session: bytes, epoch: bytes, *, timeout: float | None) -> None:
        await self._ask(calls.close_session(session, epoch), timeout)

    async def get_session(
        self, session: bytes, epoch: bytes, *, timeout: float | None
    ) -> SessionInfo:
        return await self._ask(calls.get_session(session, epoch), timeout)

    async def renew_lease(
        self, epoch: bytes, renewals: Sequence[Renewal], *, timeout: float | None
    ) -> tuple[EndedSession, ...]:
        return await self._make(calls.renew_lease(epoch, renewals), timeout)

    async def list_sessions(self, *, timeout: float | None) -> tuple[SessionSummary, ...]:
        return await self._ask(calls.list_sessions(), timeout)

    async def server_info(self, *, timeout: float | None) -> ServerInfo:
        info = await self._ask(calls.server_info(), timeout)
        self._keep_to(info.limits)
        return info

    async def list_ops(self, *, timeout: float | None) -> tuple[OpInfo, ...]:
        return await self._ask(calls.list_ops(), timeout)

    async def infer(
        self, op: str, avals: Sequence[Aval], attributes: Attributes, *, timeout: float | None
    ) -> Inferred:
        return await self._ask(calls.infer(op, avals, attributes), timeout)

    async def contract_path(
        self,
        avals: Sequence[Aval],
        attributes: Attributes,
        memory_limit: int,
        device: str = "",
        *,
        timeout: float | None,
    ) -> ContractionCost:
        made = calls.contract_path(avals, attributes, memory_limit, device)
        return await self._ask(made, timeout)

    async def _ask(self, made: Call[Result], timeout: float | None) -> Result:
        """A call that does no harm if it is made twice."""
        return await self._make(made, timeout)

    async def _make(self, made: Call[Result], timeout: float | None) -> Result:
        method, header, tensors, reply, read, session = made
        message, arrays = await self.call(
            method, header, tensors, reply, timeout=timeout, session=session
        )
        return read(message, arrays)
