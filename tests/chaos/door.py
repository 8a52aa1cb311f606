"""The service's calls as gRPC makes them, without a socket."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from types import SimpleNamespace
from typing import Any

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from backhaul_proto.messages import SERVICE
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry
from backhaul_server.service.server import _Handlers
from backhaul_server.service.shared_memory import Segments
from backhaul_server.service.streams import ExecuteStream

STREAM = "ExecuteStream"


class Refused(Exception):
    """The call ended with a status.

    Attributes:
        reason: of the error.
        code: of the status.
    """

    def __init__(self, code: grpc.StatusCode, reason: str, message: str) -> None:
        super().__init__(f"{code.name} {reason}: {message}")
        self.code = code
        self.reason = reason


class Door:
    """Hands a call's bytes to the handlers that gRPC would hand them to.

    Args:
        dispatcher: what answers.
        timeout: seconds that the caller of each call waits.
    """

    def __init__(self, dispatcher: Dispatcher, timeout: float) -> None:
        self._timeout = timeout
        entry = Entry(observers=())
        self.stream = ExecuteStream(dispatcher, entry, 4)
        self._handlers = _Handlers(dispatcher, entry, Segments(1 << 20), self.stream)
        self._found: dict[str, Any] = {}

    def knows(self, method: str) -> bool:
        """Whether the service has this call."""
        return self._handler(method) is not None

    def call(self, method: str, data: bytes) -> bytes:
        """The answer of a call.

        Raises:
            Refused: an error's status.
        """
        answer: bytes = self._handler(method).unary_unary(data, _Context(self._timeout))
        return answer

    def call_stream(self, messages: Sequence[bytes]) -> list[bytes]:
        """The answer of an ExecuteStream."""
        received: Iterator[bytes] = iter(messages)
        return list(self._handler(STREAM).stream_stream(received, _Context(self._timeout)))

    def close(self) -> None:
        """No more calls come."""
        self.stream.close()

    def _handler(self, method: str) -> Any:
        if method not in self._found:
            details = SimpleNamespace(method=f"/{SERVICE}/{method}")
            self._found[method] = self._handlers.service(details)
        return self._found[method]


class _Context:
    """gRPC's context of a call, as far as the handlers look at it."""

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._trailing: tuple[tuple[str, bytes], ...] = ()

    def time_remaining(self) -> float:
        return self._timeout

    def add_callback(self, _ended: Callable[[], None]) -> bool:
        return True

    def invocation_metadata(self) -> tuple[tuple[str, str], ...]:
        return ()

    def auth_context(self) -> dict[str, Any]:
        return {}

    def peer(self) -> str:
        return "nobody"

    def set_trailing_metadata(self, trailing: tuple[tuple[str, bytes], ...]) -> None:
        self._trailing = trailing

    def abort(self, code: grpc.StatusCode, message: str) -> None:
        info = ErrorInfo()
        details = dict(self._trailing)["grpc-status-details-bin"]
        Status.FromString(details).details[0].Unpack(info)
        raise Refused(code, info.reason, message)
