"""One ExecuteStream: chunks up, chunks down, reports to the thread that asks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from queue import SimpleQueue
from typing import Any, Final

import numpy as np

from backhaul.progress import Progress, Report
from backhaul_proto.chunks import CHUNK_BYTES, Incoming, Outgoing
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.v1 import service_pb2

Array = np.ndarray[Any, Any]

METHOD: Final = "ExecuteStream"
STREAM_BYTES: Final = 4 << 20
"""Arrays of a request, or of its answer, from which on a stream is faster than one message."""

Begin = Callable[[Iterator[bytes]], Any]
"""gRPC's call, begun with the messages to send: an iterator over those that come back."""


def may_repeat(error: BackhaulError) -> bool:
    """Whether a stream that failed so may be made again as a whole."""
    if error.reason == "SERVER_BUSY":
        return "streams" in error.details  # it has too many of them at the moment
    return error.reason in ("UNAVAILABLE", "CHUNK_CHECKSUM")


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
            for sent in iter(done.get, None):
                report(Progress(sent, outgoing.nbytes))
        return _receive(call, outgoing.nbytes, report)
    except BaseException:
        call.cancel()
        raise


def _counted(outgoing: Outgoing, done: SimpleQueue[int | None]) -> Iterator[bytes]:
    """The messages, with a count of the bytes of chunks that are written; None at their end."""
    for count, message in enumerate(outgoing):
        yield message
        if count:
            done.put(min(count * CHUNK_BYTES, outgoing.nbytes))
    done.put(None)


def _receive(
    call: Iterator[bytes], sent: int, report: Report | None
) -> tuple[service_pb2.ExecuteResponse, Sequence[Array]]:
    incoming: Incoming[service_pb2.ExecuteResponse] = Incoming(service_pb2.ExecuteStreamResponse)
    first = next(call, None)
    if first is None:
        raise make_error("MALFORMED_REQUEST", "The server's answer ended before its header.")
    header = incoming.begin(first)
    incoming.allocate()
    for message in call:
        incoming.feed(message)
        if report is not None:
            report(Progress(sent, sent, incoming.received, incoming.declared))
    return header, incoming.finish()
