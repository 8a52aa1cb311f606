"""ExecuteStream: an Execute whose request and answer travel in chunks, of any size."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

from backhaul_proto.chunks import Incoming, Outgoing
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.v1 import service_pb2
from backhaul_server.service.entry import Entry, Visit
from backhaul_server.service.host import Host
from backhaul_server.service.incidents import guarded

METHOD: Final = "ExecuteStream"
_REFUSING: Final = 4
"""Threads beyond those of the streams: they tell further ones that the server is busy."""

_TRY_AGAIN: Final = 0.2
"""Seconds after which one that was refused may come again."""


class ExecuteStream:
    """The call, as gRPC's handler: messages as bytes in and out, errors as statuses.

    A stream holds a thread as long as it lasts, so these have a pool of their own, which gRPC finds by the
    attribute ``experimental_thread_pool``.

    Args:
        host: what answers.
        entry: what stands at the door.
        streams: how many there may be at once.
    """

    def __init__(self, host: Host, entry: Entry, streams: int) -> None:
        self._host = host
        self._entry = entry
        self._streams = streams
        self._free = threading.Semaphore(streams)
        self.experimental_thread_pool = ThreadPoolExecutor(streams + _REFUSING, "backhaul-stream")

    def __call__(self, messages: Iterator[bytes], context: Any) -> Iterator[bytes]:
        with self._entry.visit(METHOD, context) as visit:
            if not self._free.acquire(blocking=False):
                raise self._busy()
            try:
                answer = guarded(METHOD, lambda: self._answer(_received(messages), visit))
                yield from answer
            finally:
                self._free.release()

    def close(self) -> None:
        """No more streams come."""
        self.experimental_thread_pool.shutdown(wait=False)

    def _answer(self, messages: Iterator[bytes], visit: Visit) -> Outgoing:
        incoming: Incoming[service_pb2.ExecuteRequest] = Incoming(service_pb2.ExecuteStreamRequest)
        first = next(messages, None)
        if first is None:
            raise make_error(
                "MALFORMED_REQUEST", "The stream ended before its header, the first message."
            )
        request = incoming.begin(first)
        try:
            with self._host.arriving(
                request, incoming.declared, visit.principal, visit.call
            ) as answer:
                incoming.allocate()
                for message in messages:
                    incoming.feed(message)
                return Outgoing(*answer(incoming.finish()))
        except Exception:
            visit.note_session(request)
            raise

    def _busy(self) -> BackhaulError:
        return make_error(
            "SERVER_BUSY",
            f"The server carries {self._streams} large requests and answers already, and takes no more at "
            "once. Nothing was run. Try again later, or start it with a larger --streams.",
            streams=self._streams,
            retry_after=_TRY_AGAIN,
        )


def _received(messages: Iterator[bytes]) -> Iterator[bytes]:
    """The messages; gRPC's error, when it is broken off, as ours."""
    try:
        yield from messages
    except grpc.RpcError as error:
        # gRPC's call refers to it, and it to its frames, and so to the call: a message would stay in memory.
        error.__traceback__ = None
        broken = True
    else:
        broken = False
    if broken:
        raise make_error(
            "CANCELLED",
            "The call was cancelled, or its connection broke, before all of it had come.",
        )
