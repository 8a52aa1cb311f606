"""How requests reach a server: one primitive, `Transport.call`, and the typed calls made of it.

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

from backhaul.server_ops import AttributeInfo, OpInfo, OpSupport
from backhaul.targets import Target
from backhaul.unusable import connection_closed, forked
from backhaul_proto import codec
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.messages import (
    Answer,
    ContractionCost,
    Execute,
    Inferred,
    Limits,
    ServerInfo,
    SessionInfo,
)
from backhaul_proto.tensors import dtype_of
from backhaul_proto.v1 import service_pb2

Array = np.ndarray[Any, Any]
Reply = TypeVar("Reply", bound=Message)


class Transport(ABC):
    """The way to one server. Threads may share it; processes may not.

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
        self._begin(method)
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
        header, tensors = codec.write_execute(request)
        message, arrays = self._execute(request, header, tensors, timeout)
        answer = codec.read_answer(message, arrays)
        if answer.limits is not None:
            self._keep_to(answer.limits)
        return answer

    def _execute(
        self,
        request: Execute,
        header: bytes,
        tensors: Sequence[Array],
        timeout: float | None,
    ) -> tuple[service_pb2.ExecuteResponse, Sequence[Array]]:
        """Send a request, written already, by the way that suits its size."""
        return self.call(
            "Execute",
            header,
            tensors,
            service_pb2.ExecuteResponse,
            timeout=timeout,
            session=request.session,
        )

    def close_session(self, session: bytes, epoch: bytes, *, timeout: float | None) -> None:
        """Close a session and free what it holds."""
        reference = service_pb2.SessionRef(id=session, epoch=epoch)
        request = service_pb2.CloseSessionRequest(session=reference)
        self._plain("CloseSession", request, service_pb2.CloseSessionResponse, timeout, session)

    def get_session(self, session: bytes, epoch: bytes, *, timeout: float | None) -> SessionInfo:
        """What a session holds."""
        reference = service_pb2.SessionRef(id=session, epoch=epoch)
        request = service_pb2.GetSessionRequest(session=reference)
        info = self._plain("GetSession", request, service_pb2.GetSessionResponse, timeout, session)
        return SessionInfo(
            info.nodes, info.bytes, info.age_seconds, info.last_seq, info.memory_limit
        )

    def server_info(self, *, timeout: float | None) -> ServerInfo:
        """What the server is; its limits are kept to from then on."""
        request = service_pb2.GetServerInfoRequest()
        info = self._plain("GetServerInfo", request, service_pb2.GetServerInfoResponse, timeout)
        limits = codec.read_limits(info.limits)
        self._keep_to(limits)
        return ServerInfo(info.version, info.protocol, info.backend, info.ops_digest, limits)

    def list_ops(self, *, timeout: float | None) -> tuple[OpInfo, ...]:
        """The server's catalog."""
        request = service_pb2.ListOpsRequest()
        response = self._plain("ListOps", request, service_pb2.ListOpsResponse, timeout)
        return tuple(map(_op_info, response.ops))

    def infer(
        self,
        op: str,
        avals: Sequence[Aval],
        attributes: Attributes,
        *,
        timeout: float | None,
    ) -> Inferred:
        """What an op gives on operands of these avals."""
        request = service_pb2.InferRequest(
            op=op,
            operands=map(codec.type_message, avals),
            attributes=(codec.attribute_message(name, value) for name, value in attributes),
        )
        response = self._plain("Infer", request, service_pb2.InferResponse, timeout)
        results = tuple(
            codec.read_type(each, f"result {i}") for i, each in enumerate(response.results)
        )
        return Inferred(results, response.several, not response.constant)

    def contract_path(
        self,
        avals: Sequence[Aval],
        attributes: Attributes,
        memory_limit: int,
        *,
        timeout: float | None,
    ) -> ContractionCost:
        """How an einsum of operands of these avals would be contracted."""
        request = service_pb2.ContractPathRequest(
            operands=map(codec.type_message, avals),
            attributes=(codec.attribute_message(name, value) for name, value in attributes),
            memory_limit=memory_limit,
        )
        return codec.read_cost(
            self._plain("ContractPath", request, service_pb2.ContractPathResponse, timeout)
        )

    def _plain(
        self,
        method: str,
        request: Message,
        reply: type[Reply],
        timeout: float | None,
        session: bytes | None = None,
    ) -> Reply:
        header = request.SerializeToString()
        message, _ = self.call(method, header, (), reply, timeout=timeout, session=session)
        return message

    def _keep_to(self, limits: Limits) -> None:
        if limits.max_message_bytes:  # 0: the server has not said
            self.limits = limits

    def _begin(self, method: str) -> None:
        """Count a call that is about to be made, if one can be."""
        if os.getpid() != self._process:
            raise forked(self.target)
        if self._closed:
            raise connection_closed(self.target)
        with self._lock:
            self.calls[method] += 1


def _op_info(message: service_pb2.OpInfo) -> OpInfo:
    return OpInfo(
        message.name,
        tuple(message.operands),
        tuple(
            AttributeInfo(each.name, each.type, each.required, each.default_value, each.doc)
            for each in message.attributes
        ),
        message.doc,
        message.has_vjp,
        message.has_jvp,
        {
            str(dtype_of(each.dtype)): OpSupport(each.vjp, each.jvp, each.hvp)
            for each in message.support
        },
    )
