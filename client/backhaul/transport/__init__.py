"""How requests reach a server: one primitive, `Transport.call`, and the calls of `calls` made of it.

protobuf and gRPC stop here: callers see plain data (`backhaul_proto.messages`) and arrays.
"""

from __future__ import annotations

import os
import threading
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Sequence
from typing import Any, TypeVar

import numpy as np
from google.protobuf.message import Message

from backhaul.constants import frozen
from backhaul.server_ops import OpInfo
from backhaul.targets import Target
from backhaul.transport import calls
from backhaul.transport.calls import Call, Result
from backhaul.unusable import connection_closed, forked
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.messages import (
    Answer,
    ContractionCost,
    EndedSession,
    Execute,
    Inferred,
    Limits,
    Renewal,
    ServerInfo,
    SessionInfo,
    SessionSummary,
)

Array = np.ndarray[Any, Any]
Reply = TypeVar("Reply", bound=Message)


class TransportState:
    """What every way to a server knows of it, whether its calls are waited for or awaited.

    Attributes:
        target: where the server is.
        limits: what the server asked to keep to; None until it has said so.
        calls: how often each call was made, by its name.
    """

    def __init__(self, target: Target) -> None:
        self.target = target
        self.limits: Limits | None = None
        self.calls: Counter[str] = Counter()
        self._process = os.getpid()
        self._closed = False

    def _keep_to(self, limits: Limits) -> None:
        if limits.max_message_bytes:  # 0: the server has not said
            self.limits = limits

    def _note(self, answer: Answer) -> None:
        if answer.limits is not None:
            self._keep_to(answer.limits)

    def _check_usable(self) -> None:
        if os.getpid() != self._process:
            raise forked(self.target)
        if self._closed:
            raise connection_closed(self.target)


class Transport(TransportState, ABC):
    """The way to one server, for who waits. Threads may share it; processes may not."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self._lock = threading.Lock()

    def call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        *,
        timeout: float | None,
        session: bytes | None = None,
    ) -> tuple[Reply, Sequence[Array]]:
        """Make one call and wait for its answer.

        Args:
            method: name of the call, such as ``"Execute"``.
            header: the request's message without its tensors.
            tensors: the tensors, which do not change any more.
            reply: class of the response's message.
            timeout: seconds to wait; None: as long as it takes.
            session: id of the session that the call is for.

        Returns:
            The response's message, and its tensors in memory that is the caller's own.

        Raises:
            BackhaulError: whatever went wrong, typed.
        """
        self._check_usable()
        with self._lock:
            self.calls[method] += 1
        return self._call(method, header, tensors, reply, timeout, session)

    @abstractmethod
    def _call(
        self,
        method: str,
        header: bytes,
        tensors: Sequence[Array],
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None,
    ) -> tuple[Reply, Sequence[Array]]: ...

    def close(self) -> None:
        """Let go of the server. Calls that wait for an answer end with CONNECTION_CLOSED."""
        if not self._closed and os.getpid() == self._process:
            self._closed = True
            self._close()

    @abstractmethod
    def _close(self) -> None: ...

    def execute(self, request: Execute, *, timeout: float | None) -> Answer:
        """Run a block of steps and answer its questions."""
        answer = self._make(calls.execute(request), timeout)
        self._note(answer)
        return answer

    def frozen(self, array: Array) -> Array:
        """A copy of an array in C order, which nobody else holds, where it is to be sent from."""
        return frozen(array)

    def close_session(self, session: bytes, epoch: bytes, *, timeout: float | None) -> None:
        """Close a session and free what it holds."""
        self._ask(calls.close_session(session, epoch), timeout)

    def get_session(self, session: bytes, epoch: bytes, *, timeout: float | None) -> SessionInfo:
        """What a session holds."""
        return self._ask(calls.get_session(session, epoch), timeout)

    def renew_lease(
        self, epoch: bytes, renewals: Sequence[Renewal], *, timeout: float | None
    ) -> tuple[EndedSession, ...]:
        """Renew leases of sessions of one epoch, at least one; those that have ended come back."""
        return self._make(calls.renew_lease(epoch, renewals), timeout)

    def list_sessions(self, *, timeout: float | None) -> tuple[SessionSummary, ...]:
        """The caller's own sessions."""
        return self._ask(calls.list_sessions(), timeout)

    def server_info(self, *, timeout: float | None) -> ServerInfo:
        """What the server is; its limits are kept to from then on."""
        info = self._ask(calls.server_info(), timeout)
        self._keep_to(info.limits)
        return info

    def list_ops(self, *, timeout: float | None) -> tuple[OpInfo, ...]:
        """The server's catalog."""
        return self._ask(calls.list_ops(), timeout)

    def infer(
        self, op: str, avals: Sequence[Aval], attributes: Attributes, *, timeout: float | None
    ) -> Inferred:
        """What an op gives on operands of these avals."""
        return self._ask(calls.infer(op, avals, attributes), timeout)

    def contract_path(
        self,
        avals: Sequence[Aval],
        attributes: Attributes,
        memory_limit: int,
        device: str = "",
        *,
        timeout: float | None,
    ) -> ContractionCost:
        """How an einsum of operands of these avals would be contracted."""
        made = calls.contract_path(avals, attributes, memory_limit, device)
        return self._ask(made, timeout)

    def _ask(self, made: Call[Result], timeout: float | None) -> Result:
        """A call that does no harm if it is made twice."""
        return self._make(made, timeout)

    def _make(self, made: Call[Result], timeout: float | None) -> Result:
        method, header, tensors, reply, read, session = made
        return read(*self.call(method, header, tensors, reply, timeout=timeout, session=session))
