"""A server at the other end of a gRPC channel."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from backhaul.targets import Target
from backhaul.transport import Reply, Transport
from backhaul.transport.channel import ChannelUser
from backhaul.unusable import connection_closed
from backhaul_proto.messages import SERVICE

Array = np.ndarray[Any, Any]
Stub = Callable[..., bytes]


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


class GrpcTransport(ChannelUser, Transport):
    """One channel; a new one after a call was interrupted.

    An exception that a signal raises (Ctrl-C) inside gRPC's Python code can leave a lock of the channel
    held, and whoever used it next would wait for ever.
    """

    def __init__(
        self, target: Target, *, token: str | None = None, tls: Path | None = None
    ) -> None:
        super().__init__(target, token=token, tls=tls)
        self._wire = _Wire(self._channel(grpc))

    def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        data = self._request(header, tensors)
        metadata = self._metadata_of(session)
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
            self._wire = _Wire(self._channel(grpc))
            raise
        return self._response(reply, response)

    def _close(self) -> None:
        self._wire.channel.close()
