"""The gRPC front: a server whose handlers hand raw bytes to the host."""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, Final

import grpc
from grpc_health.v1 import health
from grpc_reflection.v1alpha import reflection, reflection_pb2_grpc

from backhaul_proto import codec, tensors
from backhaul_proto.chunks import MAX_CHUNK_BYTES
from backhaul_proto.errors import BackhaulError, InvalidArgument, make_error
from backhaul_proto.messages import SERVICE, Array
from backhaul_proto.shared import MAX_SOCKET_PATH, SharedArray, is_supported, side_socket
from backhaul_server.exposure import check_exposure
from backhaul_server.service.access import Tokens, unauthenticated
from backhaul_server.service.admission import REFUSING, RESERVE, Slots
from backhaul_server.service.certificates import Certificates
from backhaul_server.service.dispatch import HANDLERS
from backhaul_server.service.entry import Access, Entry, Open, Visit
from backhaul_server.service.health import Health
from backhaul_server.service.health_port import HealthPort, listen
from backhaul_server.service.host import Host, request_type
from backhaul_server.service.incidents import guarded
from backhaul_server.service.shared_memory import Segments
from backhaul_server.service.side_socket import SideSocket, remove_socket
from backhaul_server.service.status import refuse
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

_LAST: Final = 0.5
"""Seconds that what is cut off at the end gets to end by itself."""

_FAREWELL: Final = 0.1
"""Seconds that answers already written get to leave."""

_COUNTED_FROM: Final = 1 << 20
"""Bytes of a message from which on it counts as memory of its own."""
_CHUNK_FRAME: Final = 64
"""What a chunk's message has beside its data, at most."""


class Server:
    """A running backhaul server.

    Args:
        host: what answers the calls; closed with the server.
        addresses: where to listen: ``host:port`` (port 0: any free one) or ``unix:/path``.
        threads: how many calls may be in the server at once, waiting ones included; streams apart.
        streams: how many streams may be in the server at once.
        shared_memory: most bytes of memory shared with clients of unix sockets; 0: none is offered.
        entry: what stands at the door; left out: anybody may come in, and as many as there are threads.
        certificates: for TLS on the TCP addresses; None: calls travel in the clear.
        max_connection_age: seconds after which a client has to connect again, and its certificate is looked
            at again; None: never.
        insecure: whether to listen beyond this machine in the clear or for anybody.
        health_address: where to answer health checks alone, in the clear; None: nowhere else.

    Attributes:
        targets: where it listens, as clients name it.

    Raises:
        InvalidArgument: INVALID_TARGET, an address that cannot be listened on; INSECURE_ADDRESS.
    """

    def __init__(
        self,
        host: Host,
        addresses: Sequence[str],
        *,
        threads: int = 64,
        streams: int = 16,
        shared_memory: int = 0,
        entry: Entry | None = None,
        certificates: Certificates | None = None,
        max_connection_age: float | None = None,
        insecure: bool = False,
        health_address: str | None = None,
    ) -> None:
        entry = entry or Entry(admission=Slots(threads))
        mutual = certificates is not None and certificates.mutual
        try:
            check_exposure(
                addresses,
                encrypted=certificates is not None,
                authenticated=mutual or not isinstance(entry.access, Open),
            )
        except InvalidArgument as refused:
            if not insecure or refused.reason != "INSECURE_ADDRESS":
                raise
            log.warning("insecure", extra={"address": refused.details["actual"]})
        self._credentials = None if certificates is None else certificates.credentials()
        self._drain = entry.drain
        self._host = host
        self._access = entry.access
        self._segments = Segments(shared_memory if is_supported() else 0)
        self._side_sockets: list[SideSocket] = []
        self._stream = ExecuteStream(host, entry, streams)
        self._reaper = Reaper(host.expire)
        # A chunk is taken whatever the limit is; other messages are checked against it here.
        limit = max(host.limits.max_message_bytes, MAX_CHUNK_BYTES + _CHUNK_FRAME)
        self._server = grpc.server(
            # More than there may be calls: a further one is refused at once, and waits in no queue of gRPC's.
            ThreadPoolExecutor(threads + RESERVE + REFUSING, "backhaul-call"),
            handlers=[_Handlers(host, entry, self._segments, self._stream)],
            options=[
                *_OPTIONS,
                *_aging(max_connection_age),
                ("grpc.max_receive_message_length", limit),
                ("grpc.max_send_message_length", limit),
            ],
        )
        self._health = Health(self._server)
        names = (SERVICE, health.SERVICE_NAME, reflection.SERVICE_NAME)
        reflection_pb2_grpc.add_ServerReflectionServicer_to_server(
            _Reflection(names, entry.access), self._server
        )
        self.targets = [self._listen(address) for address in addresses]
        self._health_port = HealthPort(self._health, health_address) if health_address else None

    @property
    def health_target(self) -> str | None:
        """Where health checks alone are answered."""
        return self._health_port.target if self._health_port else None

    @property
    def host(self) -> Host:
        """What answers the calls."""
        return self._host

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
        self._health.serving()
        if self._health_port:
            self._health_port.start()
        log.info("serving", extra={"targets": self.targets})

    def stop(self, grace: float | None, delay: float = 0.0) -> bool:
        """Report NOT_SERVING; ``delay`` seconds later take no new sessions; end when no call is running.

        Calls of open sessions are answered until then, or for ``grace`` seconds; what still runs after
        that is told DRAINING at its next check between steps, as are calls that come now. Then the
        sessions are freed.

        Returns:
            Whether all of it has ended. A step that does not end within a second is not waited for.
        """
        self._health.stopping()
        time.sleep(delay)
        self._host.refuse_sessions()
        log.info("draining", extra={"grace": grace})
        self._drain.wait(grace or 0)
        cut_off = self._drain.close()
        ended = self._drain.wait(_LAST)
        self._server.stop(_FAREWELL if grace else None).wait(_LAST)
        self._stream.close()
        for side in self._side_sockets:
            side.close()
        self._reaper.stop()
        closing = threading.Thread(target=self._host.close, daemon=True)
        closing.start()
        closing.join(_LAST if ended else 0)
        if self._health_port:
            self._health_port.stop()
        self._health.close()
        log.info("stopped", extra={"cut_off": cut_off})
        return ended and not closing.is_alive()

    def _listen(self, address: str) -> str:
        unix = address.startswith("unix:")
        path = address.removeprefix("unix:").removeprefix("//") if unix else ""
        if unix:
            _check_unix_path(path)
        credentials = None if unix else self._credentials
        port = listen(self._server, f"unix:{path}" if unix else address, credentials)
        if unix:
            self._offer_shared_memory(path)
        if unix:
            return f"unix://{path}"
        scheme = "grpc" if self._credentials is None else "grpcs"
        return f"{scheme}://{address.rpartition(':')[0]}:{port}"

    def _offer_shared_memory(self, path: str) -> None:
        beside = side_socket(os.fsencode(path))
        if beside is None or not is_supported():
            return
        try:
            if self._segments.limit:
                name_of = self._access.name_of if isinstance(self._access, Tokens) else None
                self._side_sockets.append(SideSocket(beside, self._segments, name_of=name_of))
            else:
                remove_socket(beside)  # an earlier server's: clients are not to wait there
        except OSError as error:
            log.warning(
                "no shared memory", extra={"path": os.fsdecode(beside), "error": str(error)}
            )


class _Handlers(grpc.GenericRpcHandler):
    """The service's methods, as handlers of raw bytes: what cannot be parsed gets a typed error too."""

    def __init__(self, host: Host, entry: Entry, segments: Segments, stream: ExecuteStream) -> None:
        self._methods: dict[str, Any] = {
            f"/{SERVICE}/{name}": grpc.unary_unary_rpc_method_handler(
                _Method(host, entry, segments, name), None, None
            )
            for name in HANDLERS
        }
        self._methods[f"/{SERVICE}/{EXECUTE_STREAM}"] = grpc.stream_stream_rpc_method_handler(
            stream, None, None
        )
        self._tokens = entry.access if isinstance(entry.access, Tokens) else None
        self._turned_away: dict[str, Any] = {
            path: grpc.stream_stream_rpc_method_handler(
                _TurnedAway(entry, path.rpartition("/")[2]), None, None
            )
            for path in self._methods
        }

    def service(self, handler_call_details: Any) -> Any:
        method = self._methods.get(handler_call_details.method)
        if method is None or self._tokens is None:
            return method
        # A unary handler is called when its message is here, of up to gigabytes. Looking a token up takes
        # a microsecond, so this thread, which polls the sockets, can do it.
        if self._tokens.know(handler_call_details.invocation_metadata):
            return method
        return self._turned_away[handler_call_details.method]


class _TurnedAway:
    """A call of nobody who is known: refused before its message is read."""

    def __init__(self, entry: Entry, name: str) -> None:
        self._entry = entry
        self._name = name

    def __call__(self, _messages: Any, context: Any) -> Any:
        with self._entry.visit(self._name, context):
            raise unauthenticated()


class _Reflection(reflection.ReflectionServicer):
    """What services there are, for those who may call them."""

    def __init__(self, names: Sequence[str], access: Access) -> None:
        super().__init__(names)
        self._access = access

    def ServerReflectionInfo(self, request_iterator: Any, context: Any) -> Any:
        try:
            self._access.principal(context)
        except BackhaulError as error:
            refuse(context, error)
        return super().ServerReflectionInfo(request_iterator, context)


class _Method:
    """One call of the service: bytes in, bytes out, errors as statuses."""

    def __init__(self, host: Host, entry: Entry, segments: Segments, name: str) -> None:
        self._host = host
        self._entry = entry
        self._segments = segments
        self._name = name
        self._request = request_type(name)

    def __call__(self, data: bytes, context: Any) -> bytes:
        with self._entry.visit(self._name, context) as visit:
            return guarded(self._name, lambda: self._admitted(data, visit))

    def _admitted(self, data: bytes, visit: Visit) -> bytes:
        if len(data) < _COUNTED_FROM:
            return self._answer(data, visit)
        with self._host.message(len(data), visit.principal, visit.call):
            return self._answer(data, visit)

    def _answer(self, data: bytes, visit: Visit) -> bytes:
        limit = self._host.limits.max_message_bytes
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
            return _joined(*self._host.answer(self._name, message, [], principal, call), limit)
        limit = min(limit, message.max_response_bytes or limit)
        named = tensors.shared_arrays(message.tensors)
        buffers = codec.read_response_buffers(message)
        if not named and not buffers:
            arrays = tensors.read_all(message.tensors)
            answer = self._host.answer(self._name, message, arrays, principal, call)
            return _joined(*answer, limit)
        with self._segments.request(principal, named, buffers) as lent:
            arrays = tensors.read_all(message.tensors, lent.read)
            header, results = self._host.answer(self._name, message, arrays, principal, call)
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


def _aging(seconds: float | None) -> list[tuple[str, int]]:
    # The calls on an old connection run to their end, however long, while new ones take a new connection.
    return [] if seconds is None else [("grpc.max_connection_age_ms", round(seconds * 1e3))]


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
