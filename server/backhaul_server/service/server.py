"""The gRPC front: a server whose handlers hand raw bytes to the dispatcher."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health, health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection

from backhaul_proto import codec, tensors
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import SERVICE, Array
from backhaul_proto.shared import SharedArray, side_socket
from backhaul_server.service.dispatch import HANDLERS, Dispatcher, guarded, request_type
from backhaul_server.service.shared_memory import Segments, is_supported
from backhaul_server.service.side_socket import SideSocket, remove_socket
from backhaul_server.service.status import DETAILS_KEY, code_of, cut, details_of
from backhaul_server.workers.call import Call

log = logging.getLogger("backhaul.server")

_STREAMED_TENSORS: Final = ("Execute",)
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

_MAX_UNIX_PATH: Final = 107


class Server:
    """A running backhaul server.

    Args:
        dispatcher: what answers the calls; closed with the server.
        addresses: where to listen: ``host:port`` (port 0: any free one) or ``unix:/path``.
        threads: how many calls may be in the server at once, waiting ones included.
        shared_memory: most bytes of memory shared with clients of unix sockets; 0: none is offered.

    Raises:
        InvalidArgument: INVALID_TARGET, an address that cannot be listened on.
    """

    def __init__(
        self,
        dispatcher: Dispatcher,
        addresses: Sequence[str],
        *,
        threads: int = 64,
        shared_memory: int = 0,
    ) -> None:
        self._dispatcher = dispatcher
        self._segments = Segments(shared_memory if is_supported() else 0)
        self._side_sockets: list[SideSocket] = []
        limit = dispatcher.limits.max_message_bytes
        self._server = grpc.server(
            ThreadPoolExecutor(threads, "backhaul-call"),
            handlers=[_Handlers(dispatcher, self._segments)],
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

    def start(self) -> None:
        """Answer calls from now on."""
        for side in self._side_sockets:
            side.start()
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
        for side in self._side_sockets:
            side.close()
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

    def __init__(self, dispatcher: Dispatcher, segments: Segments) -> None:
        self._methods: dict[str, Any] = {
            f"/{SERVICE}/{name}": grpc.unary_unary_rpc_method_handler(
                _Method(dispatcher, segments, name), None, None
            )
            for name in HANDLERS
        }

    def service(self, handler_call_details: Any) -> Any:
        return self._methods.get(handler_call_details.method)


class _Method:
    """One call of the service: bytes in, bytes out, errors as statuses."""

    def __init__(self, dispatcher: Dispatcher, segments: Segments, name: str) -> None:
        self._dispatcher = dispatcher
        self._segments = segments
        self._name = name
        self._request = request_type(name)

    def __call__(self, data: bytes, context: Any) -> bytes:
        started = time.monotonic()
        call = Call(context.time_remaining())
        context.add_callback(call.cancel)
        try:
            response = guarded(self._name, lambda: self._answer(data, call))
        except BackhaulError as error:
            log.info(
                "refused",
                extra={"method": self._name, "reason": error.reason, "ms": _ms(started)},
            )
            context.set_trailing_metadata(((DETAILS_KEY, details_of(error)),))
            context.abort(code_of(error), cut(error.message, 1024))
        log.debug("answered", extra={"method": self._name, "ms": _ms(started)})
        return response

    def _answer(self, data: bytes, call: Call) -> bytes:
        message: Any = codec.parse(self._request, data)
        if self._name not in _STREAMED_TENSORS:
            return self._joined(*self._dispatcher.answer(self._name, message, [], "", call))
        named = tensors.shared_arrays(message.tensors)
        buffers = codec.read_response_buffers(message)
        if not named and not buffers:
            arrays = tensors.read_all(message.tensors)
            return self._joined(*self._dispatcher.answer(self._name, message, arrays, "", call))
        with self._segments.request("", named, buffers) as lent:
            arrays = tensors.read_all(message.tensors, lent.read)
            header, results = self._dispatcher.answer(self._name, message, arrays, "", call)
            return self._joined(header, lent.put(results))

    def _joined(self, header: bytes, results: Sequence[Array | SharedArray]) -> bytes:
        inline = sum(each.nbytes for each in results if not isinstance(each, SharedArray))
        self._check_size(len(header) + inline)
        return tensors.join(header, results)

    def _check_size(self, nbytes: int) -> None:
        limit = self._dispatcher.limits.max_message_bytes
        if nbytes > limit:
            raise make_error(
                "MESSAGE_TOO_LARGE",
                f"The answer has {nbytes} bytes, the server sends at most {limit}. Ask for fewer arrays "
                "at once (wrt=), or raise the server's --max-message-bytes.",
                expected=limit,
                actual=nbytes,
            )


def _ms(started: float) -> float:
    return round((time.monotonic() - started) * 1e3, 3)


def _check_unix_path(path: str) -> None:
    if len(os.fsencode(path)) > _MAX_UNIX_PATH:
        raise make_error(
            "INVALID_TARGET",
            f"The socket path {path} has {len(os.fsencode(path))} bytes; unix sockets allow "
            f"{_MAX_UNIX_PATH}. Choose a shorter one.",
            actual=path,
        )
    if not Path(path).is_absolute() or not Path(path).parent.is_dir():
        raise make_error(
            "INVALID_TARGET",
            f"The socket path {path} must be absolute, in a directory that exists.",
            actual=path,
        )
