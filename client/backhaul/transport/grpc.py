"""A server at the other end of a gRPC channel."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import grpc
import numpy as np

from backhaul.targets import Target
from backhaul.transport import Reply, Transport
from backhaul.transport.channel import ChannelUser
from backhaul.transport.shared_memory import OF_SEGMENTS, Loan, SharedMemory, is_supported
from backhaul.unusable import connection_closed
from backhaul_proto import codec, tensors
from backhaul_proto.errors import InvalidArgument
from backhaul_proto.messages import SERVICE, Answer, Execute
from backhaul_proto.shared import MIN_BYTES, side_socket
from backhaul_proto.v1 import service_pb2

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
        super().__init__(target, token=token, tls=tls)
        self._shared: SharedMemory | None = None
        if target.kind == "unix" and shared_memory is not False and is_supported():
            beside = side_socket(os.fsencode(target.path))
            self._shared = SharedMemory(beside, target, demanded=bool(shared_memory))
        self._wire = _Wire(self._channel(grpc))

    def _call(
        self,
        method: str,
        header: bytes,
        tensors_: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]:
        response = self._exchange(method, self._request(header, tensors_), timeout, session)
        return self._response(reply, response)

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
        data = self._request(header, loan.tensors)
        message = codec.parse(
            service_pb2.ExecuteResponse, self._exchange("Execute", data, timeout, session)
        )
        answer = codec.read_answer(message, tensors.read_all(message.tensors, loan.read))
        self._note(answer)
        return answer

    def _exchange(
        self, method: str, data: bytes, timeout: float | None, session: bytes | None
    ) -> bytes:
        metadata = self._metadata_of(session)
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
            self._wire = _Wire(self._channel(grpc))
            raise

    def _close(self) -> None:
        self._wire.channel.close()
        if self._shared is not None:
            self._shared.close()
