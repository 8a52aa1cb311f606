"""A server at the other end of a gRPC channel, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import numpy as np

from backhaul.targets import Target
from backhaul.transport import Reply
from backhaul.transport.aio import AsyncTransport
from backhaul.transport.channel import ChannelUser
from backhaul.unusable import connection_closed
from backhaul_proto.messages import SERVICE

Array = np.ndarray[Any, Any]


class AsyncGrpcTransport(ChannelUser, AsyncTransport):
    """One channel of gRPC's asyncio client. Made in the event loop that uses it."""

    def __init__(
        self, target: Target, *, token: str | None = None, tls: Path | None = None
    ) -> None:
        super().__init__(target, token=token, tls=tls)
        self._wire: grpc.aio.Channel = self._channel(grpc.aio)
        self._stubs: dict[str, Any] = {}

    async def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        data = self._request(header, tensors)
        stub = self._stubs.get(method)
        if stub is None:
            stub = self._wire.unary_unary(f"/{SERVICE}/{method}", None, None)
            self._stubs[method] = stub
        try:
            response = await stub(data, timeout=timeout, metadata=self._metadata_of(session))
        except grpc.RpcError as failed:
            if self._closed:
                raise connection_closed(self.target) from None
            raise self._error(failed, timeout, len(data)) from None
        except grpc.aio.UsageError:
            if not self._closed:
                raise
            raise connection_closed(self.target) from None  # gRPC's for a closed channel
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
            raise connection_closed(self.target) from None  # so gRPC ends the calls of a channel
        return self._response(reply, response)

    async def _close(self) -> None:
        await self._wire.close()
