"""A server at the other end of a gRPC channel."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from typing import Any

import grpc
import numpy as np

from backhaul.progress import Reporting
from backhaul.retries import Attempt, Pause, Retries, may_repeat
from backhaul.steps import run
from backhaul.targets import Target
from backhaul.tls import TLS
from backhaul.transport import Reply, Transport, calls
from backhaul.transport.calls import Call, Result
from backhaul.transport.channel import ChannelUser
from backhaul.transport.delivery import (
    STREAM_BYTES,
    Step,
    Whole,
    deliver,
    may_be_streamed,
    nbytes,
)
from backhaul.transport.shared_memory import OF_SEGMENTS, Loan, SharedMemory
from backhaul.transport.streams import METHOD, converse
from backhaul.transport.tracing import Metadata
from backhaul.unusable import connection_closed
from backhaul_proto import codec, tensors
from backhaul_proto.chunks import Outgoing
from backhaul_proto.errors import BackhaulError, InvalidArgument, MessageTooLarge
from backhaul_proto.messages import SERVICE, Answer, Execute
from backhaul_proto.shared import MIN_BYTES, is_supported, side_socket
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

    def stream(self) -> Callable[..., Any]:
        """The call ExecuteStream."""
        made: Callable[..., Any] = self.channel.stream_stream(f"/{SERVICE}/{METHOD}", None, None)
        return made


class GrpcTransport(ChannelUser, Transport):
    """One channel; a new one after a call was interrupted.

    An exception that a signal raises (Ctrl-C) inside gRPC's Python code can leave a lock of the channel
    held, and whoever used it next would wait for ever.

    Args:
        target: where to; not an embedded one.
        token: sent with each call as a bearer token.
        tls: what is shown and checked by TLS; None: the server's certificate, by the system's roots.
        shared_memory: as for `connect`; the target is of a unix socket where it is true.
        reporting: is told how far streams are.
        retries: when a call that failed is made again.
        sleep: waits so many seconds before it.
    """

    def __init__(
        self,
        target: Target,
        *,
        token: str | None = None,
        tls: TLS | None = None,
        shared_memory: bool | None = False,
        reporting: Reporting | None = None,
        retries: Retries | None = None,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        super().__init__(target, token=token, tls=tls)
        self._reporting = reporting
        self._retries = retries or Retries()
        self._sleep = sleep
        self._shared: SharedMemory | None = None
        if target.kind == "unix" and shared_memory is not False and is_supported():
            beside = side_socket(os.fsencode(target.path))
            self._shared = SharedMemory(beside, target, token=token, demanded=bool(shared_memory))
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
            return self._execute_by_socket(request, timeout)
        self._check_usable()
        failed = None
        header, arrays = codec.write_execute(request)
        for _ in range(2):  # the second time with new segments: the server may have been restarted
            try:
                with shared.lend(arrays, request.answer_bytes) as loan:
                    if not loan.named or loan.beside > STREAM_BYTES:
                        break
                    return self._execute_by(loan, header, request.session, timeout)
            except InvalidArgument as error:
                if error.reason not in OF_SEGMENTS:
                    raise
            except MessageTooLarge as error:  # what had no room in a segment
                if not may_be_streamed(error, request):
                    raise
                break
            except BackhaulError as error:
                if not request.seq or not may_repeat(error):
                    raise
                failed = error
                break
        try:
            return self._execute_by_socket(request, timeout, failed)
        finally:
            del failed  # the error would refer to itself through this frame

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

    def _execute_by_socket(
        self, request: Execute, timeout: float | None, failed: BackhaulError | None = None
    ) -> Answer:
        call = calls.execute(request)
        work = deliver(request, call, self.limits, self._retries, timeout, failed)
        del failed
        answer = run(work, lambda step: self._do(step, call))
        self._note(answer)
        return answer

    def _do(self, step: Step, call: Call[Answer]) -> Answer | None:
        match step:
            case Whole(timeout):
                return self._make(call, timeout)
            case Attempt(left):
                return self._stream(call, left)
            case Pause(seconds):
                self._sleep(seconds)
                return None

    def _ask(self, made: Call[Result], timeout: float | None) -> Result:
        def do(step: Attempt | Pause) -> Result | None:
            if isinstance(step, Attempt):
                return self._make(made, step.left)
            self._sleep(step.seconds)
            return None

        found: Result = run(self._retries.steps(timeout, may_repeat), do)
        return found

    def _stream(self, call: Call[Answer], timeout: float | None) -> Answer:
        """One try of an ExecuteStream."""
        self._check_usable()
        with self._lock:
            self.calls[METHOD] += 1
        with self._calling(METHOD, call.session) as metadata:
            return self._stream_with(metadata, call, timeout)

    def _stream_with(self, metadata: Metadata, call: Call[Answer], timeout: float | None) -> Answer:
        outgoing = Outgoing(call.header, call.tensors)
        stub = self._wire.stream()

        def begin(messages: Iterator[bytes]) -> Any:
            return stub(messages, timeout=timeout, metadata=metadata)

        try:
            with nullcontext() if self._reporting is None else self._reporting() as report:
                return call.read(*converse(begin, outgoing, report))
        except grpc.RpcError as failed:
            failed.__traceback__ = (
                None  # it is gRPC's call, which our frames hold, and with them the arrays
            )
            if self._closed:
                raise connection_closed(self.target) from None
            raise self._error(failed, timeout, nbytes(call)) from None
        except ValueError as error:
            if not self._closed or isinstance(error, BackhaulError):
                raise
            raise connection_closed(self.target) from None  # as in _exchange_with
        except BackhaulError:
            raise
        except BaseException:
            self._wire = _Wire(self._channel(grpc))  # as in _exchange_with
            raise

    def _exchange(
        self, method: str, data: bytes, timeout: float | None, session: bytes | None
    ) -> bytes:
        with self._calling(method, session) as metadata:
            return self._exchange_with(metadata, method, data, timeout)

    def _exchange_with(
        self, metadata: Metadata, method: str, data: bytes, timeout: float | None
    ) -> bytes:
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
