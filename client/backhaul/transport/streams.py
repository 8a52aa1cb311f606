"""One ExecuteStream: chunks up, chunks down, reports to who asks: waiting, or awaited."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Coroutine, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Final

import grpc.aio
import numpy as np

from backhaul.progress import Progress, Report
from backhaul_proto.chunks import CHUNK_BYTES, Incoming, Outgoing
from backhaul_proto.errors import make_error
from backhaul_proto.v1 import service_pb2

Array = np.ndarray[Any, Any]

METHOD: Final = "ExecuteStream"

_OF_A_WRITE: Final = "Internal error from Core"
_STATUS_SECONDS: Final = 1.0

Begin = Callable[[Iterator[bytes]], Any]
"""gRPC's call, begun with the messages to send: an iterator over those that come back."""


def converse(
    begin: Begin, outgoing: Outgoing, report: Report | None
) -> tuple[service_pb2.ExecuteResponse, Sequence[Array]]:
    """Send a request and receive its answer.

    Args:
        begin: begins the call. gRPC takes the messages on a thread of its own, one when the one before was
            written, so that few wait in memory; likewise those that come back.
        outgoing: the request.
        report: is told how far it is, on this thread.

    Returns:
        The answer's header, and its arrays.

    Raises:
        grpc.RpcError: as the call.
        BackhaulError: CHUNK_CHECKSUM, MALFORMED_REQUEST: what came is no answer.
    """
    done: SimpleQueue[int | None] = SimpleQueue()  # a signal's exception leaves it whole
    call = begin(_counted(outgoing, done))
    try:
        if report is not None:
            if not call.add_callback(lambda: done.put(None)):  # it has ended already
                done.put(None)
            for count in iter(done.get, None):
                report(_sent(count, outgoing))
        received: _Received | None = None
        for message in call:
            if received is None:
                received = _Received(message, outgoing.nbytes)
            else:
                received.feed(message, report)
        return _whole(received)
    except BaseException:
        call.cancel()
        raise


def _counted(outgoing: Outgoing, done: SimpleQueue[int | None]) -> Iterator[bytes]:
    """The messages, with a count of the chunks that are written; None at their end."""
    for count, message in enumerate(outgoing):
        yield message
        if count:
            done.put(count)
    done.put(None)


async def converse_awaited(
    call: Any, outgoing: Outgoing, report: Report | None
) -> tuple[service_pb2.ExecuteResponse, Sequence[Array]]:
    """The same, awaited.

    Args:
        call: gRPC's, of its asyncio client, begun. It writes and reads as it is told, one message at a time.
        outgoing: the request.
        report: is told how far it is, in the event loop.
    """
    end = _End(call)
    try:
        try:
            for count, message in enumerate(outgoing):
                await call.write(message)
                if count and report is not None:
                    report(_sent(count, outgoing))
            await call.done_writing()
        except (asyncio.InvalidStateError, grpc.aio.AioRpcError) as broken:
            error = await end.error()
            raise broken if error is None else error from None
        received: _Received | None = None
        while (message := await call.read()) is not grpc.aio.EOF:
            if received is None:
                received = _Received(message, outgoing.nbytes)
            else:
                received.feed(message, report)
        return _whole(received)
    except BaseException:
        call.cancel()
        raise


class _End:
    """How a call of gRPC's asyncio client ended.

    A write to a call that has ended makes an internal error of its status, before it is read or after.
    """

    def __init__(self, call: Any) -> None:
        self._known = asyncio.Event()
        self._error: grpc.aio.AioRpcError | None = None
        call.add_done_callback(self._note)

    async def error(self) -> grpc.aio.AioRpcError | None:
        """The server's status or gRPC's; None where it is not known after a while."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._known.wait(), _STATUS_SECONDS)
        return self._error

    def _note(self, call: Any) -> None:
        # It is called at each status, and what is asked here is there: nothing waits.
        details = _at_once(call.details())
        if details == _OF_A_WRITE:
            return
        trailing = _at_once(call.trailing_metadata())
        code = _at_once(call.code())
        self._error = grpc.aio.AioRpcError(code, grpc.aio.Metadata(), trailing, details)
        self._known.set()


def _at_once(coroutine: Coroutine[Any, Any, Any]) -> Any:
    """The result of a coroutine that waits for nothing."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise AssertionError("it waits")


def _sent(count: int, outgoing: Outgoing) -> Progress:
    """How far it is when so many chunks were written."""
    return Progress(min(count * CHUNK_BYTES, outgoing.nbytes), outgoing.nbytes)


class _Received:
    """What has come of an answer.

    Args:
        first: its first message.
        sent: bytes of the request's chunks, for reports.
    """

    def __init__(self, first: bytes, sent: int) -> None:
        self._sent = sent
        self._incoming: Incoming[service_pb2.ExecuteResponse] = Incoming(
            service_pb2.ExecuteStreamResponse
        )
        self.header = self._incoming.begin(first)
        self._incoming.allocate()

    def feed(self, message: bytes, report: Report | None) -> None:
        incoming = self._incoming
        incoming.feed(message)
        if report is not None:
            report(Progress(self._sent, self._sent, incoming.received, incoming.declared))

    def finish(self) -> Sequence[Array]:
        return self._incoming.finish()


def _whole(received: _Received | None) -> tuple[service_pb2.ExecuteResponse, Sequence[Array]]:
    if received is None:
        raise make_error("MALFORMED_REQUEST", "The server's answer ended before its header.")
    return received.header, received.finish()
