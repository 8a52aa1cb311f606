"""A server at the other end of a gRPC channel, awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext
from typing import Any

import grpc
import grpc.aio
import numpy as np

from backhaul.aio.driver import drive
from backhaul.progress import Reporting
from backhaul.retries import Attempt, Pause, Retries, may_repeat
from backhaul.targets import Target
from backhaul.tls import TLS
from backhaul.transport import Reply, calls
from backhaul.transport.aio import AsyncTransport
from backhaul.transport.calls import Call, Result
from backhaul.transport.channel import ChannelUser
from backhaul.transport.delivery import Step, Whole, deliver, nbytes
from backhaul.transport.streams import METHOD, converse_awaited
from backhaul.unusable import connection_closed
from backhaul_proto.chunks import Outgoing
from backhaul_proto.messages import SERVICE, Answer, Execute

Array = np.ndarray[Any, Any]


class AsyncGrpcTransport(ChannelUser, AsyncTransport):
    """One channel of gRPC's asyncio client. Made in the event loop that uses it.

    Args:
        target: where to; not an embedded one.
        token: sent with each call as a bearer token.
        tls: what is shown and checked by TLS; None: the server's certificate, by the system's roots.
        reporting: is told how far streams are.
        retries: when a call that failed is made again.
    """

    def __init__(
        self,
        target: Target,
        *,
        token: str | None = None,
        tls: TLS | None = None,
        reporting: Reporting | None = None,
        retries: Retries | None = None,
    ) -> None:
        super().__init__(target, token=token, tls=tls)
        self._reporting = reporting
        self._retries = retries or Retries()
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
        with self._calling(method, session) as metadata, self._errors(timeout, len(data)):
            response = await stub(data, timeout=timeout, metadata=metadata)
        return self._response(reply, response)

    async def execute(self, request: Execute, *, timeout: float | None) -> Answer:
        call = calls.execute(request)

        async def do(step: Step) -> Answer | None:
            match step:
                case Whole(timeout):
                    return await self._make(call, timeout)
                case Attempt(left):
                    return await self._stream(call, left)
                case Pause(seconds):
                    await asyncio.sleep(seconds)
                    return None

        work = deliver(request, call, self.limits, self._retries, timeout)
        answer = await drive(work, do, nullcontext())
        self._note(answer)
        return answer

    async def _ask(self, made: Call[Result], timeout: float | None) -> Result:
        async def do(step: Attempt | Pause) -> Result | None:
            if isinstance(step, Attempt):
                return await self._make(made, step.left)
            await asyncio.sleep(step.seconds)
            return None

        found: Result = await drive(self._retries.steps(timeout, may_repeat), do, nullcontext())
        return found

    async def _stream(self, call: Call[Answer], timeout: float | None) -> Answer:
        """One try of an ExecuteStream."""
        self._check_usable()
        self.calls[METHOD] += 1
        outgoing = Outgoing(call.header, call.tensors)
        with (
            self._calling(METHOD, call.session) as metadata,
            self._errors(timeout, nbytes(call)),
        ):
            stub: Any = self._wire.stream_stream(f"/{SERVICE}/{METHOD}", None, None)
            begun = stub(timeout=timeout, metadata=metadata)
            with nullcontext() if self._reporting is None else self._reporting() as report:
                return call.read(*await converse_awaited(begun, outgoing, report))

    @contextmanager
    def _errors(self, timeout: float | None, size: int) -> Iterator[None]:
        """What gRPC raises inside, as ours."""
        try:
            yield
        except grpc.RpcError as failed:
            failed.__traceback__ = None  # our frames hold the call, and the call the error
            if self._closed:
                raise connection_closed(self.target) from None
            raise self._error(failed, timeout, size) from None
        except grpc.aio.UsageError:
            if not self._closed:
                raise
            raise connection_closed(self.target) from None  # gRPC's for a closed channel
        except asyncio.CancelledError:
            task = asyncio.current_task()
            if not self._closed or (task is not None and task.cancelling()):
                raise
            raise connection_closed(self.target) from None  # so gRPC ends the calls of a channel

    async def _close(self) -> None:
        await self._wire.close()
