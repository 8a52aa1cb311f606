"""A server at the other end of a gRPC channel."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np

from backhaul.progress import Reporting
from backhaul.retries import Retries
from backhaul.targets import Target
from backhaul.transport import Reply, Transport
from backhaul.transport.statuses import error_of, message_too_large
from backhaul.transport.streams import METHOD, STREAM_BYTES, converse, may_repeat
from backhaul.unusable import connection_closed
from backhaul_proto import codec, tensors
from backhaul_proto.chunks import Outgoing
from backhaul_proto.errors import BackhaulError, MessageTooLarge
from backhaul_proto.messages import SERVICE, SESSION_METADATA, Execute, Limits
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

    def stream(self) -> Callable[..., Any]:
        """The call ExecuteStream."""
        made: Any = self.channel.stream_stream(f"/{SERVICE}/{METHOD}", None, None)
        return made  # type: ignore[no-any-return]


class GrpcTransport(Transport):
    """One channel; a new one after a call was interrupted.

    An exception that a signal raises (Ctrl-C) inside gRPC's Python code can leave a lock of the channel
    held, and whoever used it next would wait for ever.

    Args:
        target: where to; not an embedded one.
        token: sent with each call as a bearer token.
        tls: file of root certificates (PEM) that the server's is checked against; None: the system's.
        reporting: is told how far streams are.
        retries: when a stream that broke is made again.
    """

    def __init__(
        self,
        target: Target,
        *,
        token: str | None = None,
        tls: Path | None = None,
        reporting: Reporting | None = None,
        retries: Retries | None = None,
    ) -> None:
        super().__init__(target)
        self._reporting = reporting
        self._retries = retries or Retries()
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
        self._check_size(len(data))
        metadata = self._metadata_for(session)
        try:
            # A blocking call is half as slow again through a future, and interrupted just as well: what
            # interrupts it (Ctrl-C) lets go of the call, which cancels it on the server too.
            response = self._wire.stub(method)(data, timeout=timeout, metadata=metadata)
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
        message = codec.parse(reply, response)
        return message, tensors.read_all(getattr(message, "tensors", ()))

    def _execute(
        self,
        request: Execute,
        header: bytes,
        tensors_: Sequence[Array],
        timeout: float | None,
    ) -> tuple[service_pb2.ExecuteResponse, Sequence[Array]]:
        limit = STREAM_BYTES
        if self.limits is not None:
            limit = min(limit, self.limits.max_message_bytes)
        size = len(header) + sum([each.nbytes for each in tensors_])
        if size <= limit and request.answer_bytes <= limit:
            started = self._retries.clock()
            try:
                return super()._execute(request, header, tensors_, timeout)
            except MessageTooLarge as error:
                # Of a request nothing was run. The answer is given again, if it can be told which.
                if error.details.get("too_large") != "request" and not request.seq:
                    raise
            if timeout is not None:
                timeout = max(0.0, timeout - (self._retries.clock() - started))
        return self._retries.run(
            lambda left: self._stream(request, header, tensors_, left),
            timeout,
            lambda error: bool(request.seq) and may_repeat(error),
        )

    def _stream(
        self,
        request: Execute,
        header: bytes,
        tensors_: Sequence[Array],
        timeout: float | None,
    ) -> tuple[service_pb2.ExecuteResponse, Sequence[Array]]:
        self._begin(METHOD)
        outgoing = Outgoing(header, tensors_)
        metadata = self._metadata_for(request.session)
        stub = self._wire.stream()

        def begin(messages: Iterator[bytes]) -> Any:
            return stub(messages, timeout=timeout, metadata=metadata)

        try:
            if self._reporting is None:
                return converse(begin, outgoing, None)
            with self._reporting() as report:
                return converse(begin, outgoing, report)
        except grpc.RpcError as failed:
            failed.__traceback__ = None  # it is the call: it would refer to itself, with all arrays
            if self._closed:
                raise connection_closed(self.target) from None
            raise self._error(failed, timeout, len(header) + outgoing.nbytes) from None
        except ValueError:
            if not self._closed:
                raise
            raise connection_closed(self.target) from None
        except BackhaulError:
            raise
        except BaseException:
            self._wire = self._dial()  # as in _call
            raise

    def _metadata_for(self, session: bytes | None) -> Metadata:
        if session is None:
            return self._metadata
        return (*self._metadata, (SESSION_METADATA, session.hex()))

    def _close(self) -> None:
        self._wire.channel.close()

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
