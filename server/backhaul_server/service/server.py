"""The gRPC front: a server whose handlers hand raw bytes to the dispatcher."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from backhaul_proto import codec, tensors
from backhaul_proto.chunks import MAX_CHUNK_BYTES
from backhaul_proto.errors import make_error
from backhaul_proto.messages import SERVICE, Array
from backhaul_proto.shared import MAX_SOCKET_PATH, SharedArray, is_supported, side_socket
from backhaul_server.service.dispatch import HANDLERS, Dispatcher, guarded, request_type
from backhaul_server.service.entry import Entry, Visit
from backhaul_server.service.shared_memory import Segments
from backhaul_server.service.side_socket import SideSocket, remove_socket
from backhaul_server.service.streams import METHOD as EXECUTE_STREAM
from backhaul_server.service.streams import ExecuteStream
from backhaul_server.sessions.reaper import Reaper
from backhaul_server.workers.call import Call

log = logging.getLogger("backhaul.server")

_TENSORS_BESIDE: Final = ("Execute",)
"""Calls whose message carries its tensors in field 15, beside the header."""

# The server tolerates the keepalive pings that our clients send (every 30 s, also without calls).
_OPTIONS: Final = (
    ("grpc.so_reuseport", 0),
    ("grpc.keepalive_time_ms", 60_000),
    ("grpc.keepalive_timeout_ms", 20_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.min_ping_interval_without_data_ms", 10_000),
    ("grpc.http2.max_ping_strikes", 0),
)

_CHUNK_FRAME: Final = 64
"""What a chunk's message has beside its data, at most."""


class Server:
    """A running backhaul server.

    Args:
        dispatcher: what answers the calls; closed with the server.
        addresses: where to listen: ``host:port`` (port 0: any free one) or ``unix:/path``.
        threads: how many calls may be in the server at once, waiting ones included; streams apart.
        streams: how many streams may be in the server at once.
        shared_memory: most bytes of memory shared with clients of unix sockets; 0: none is offered.
        entry: what stands at the door; left out: anybody may come in, and as many as there are threads.

    Attributes:
        targets: where it listens, as clients name it.

    Raises:
        InvalidArgument: INVALID_TARGET, an address that cannot be listened on.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        addresses: Sequence[str],
        *,
        threads: int = 64,
        streams: int = 16,
        shared_memory: int = 0,
        entry: Entry | None = None,
    ) -> None:
        entry = entry or Entry()
        self._dispatcher = dispatcher
        self._segments = Segments(shared_memory if is_supported() else 0)
        self._side_sockets: list[SideSocket] = []
        self._stream = ExecuteStream(dispatcher, entry, streams)
        self._reaper = Reaper(dispatcher.expire)
        # A chunk is taken whatever the limit is; other messages are checked against it here.
        limit = max(dispatcher.limits.max_message_bytes, MAX_CHUNK_BYTES + _CHUNK_FRAME)
        self._server = grpc.server(
            ThreadPoolExecutor(threads, "backhaul-call"),
            handlers=[_Handlers(dispatcher, entry, self._segments, self._stream)],
            options=[
                *_OPTIONS,
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
            ],
        )
        self._health = health.HealthServicer()
        health_pb2_grpc.add_HealthServicer_to_server(self._health, self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection.enable_server_reflection(names, self._server)
        self.targets = [self._listen(address) for address in addresses]

    @property
    def dispatcher(self) -> Dispatcher:
        """What answers the calls."""
        return self._dispatcher

    @property
    def segments(self) -> Segments:
        """The memory shared with clients."""
        return self._segments

    def start(self) -> None:
        """Answer calls from now on."""
        for side in self._side_sockets:
            side.start()
        self._reaper.start()
        self._server.start()
        for name in ("", SERVICE):
            self._health.set(name, health_pb2.HealthCheckResponse.SERVING)
        log.info("serving", extra={"targets": self.targets})

    def stop(self, grace: float | None) -> None:
        """Report NOT_SERVING, refuse new calls, wait up to ``grace`` seconds for those running.

        What still runs after that is cancelled; then the sessions are freed.
        """
        self._health.enter_graceful_shutdown()
        self._server.stop(grace).wait()
        self._stream.close()
        for side in self._side_sockets:
            side.close()
        self._reaper.stop()
        self._dispatcher.close()
        log.info("stopped")

    def _listen(self, address: str) -> str:
        unix = address.startswith("unix:")
        path = address.removeprefix("unix:").removeprefix("//") if unix else ""
        if unix:
            _check_unix_path(path)
        try:
            port = self._server.add_insecure_port(f"unix:{path}" if unix else address)
        except RuntimeError:
            port = 0
        if not port:
            raise make_error(
                "INVALID_TARGET",
                f"Cannot listen on {address}: it is in use by another program, or is no address of this "
                "machine. Choose another port (0 takes any free one) or host.",
                actual=address,
            )
        if unix:
            self._offer_shared_memory(path)
        return f"unix://{path}" if unix else f"grpc://{address.rpartition(':')[0]}:{port}"

    def _offer_shared_memory(self, path: str) -> None:
        beside = side_socket(os.fsencode(path))
        if beside is None or not is_supported():
            return
        try:
            if self._segments.limit:
                self._side_sockets.append(SideSocket(beside, self._segments))
            else:
                remove_socket(beside)  # an earlier server's: clients are not to wait there
        except OSError as error:
            log.warning(
                "no shared memory", extra={"path": os.fsdecode(beside), "error": str(error)}
            )


class _Handlers(grpc.GenericRpcHandler):
    """The service's methods, as handlers of raw bytes: what cannot be parsed gets a typed error too."""

    def __init__(
        self, dispatcher: Dispatcher, entry: Entry, segments: Segments, stream: ExecuteStream
    ) -> None:
        self._methods: dict[str, Any] = {
            f"/{SERVICE}/{name}": grpc.unary_unary_rpc_method_handler(
                _Method(dispatcher, entry, segments, name), None, None
            )
            for name in HANDLERS
        }
        self._methods[f"/{SERVICE}/{EXECUTE_STREAM}"] = grpc.stream_stream_rpc_method_handler(
            stream, None, None
        )

    def service(self, handler_call_details: Any) -> Any:
        return self._methods.get(handler_call_details.method)


class _Method:
    """One call of the service: bytes in, bytes out, errors as statuses."""

    def __init__(self, dispatcher: Dispatcher, entry: Entry, segments: Segments, name: str) -> None:
        self._dispatcher = dispatcher
        self._entry = entry
        self._segments = segments
        self._name = name
        self._request = request_type(name)

    def __call__(self, data: bytes, context: Any) -> bytes:
        with self._entry.visit(self._name, context) as visit:
            return guarded(self._name, lambda: self._answer(data, visit))

    def _answer(self, data: bytes, visit: Visit) -> bytes:
        limit = self._dispatcher.limits.max_message_bytes
        if len(data) > limit:
            raise make_error(
                "MESSAGE_TOO_LARGE",
                f"The request has {len(data)} bytes, the server takes at most {limit}. Send an Execute by "
                f"{EXECUTE_STREAM}, in pieces; or raise the server's --max-message-bytes.",
                too_large="request",
                limit=limit,
                actual=len(data),
            )
        message: Any = codec.parse(self._request, data)
        try:
            return self._answered(message, limit, visit.principal, visit.call)
        except Exception:
            visit.note_session(message)
            raise

    def _answered(self, message: Any, limit: int, principal: str, call: Call) -> bytes:
        if self._name not in _TENSORS_BESIDE:
            return _joined(
                *self._dispatcher.answer(self._name, message, [], principal, call), limit
            )
        limit = min(limit, message.max_response_bytes or limit)
        named = tensors.shared_arrays(message.tensors)
        buffers = codec.read_response_buffers(message)
        if not named and not buffers:
            arrays = tensors.read_all(message.tensors)
            answer = self._dispatcher.answer(self._name, message, arrays, principal, call)
            return _joined(*answer, limit)
        with self._segments.request(principal, named, buffers) as lent:
            arrays = tensors.read_all(message.tensors, lent.read)
            header, results = self._dispatcher.answer(self._name, message, arrays, principal, call)
            return _joined(header, lent.put(results), limit)


def _joined(header: bytes, results: Sequence[Array | SharedArray], limit: int) -> bytes:
    nbytes = tensors.length(header, results)
    if nbytes > limit:
        raise make_error(
            "MESSAGE_TOO_LARGE",
            f"The answer has {nbytes} bytes; the call, or the server, allows {limit}. What was to be done is "
            f"done. Ask an Execute again by {EXECUTE_STREAM}; or ask for fewer arrays at once (wrt=), or "
            "raise the server's --max-message-bytes.",
            too_large="answer",
            needed=nbytes,
            limit=limit,
        )
    return tensors.join(header, results)


def _check_unix_path(path: str) -> None:
    if len(os.fsencode(path)) > MAX_SOCKET_PATH:
        raise make_error(
            "INVALID_TARGET",
            f"The socket path {path} has {len(os.fsencode(path))} bytes; unix sockets allow "
            f"{MAX_SOCKET_PATH}. Choose a shorter one.",
            actual=path,
        )
    if not Path(path).is_absolute() or not Path(path).parent.is_dir():
        raise make_error(
            "INVALID_TARGET",
            f"The socket path {path} must be absolute, in a directory that exists.",
            actual=path,
        )
