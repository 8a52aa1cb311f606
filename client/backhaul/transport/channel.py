"""What gRPC's two clients for Python share: a channel's options, what goes into a call, what went wrong."""

from __future__ import annotations

import os
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np

from backhaul.targets import Target
from backhaul.tls import TLS
from backhaul.transport import Reply, TransportState
from backhaul.transport.statuses import error_of, message_too_large
from backhaul.transport.tracing import Metadata, Tracing, tracing
from backhaul_proto import codec, tensors
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import SESSION_METADATA, Limits
from backhaul_proto.shared import SharedArray

Array = np.ndarray[Any, Any]

_OPTIONS: Final = (
    # Ours are checked here, where the error can say what to do.
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    # The server allows pings this often; see the service's own options.
    ("grpc.keepalive_time_ms", 30_000),
    ("grpc.keepalive_timeout_ms", 10_000),
    ("grpc.keepalive_permit_without_calls", 1),
    ("grpc.http2.max_pings_without_data", 0),
    # gRPC waits up to two minutes before it dials again; a server is restarted sooner. Until it dials, every
    # try of ours fails at once, so it has to dial about as often as we try.
    ("grpc.initial_reconnect_backoff_ms", 100),
    ("grpc.max_reconnect_backoff_ms", 250),
    # A connection of its own for each Connection: one that broke does not keep a new one waiting.
    ("grpc.use_local_subchannel_pool", 1),
)


class ChannelUser(TransportState):
    """A transport over gRPC channels, whichever client makes them.

    Args:
        target: where to; not an embedded one.
        token: sent with each call as a bearer token.
        tls: what is shown and checked by TLS; None: the server's certificate, by the system's roots.
    """

    def __init__(self, target: Target, *, token: str | None = None, tls: TLS | None = None) -> None:
        super().__init__(target)
        self._metadata: Metadata = ()
        if token is not None:
            self._metadata = (("authorization", f"Bearer {token}"),)
        # Proxies of the environment are for other machines.
        self._options: tuple[tuple[str, int | str], ...] = (
            *_OPTIONS,
            ("grpc.enable_http_proxy", int(not target.local)),
        )
        self._credentials: grpc.ChannelCredentials | None = None
        if target.kind == "tls":
            tls = tls or TLS()
            self._credentials = grpc.ssl_channel_credentials(
                _read(tls.roots), _read(tls.key), _read(tls.certificate)
            )
            if tls.server_name is not None:
                self._options += (("grpc.ssl_target_name_override", tls.server_name),)

    @cached_property
    def _tracing(self) -> Tracing | None:
        return tracing(self.target)

    def _channel(self, of: Any) -> Any:
        """A new channel, by gRPC's module for it."""
        address, options = self.target.address, self._options
        if self._credentials is None:
            return of.insecure_channel(address, options=options)
        return of.secure_channel(address, self._credentials, options=options)

    def _request(self, header: bytes, tensors_: Sequence[Array | SharedArray]) -> bytes:
        data = tensors.join(header, tensors_) if tensors_ else header
        # Until the server has told its limit it is the server that refuses.
        if self.limits is not None and len(data) > self.limits.max_message_bytes:
            raise message_too_large(self.target, len(data), self.limits.max_message_bytes)
        return data

    def _calling(self, method: str, session: bytes | None) -> AbstractContextManager[Metadata]:
        """The metadata of a call, which is made and ends in this context: its span, where it is traced."""
        metadata = self._metadata
        if session is not None:
            metadata = (*metadata, (SESSION_METADATA, session.hex()))
        if self._tracing is None:
            return nullcontext(metadata)
        return self._tracing.call(method, metadata)

    def _response(self, reply: type[Reply], response: bytes) -> tuple[Reply, Sequence[Array]]:
        message = codec.parse(reply, response)
        return message, tensors.read_all(getattr(message, "tensors", ()))

    def _error(self, failed: grpc.RpcError, timeout: float | None, size: int) -> BackhaulError:
        # Raised from the caller's frame: an exception that its own frame refers to would keep tensors alive.
        error = error_of(failed, self.target, timeout, size)
        if error.details.get("too_large") == "request" and self.limits is None:
            # From now on it is refused here, before it is sent.
            self.limits = Limits(int(error.details["limit"]))
        return error


def _read(path: str | os.PathLike[str] | None) -> bytes | None:
    if path is None:
        return None
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise make_error("INVALID_VALUE", f"tls: {error}.") from None
