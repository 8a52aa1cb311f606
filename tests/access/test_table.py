"""Every call of the service, by those who may not make it, and by another than the session's owner."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from google.protobuf.json_format import MessageToJson
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from tests.access.authority import Authority, serving
from tests.contract.refusals import refusal

from backhaul_proto import tensors
from backhaul_proto.errors import BackhaulError
from backhaul_proto.tokens import line_of, new_token
from backhaul_proto.v1 import graph_pb2, service_pb2, service_pb2_grpc, tensor_pb2
from backhaul_server.service.certificates import Certificates
from backhaul_server.service.dispatch import HANDLERS
from backhaul_server.service.entry import Visit
from backhaul_server.service.server import Server

METHODS = {
    each.name: each for each in service_pb2.DESCRIPTOR.services_by_name["BackhaulService"].methods
}
SERVED = {*HANDLERS, "ExecuteStream"}
OF_NO_SESSION = {"GetServerInfo", "ListOps", "Infer", "ContractPath"}
SECRET = 271828.25


class Visits:
    """Which calls came in, by whom, and what became of them."""

    def __init__(self) -> None:
        self.ended_with: list[tuple[str, str, str | None]] = []

    def began(self, visit: Visit) -> None:
        pass

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        reason = None if error is None else error.reason
        self.ended_with.append((visit.method, visit.principal, reason))


@dataclass(frozen=True, slots=True)
class Place:
    server: Server
    authority: Authority
    folder: Path
    tokens: dict[str, str]
    visits: Visits

    def channel(self, *, certificate: str = "right") -> grpc.Channel:
        authority = self.authority
        if certificate == "wrong CA":
            authority = Authority(self.folder, "other")
        pair = authority.issue("client", expired=certificate == "expired")
        credentials = grpc.ssl_channel_credentials(self.authority.roots.read_bytes(), *pair.pem)
        return grpc.secure_channel(
            self.server.targets[0].removeprefix("grpcs://"),
            credentials,
            options=[("grpc.use_local_subchannel_pool", 1)],
        )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("access")
    authority = Authority(folder)
    pair = authority.issue("127.0.0.1")
    tokens = {name: new_token() for name in ("alice", "bob")}
    file = folder / "tokens"
    file.write_text("\n".join(line_of(*each) for each in tokens.items()))
    certificates = Certificates(pair.certificate, pair.key, authority.roots)
    visits = Visits()
    with serving(tokens=file, certificates=certificates, observers=(visits,)) as server:
        yield Place(server, authority, folder, tokens, visits)


@pytest.fixture(scope="module")
def channel(place: Place) -> Iterator[grpc.Channel]:
    with place.channel() as made:
        yield made


@pytest.fixture(scope="module", params=["expired", "wrong CA"])
def refused_channel(request: pytest.FixtureRequest, place: Place) -> Iterator[grpc.Channel]:
    with place.channel(certificate=request.param) as made:
        yield made


def bearer(token: str) -> list[tuple[str, str]]:
    return [("authorization", f"Bearer {token}")]


def ask(
    channel: grpc.Channel, method: str, session: Any, metadata: Any, node: int = 1
) -> list[Any]:
    """The answers to a call for this session, or of none, that its owner may make."""
    stub: Any = service_pb2_grpc.BackhaulServiceStub(channel)
    call = getattr(stub, method)
    request = _request(method, session, node)
    if METHODS[method].client_streaming:
        return list(call(iter([request]), metadata=metadata, timeout=120))
    return [call(request, metadata=metadata, timeout=120)]


def _request(method: str, session: Any, node: int) -> Any:
    value = tensor_pb2.Tensor()
    tensors.fill(value, np.asarray(SECRET))
    kind = tensor_pb2.TensorType(dtype=tensor_pb2.DATA_TYPE_FLOAT64, shape=[2])
    optional: dict[str, dict[str, Any]] = {
        "Leaf": {"value": value},
        "Einsum": {"subscripts": ",->", "operands": [node, node]},
        "Apply": {"op": "exp", "operands": [node]},
        "Infer": {"op": "exp", "operands": [kind]},
        "ContractPath": {
            "operands": [kind, kind],
            "attributes": [graph_pb2.Attribute(name="subscripts", string_value="i,i->")],
        },
        "GetValue": {"node": node},
        "Pullback": {"loss": node},
        "Hvp": {"loss": node},
        "Pushforward": {"output": node},
        "Release": {"nodes": [node]},
        "RenewLease": {"epoch": session.epoch, "sessions": [{"id": session.id}]},
        "Execute": {"seq": 2, "values": [node]},
    }
    if method == "ExecuteStream":
        header = service_pb2.ExecuteRequest(session=session, seq=2, values=[node])
        return service_pb2.ExecuteStreamRequest(header=header)
    kind_of = METHODS[method].input_type
    request: Any = getattr(service_pb2, kind_of.name)(**optional.get(method, {}))
    if "session" in kind_of.fields_by_name:
        request.session.CopyFrom(session)
    return request


def open_session(channel: grpc.Channel, metadata: Any) -> Any:
    stub: Any = service_pb2_grpc.BackhaulServiceStub(channel)
    session = service_pb2.SessionRef(id=secrets.token_bytes(16))
    request = service_pb2.OpenSessionRequest(session=session)
    session.epoch = stub.OpenSession(request, metadata=metadata, timeout=120).epoch
    ask(channel, "Leaf", session, metadata)
    return session


def told(call: Any) -> tuple[grpc.StatusCode, str, list[str]]:
    """All that an error tells: its status, and every field of it, but what the caller sent himself."""
    with pytest.raises(grpc.RpcError) as caught:
        call()
    error: Any = caught.value
    parts = [f"{key}={value!r}" for key, value in error.trailing_metadata() or ()]
    for key, value in error.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            status, info = Status.FromString(value), ErrorInfo()
            assert status.details[0].Unpack(info)
            parts = [status.message, info.reason, json.dumps(dict(info.metadata), sort_keys=True)]
    return error.code(), error.details(), parts


@pytest.mark.parametrize("method", sorted(METHODS))
@pytest.mark.parametrize(
    "sent", ["no token", "wrong token", "empty token", "token of another scheme", "digest as token"]
)
def test_who_is_not_known_is_told_nothing(
    place: Place, channel: grpc.Channel, method: str, sent: str
) -> None:
    alice = place.tokens["alice"]
    digest = line_of("alice", alice).removeprefix("alice:")
    metadata = {
        "no token": [],
        "wrong token": bearer(new_token()),
        "empty token": bearer(""),
        "token of another scheme": [("authorization", f"Basic {alice}")],
        "digest as token": bearer(digest),
    }[sent]
    there = open_session(channel, bearer(alice))
    absent = service_pb2.SessionRef(id=secrets.token_bytes(16), epoch=there.epoch)
    if method not in SERVED:
        with pytest.raises(grpc.RpcError) as caught:
            ask(channel, method, there, metadata)
        assert caught.value.code() is grpc.StatusCode.UNIMPLEMENTED
        return
    status, reason, facts = refusal(lambda: ask(channel, method, there, metadata))
    assert (status, reason, facts) == (
        grpc.StatusCode.UNAUTHENTICATED,
        "UNAUTHENTICATED",
        {},
    )
    assert place.visits.ended_with[-1] == (method, "", "UNAUTHENTICATED")
    of_there = told(lambda: ask(channel, method, there, metadata))
    of_absent = told(lambda: ask(channel, method, absent, []))
    assert of_there == of_absent
    for name in ("alice", "bob", there.id.hex(), there.epoch.hex()):
        assert name not in str(of_there)


@pytest.mark.parametrize("method", sorted(METHODS))
def test_a_certificate_that_is_not_right_ends_at_the_handshake(
    place: Place, refused_channel: grpc.Channel, channel: grpc.Channel, method: str
) -> None:
    metadata = bearer(place.tokens["alice"])  # the token does not help
    there = open_session(channel, metadata)
    before = len(place.visits.ended_with)
    status, _, parts = told(lambda: ask(refused_channel, method, there, metadata))
    assert status is grpc.StatusCode.UNAVAILABLE
    assert parts == []
    assert len(place.visits.ended_with) == before


@pytest.mark.parametrize("method", sorted(SERVED - OF_NO_SESSION - {"OpenSession"}))
def test_the_session_of_another_is_as_one_that_never_was(
    place: Place, channel: grpc.Channel, method: str
) -> None:
    alice, bob = bearer(place.tokens["alice"]), bearer(place.tokens["bob"])
    there = open_session(channel, alice)
    ended = open_session(channel, alice)
    ask(channel, "CloseSession", ended, alice)
    absent = service_pb2.SessionRef(id=secrets.token_bytes(16), epoch=there.epoch)
    shown = [_shown(channel, method, session, bob) for session in (there, ended, absent)]
    assert shown[0] == shown[1] == shown[2]
    if method in ("CloseSession", "Release"):  # and nothing has happened to it
        value = ask(channel, "GetValue", there, alice)[0].value
        assert tensors.read(value) == SECRET


def _shown(channel: grpc.Channel, method: str, session: Any, metadata: Any) -> list[str]:
    """All that is told of a session to who is not its owner, without the id that he asked for."""
    try:
        answers = ask(channel, method, session, metadata)
    except grpc.RpcError:
        status, words, parts = told(lambda: ask(channel, method, session, metadata))
        assert status is grpc.StatusCode.NOT_FOUND
        assert parts[1] == "SESSION_NOT_FOUND"
    else:  # calls for many sessions at once answer what each of them is, or which are the caller's
        assert method in ("RenewLease", "ListSessions")
        words, parts = "", [MessageToJson(each) for each in answers]
    forms = (session.id.hex(), base64.b64encode(session.id).decode())
    for form in forms:
        parts = [each.replace(form, "ID") for each in parts]
    return [words, *parts]


@pytest.mark.parametrize("method", sorted(OF_NO_SESSION))
def test_calls_of_no_session_tell_all_callers_the_same(
    place: Place, channel: grpc.Channel, method: str
) -> None:
    open_session(channel, bearer(place.tokens["alice"]))
    nobody = service_pb2.SessionRef()
    answers = [
        ask(channel, method, nobody, bearer(place.tokens[name]))[0].SerializeToString(
            deterministic=True
        )
        for name in ("alice", "bob")
    ]
    assert answers[0] == answers[1]


def test_one_id_is_a_session_of_each_who_opens_it(place: Place, channel: grpc.Channel) -> None:
    alice, bob = bearer(place.tokens["alice"]), bearer(place.tokens["bob"])
    session = open_session(channel, alice)
    ask(channel, "OpenSession", session, bob)
    assert ask(channel, "GetSession", session, bob)[0].nodes == 0
    assert ask(channel, "GetSession", session, alice)[0].nodes == 1
    ask(channel, "CloseSession", session, bob)
    assert tensors.read(ask(channel, "GetValue", session, alice)[0].value) == SECRET


def test_health_is_open_and_reflection_is_not(place: Place, channel: grpc.Channel) -> None:
    health: Any = health_pb2_grpc.HealthStub(channel)
    answer = health.Check(health_pb2.HealthCheckRequest(), timeout=120)
    assert answer.status == health_pb2.HealthCheckResponse.SERVING
    stub: Any = reflection_pb2_grpc.ServerReflectionStub(channel)
    request = reflection_pb2.ServerReflectionRequest(list_services="")

    def listed(metadata: Any) -> list[str]:
        (answer,) = stub.ServerReflectionInfo(iter([request]), metadata=metadata, timeout=120)
        return [each.name for each in answer.list_services_response.service]

    assert refusal(lambda: listed([]))[0] is grpc.StatusCode.UNAUTHENTICATED
    assert "backhaul.v1.BackhaulService" in listed(bearer(place.tokens["bob"]))
