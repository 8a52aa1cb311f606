"""A server at the other end of a gRPC channel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np

from backhaul.targets import Target
from backhaul.transport import Reply, Transport
from backhaul.transport.shared_memory import OF_SEGMENTS, Loan, SharedMemory, is_supported
from backhaul.transport.statuses import error_of, message_too_large
from backhaul.unusable import connection_closed
from backhaul_proto import codec, tensors
from backhaul_proto.errors import BackhaulError, InvalidArgument
from backhaul_proto.messages import SERVICE, SESSION_METADATA, Answer, Execute, Limits
from backhaul_proto.shared import MIN_BYTES, side_socket
from backhaul_proto.v1 import service_pb2

Array = np.ndarray[Any, Any]
Stub = Callable[..., bytes]
Metadata = tuple[tuple[str, str], ...]

_OPTIONS: Final = (
    # Ours are checked here, where the error can say what to do.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # The server allows pings this often; see the service's own options.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC waits up to two minutes before it dials again; a server is restarted sooner.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 2_000),
    # A connection of its own for each Connection: one that broke does not keep a new one waiting.
    ("grpc.use_local_subchannel_pool", 1),
)


class _Wire:
    """A channel, and its calls by name."""

    def __init__(self, channel: grpc.Channel) -> None:
        self.channel = channel
        self._stubs: dict[str, Stub] = {}

    def stub(self, method: str) -> Stub:
        """The call of this name."""
        stub = self._stubs.get(method)
        if stub is None:
            made: Any = self.channel.unary_unary(f"/{SERVICE}/{method}", None, None)
            stub = self._stubs[method] = made
        return stub


class GrpcTransport(Transport):
    """One channel; a new one after a call was interrupted.

    An exception that a signal raises (Ctrl-C) inside gRPC's Python code can leave a lock of the channel
    held, and whoever used it next would wait for ever.

    Args:
        target: where to; not an embedded one.
        token: sent with each call as a bearer token.
        tls: file of root certificates (PEM) that the server's is checked against; None: the system's.
        shared_memory: as for `connect`; the target is of a unix socket where it is true.
    """

    def __init__(
        self,
        target: Target,
        *,
        token: str | None = None,
        tls: Path | None = None,
        shared_memory: bool | None = False,
    ) -> None:
        super().__init__(target)
        self._shared: SharedMemory | None = None
        if target.kind == "unix" and shared_memory is not False and is_supported():
            beside = side_socket(os.fsencode(target.path))
            self._shared = SharedMemory(beside, target, demanded=bool(shared_memory))
        self._metadata: Metadata = ()
        if token is not None:
            self._metadata = (("authorization", f"Bearer {token}"),)
        self._address = target.address
        # Proxies of the environment are for other machines.
        self._options = (*_OPTIONS, ("grpc.enable_http_proxy", int(not target.local)))
        self._credentials: grpc.ChannelCredentials | None = None
        if target.kind == "tls":
            roots = None if tls is None else tls.read_bytes()
            self._credentials = grpc.ssl_channel_credentials(roots)
        self._wire = self._dial()

    def _dial(self) -> _Wire:
        if self._credentials is None:
            return _Wire(grpc.insecure_channel(self._address, options=self._options))
        return _Wire(grpc.secure_channel(self._address, self._credentials, options=self._options))

    def _call(
        self,
        method: str,
        header: bytes,
        tensors_: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        data = tensors.join(header, tensors_) if tensors_ else header
        response = self._exchange(method, data, timeout, session)
        message = codec.parse(reply, response)
        return message, tensors.read_all(getattr(message, "tensors", ()))

    def frozen(self, array: Array) -> Array:
        copy = None
        if self._shared is not None and array.nbytes >= MIN_BYTES and not self._closed:
            copy = self._shared.frozen(array)
        return super().frozen(array) if copy is None else copy

    def execute(self, request: Execute, *, timeout: float | None) -> Answer:
        shared = self._shared
        large = request.answer_bytes or any(each.nbytes >= MIN_BYTES for each in request.tensors)
        if shared is None or not large:
            return super().execute(request, timeout=timeout)
        self._check_usable()
        header, arrays = codec.write_execute(request)
        for _ in range(2):  # the second time with new segments: the server may have been restarted
            try:
                with shared.lend(arrays, request.answer_bytes) as loan:
                    if not loan.named:
                        break
                    return self._execute_by(loan, header, request.session, timeout)
            except InvalidArgument as error:
                if error.reason not in OF_SEGMENTS:
                    raise
        return super().execute(request, timeout=timeout)

    def _execute_by(
        self, loan: Loan, header: bytes, session: bytes, timeout: float | None
    ) -> Answer:
        with self._lock:
            self.calls["Execute"] += 1
        header += codec.write_response_buffers(loan.buffers)
        response = self._exchange("Execute", tensors.join(header, loan.tensors), timeout, session)
        message = codec.parse(service_pb2.ExecuteResponse, response)
        return self._answer(message, tensors.read_all(message.tensors, loan.read))

    def _exchange(
        self, method: str, data: bytes, timeout: float | None, session: bytes | None
    ) -> bytes:
        self._check_size(len(data))
        metadata = self._metadata
        if session is not None:
            metadata = (*metadata, (SESSION_METADATA, session.hex()))
        try:
            # A blocking call is half as slow again through a future, and interrupted just as well: what
            # interrupts it (Ctrl-C) lets go of the call, which cancels it on the server too.
            return self._wire.stub(method)(data, timeout=timeout, metadata=metadata)
        except grpc.RpcError as failed:
            if self._closed:
                raise connection_closed(self.target) from None
            raise self._error(failed, timeout, len(data)) from None
        except ValueError:
            if not self._closed:
                raise
            raise connection_closed(self.target) from None  # gRPC's for a closed channel
        except BaseException:
            # Not closed: calls of other threads may be on it. It goes with the last of them.
            self._wire = self._dial()
            raise

    def _close(self) -> None:
        self._wire.channel.close()
        if self._shared is not None:
            self._shared.close()

    def _error(self, failed: grpc.RpcError, timeout: float | None, size: int) -> BackhaulError:
        # Raised from the caller's frame: an exception that its own frame refers to would keep tensors alive.
        error = error_of(failed, self.target, timeout, size)
        if error.details.get("too_large") == "request" and self.limits is None:
            # From now on it is refused here, before it is sent.
            self.limits = Limits(int(error.details["limit"]))
        return error

    def _check_size(self, size: int) -> None:
        # Until the server has told its limit it is the server that refuses.
        if self.limits is not None and size > self.limits.max_message_bytes:
            raise message_too_large(self.target, size, self.limits.max_message_bytes)
