"""Where sessions live, as the gRPC front sees it: in this process, or in Ray's actors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import Any, Protocol

from google.protobuf.message import Message

from backhaul_proto.messages import Array, Limits
from backhaul_proto.v1 import service_pb2
from backhaul_server.workers.call import Call

Parts = tuple[bytes, Sequence[Array]]
"""A message without its tensors, and the tensors."""

Answered = Callable[[Sequence[Array]], Parts]
"""Gives the answer of an Execute when its tensors have come."""


class Host(Protocol):
    """Answers the calls of the service. Many threads may use it at once.

    `Dispatcher` does so itself; `RoutingHost` has workers of a Ray cluster do it, and knows no session.
    """

    @property
    def limits(self) -> Limits:
        """Told to clients."""

    def answer(
        self, method: str, message: Any, arrays: Sequence[Array], principal: str, call: Call
    ) -> Parts:
        """Answer a call; to be called within `guarded`.

        Args:
            method: its name, such as ``"Execute"``.
            message: the request, which is the host's from now on.
            arrays: the tensors of its field ``tensors``, which must not change from now on.
            principal: who asks.
            call: how long the caller waits, and whether still.

        Returns:
            The response's message without its tensors, and the tensors.

        Raises:
            BackhaulError: whatever went wrong, typed.
        """

    def arriving(
        self, request: service_pb2.ExecuteRequest, nbytes: int, principal: str, call: Call
    ) -> AbstractContextManager[Answered]:
        """While an Execute's tensors come: memory for them, and its session does not end.

        To be called within `guarded`.

        Args:
            request: its message, without them.
            nbytes: what is to come.
            principal: who asks.
            call: how long the caller waits, and whether still.

        Raises:
            BackhaulError: it would be refused whatever the tensors are.
        """

    def message(self, nbytes: int, principal: str, call: Call) -> AbstractContextManager[None]:
        """Memory for a message of so many bytes while its call is answered.

        Raises:
            MemoryLimitExceeded: it is more than there can be.
            QuotaExceeded, ServerBusy: it did not come free in time.
        """

    def expire(self) -> float:
        """End the sessions whose leases ran out. Returns the seconds after which to call it again."""

    def refuse_sessions(self) -> None:
        """Open no more sessions here; those that are open are answered."""

    def close(self) -> None:
        """End what ends with the front."""


def request_type(method: str) -> type[Message]:
    """The class of a call's request message."""
    found: type[Message] = getattr(service_pb2, f"{method}Request")
    return found
