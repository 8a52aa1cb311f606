"""The calls of the service: what each sends, and what is read from its answer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from google.protobuf.message import Message

from backhaul.server_ops import AttributeInfo, OpInfo, OpSupport
from backhaul_proto import codec, tensors
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.messages import (
    Answer,
    ContractionCost,
    DeviceInfo,
    EndedSession,
    Execute,
    Inferred,
    Renewal,
    ServerInfo,
    SessionInfo,
    SessionSummary,
)
from backhaul_proto.tensors import dtype_of
from backhaul_proto.v1 import service_pb2

Array = np.ndarray[Any, Any]
Result = TypeVar("Result")


class Call(NamedTuple, Generic[Result]):
    """One call, ready to be made.

    Attributes:
        method: its name, such as ``"Execute"``.
        header: the request's message without its tensors.
        tensors: the tensors, which do not change any more.
        reply: class of the response's message.
        read: gives the result from the response's message and its tensors.
        session: id of the session that it is for.
    """

    method: str
    header: bytes
    tensors: Sequence[Array]
    reply: type[Message]
    read: Callable[[Any, Sequence[Array]], Result]
    session: bytes | None = None


def execute(request: Execute) -> Call[Answer]:
    """Run a block of steps and answer its questions."""
    header, tensors = codec.write_execute(request)
    reply = service_pb2.ExecuteResponse
    return Call("Execute", header, tensors, reply, codec.read_answer, request.session)


def close_session(session: bytes, epoch: bytes) -> Call[None]:
    """Close a session and free what it holds."""
    reference = service_pb2.SessionRef(id=session, epoch=epoch)
    request = service_pb2.CloseSessionRequest(session=reference)
    reply = service_pb2.CloseSessionResponse
    return _plain("CloseSession", request, reply, lambda _: None, session)


def get_session(session: bytes, epoch: bytes) -> Call[SessionInfo]:
    """What a session holds."""
    reference = service_pb2.SessionRef(id=session, epoch=epoch)
    request = service_pb2.GetSessionRequest(session=reference)
    return _plain(
        "GetSession", request, service_pb2.GetSessionResponse, _read_session_info, session
    )


def renew_lease(epoch: bytes, renewals: Sequence[Renewal]) -> Call[tuple[EndedSession, ...]]:
    """Renew the leases of sessions of one epoch; those that have ended are answered."""
    request = service_pb2.RenewLeaseRequest(epoch=epoch)
    for each in renewals:
        request.sessions.add(id=each.session, release=each.release, answered=each.answered)
    reply = service_pb2.RenewLeaseResponse
    return _plain("RenewLease", request, reply, _read_ended, renewals[0].session)


def list_sessions() -> Call[tuple[SessionSummary, ...]]:
    """The caller's own sessions."""
    request = service_pb2.ListSessionsRequest()
    return _plain("ListSessions", request, service_pb2.ListSessionsResponse, _read_sessions)


def server_info() -> Call[ServerInfo]:
    """What the server is."""
    request = service_pb2.GetServerInfoRequest()
    return _plain("GetServerInfo", request, service_pb2.GetServerInfoResponse, _read_server_info)


def list_ops() -> Call[tuple[OpInfo, ...]]:
    """The server's catalog."""
    request = service_pb2.ListOpsRequest()
    return _plain("ListOps", request, service_pb2.ListOpsResponse, _read_ops)


def infer(op: str, avals: Sequence[Aval], attributes: Attributes) -> Call[Inferred]:
    """What an op gives on operands of these avals."""
    request = service_pb2.InferRequest(
        op=op,
        operands=map(tensors.type_message, avals),
        attributes=(codec.attribute_message(name, value) for name, value in attributes),
    )
    return _plain("Infer", request, service_pb2.InferResponse, _read_inferred)


def contract_path(
    avals: Sequence[Aval], attributes: Attributes, memory_limit: int, device: str = ""
) -> Call[ContractionCost]:
    """How an einsum of operands of these avals would be contracted."""
    request = service_pb2.ContractPathRequest(
        operands=map(tensors.type_message, avals),
        attributes=(codec.attribute_message(name, value) for name, value in attributes),
        memory_limit=memory_limit,
        device=device,
    )
    return _plain("ContractPath", request, service_pb2.ContractPathResponse, codec.read_cost)


def _plain(
    method: str,
    request: Message,
    reply: type[Message],
    read: Callable[[Any], Result],
    session: bytes | None = None,
) -> Call[Result]:
    return Call(
        method, request.SerializeToString(), (), reply, lambda found, _: read(found), session
    )


def _read_session_info(
    found: service_pb2.GetSessionResponse | service_pb2.SessionSummary,
) -> SessionInfo:
    return SessionInfo(
        found.nodes,
        found.bytes,
        found.age_seconds,
        found.last_seq,
        found.memory_limit,
        found.lease_left_seconds,
        found.steps,
        found.busy_seconds,
        found.device,
    )


def _read_ended(found: service_pb2.RenewLeaseResponse) -> tuple[EndedSession, ...]:
    return tuple(EndedSession(each.id, each.reason) for each in found.ended)


def _read_sessions(found: service_pb2.ListSessionsResponse) -> tuple[SessionSummary, ...]:
    return tuple(
        SessionSummary(each.digest, _read_session_info(each), each.busy, each.worker, each.node)
        for each in found.sessions
    )


def _read_server_info(found: service_pb2.GetServerInfoResponse) -> ServerInfo:
    limits = codec.read_limits(found.limits)
    devices = tuple(map(_device_info, found.devices))
    return ServerInfo(
        found.version, found.protocol, found.backend, found.ops_digest, limits, devices
    )


def _device_info(message: service_pb2.Device) -> DeviceInfo:
    return DeviceInfo(
        message.name,
        message.backend,
        message.model,
        message.session_memory,
        message.memory_limit,
        message.memory_used,
    )


def _read_ops(found: service_pb2.ListOpsResponse) -> tuple[OpInfo, ...]:
    return tuple(map(_op_info, found.ops))


def _read_inferred(found: service_pb2.InferResponse) -> Inferred:
    results = tuple(tensors.read_type(each, f"result {i}") for i, each in enumerate(found.results))
    return Inferred(results, found.several, not found.constant)


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
