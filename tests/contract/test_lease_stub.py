"""Leases and lists of sessions, as any language sees them."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Iterator
from functools import partial
from typing import Any

import grpc
import pytest
from tests.client.waiting import wait_until
from tests.contract.refusals import refusal
from tests.contract.test_raw_stub import leaf

from backhaul_proto.v1 import service_pb2, service_pb2_grpc
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server


@pytest.fixture(scope="module")
def stub() -> Iterator[Any]:
    server = Server(Dispatcher(Engine(), lease=60.0), ["127.0.0.1:0"])
    server.start()
    with grpc.insecure_channel(server.targets[0].removeprefix("grpc://")) as channel:
        yield service_pb2_grpc.BackhaulServiceStub(channel)
    server.stop(None)


def opened(stub: Any, lease: float = 0.0) -> Any:
    reference = service_pb2.SessionRef(id=secrets.token_bytes(16))
    options = service_pb2.SessionOptions(lease_seconds=lease)
    request = service_pb2.OpenSessionRequest(session=reference, options=options)
    reference.epoch = stub.OpenSession(request).epoch
    return reference


def nodes(stub: Any, session: Any) -> int:
    found: int = stub.GetSession(service_pb2.GetSessionRequest(session=session)).nodes
    return found


def renew(stub: Any, *renewals: Any, epoch: bytes = b"") -> list[tuple[bytes, str]]:
    answer = stub.RenewLease(service_pb2.RenewLeaseRequest(epoch=epoch, sessions=renewals))
    return [(each.id, each.reason) for each in answer.ended]


def test_the_lease_is_told_where_it_is_opened(stub: Any) -> None:
    info = stub.GetServerInfo(service_pb2.GetServerInfoRequest())
    assert info.limits.lease_seconds == 60.0
    session = opened(stub, 20.0)
    leaf(stub, session, [1.0, 2.0])
    found = stub.GetSession(service_pb2.GetSessionRequest(session=session))
    assert 10.0 < found.lease_left_seconds <= 20.0
    assert found.steps == 1
    assert 0.0 < found.busy_seconds < 10.0


def test_a_lease_that_is_no_number_is_refused(stub: Any) -> None:
    for wrong in (-1.0, float("nan"), float("inf")):
        status, reason, _ = refusal(partial(opened, stub, wrong))
        assert (status, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_VALUE")


def test_a_renewal_lists_those_that_ended(stub: Any) -> None:
    lives, closed, never = opened(stub), opened(stub), secrets.token_bytes(16)
    stub.CloseSession(service_pb2.CloseSessionRequest(session=closed))
    renewals = [service_pb2.Renewal(id=each) for each in (lives.id, closed.id, never)]
    assert renew(stub, *renewals, epoch=lives.epoch) == [
        (closed.id, "SESSION_CLOSED"),
        (never, "SESSION_NOT_FOUND"),
    ]


def test_a_renewal_releases_at_once_what_is_there(stub: Any) -> None:
    session = opened(stub)
    first, second = leaf(stub, session, 1.0), leaf(stub, session, 2.0)
    assert renew(stub, service_pb2.Renewal(id=session.id, release=[first, 77])) == []
    assert nodes(stub, session) == 1
    assert leaf(stub, session, 3.0) == second + 1


def test_what_an_answered_request_released_goes_at_once(stub: Any) -> None:
    session = opened(stub)
    node = leaf(stub, session, 1.0)
    stub.Execute(service_pb2.ExecuteRequest(session=session, seq=1, release=[node]))
    asked = service_pb2.GetValueRequest(session=session, node=node)
    renew(stub, service_pb2.Renewal(id=session.id, answered=0))
    repeated = service_pb2.ExecuteRequest(session=session, seq=1, values=[node], release=[node])
    assert len(stub.Execute(repeated).tensors) == 1  # not answered: it may be asked again
    renew(stub, service_pb2.Renewal(id=session.id, answered=1))
    status, reason, _ = refusal(lambda: stub.GetValue(asked))
    assert (status, reason) == (grpc.StatusCode.NOT_FOUND, "MISSING_NODE")


def test_another_epoch_is_a_lost_session(stub: Any) -> None:
    session = opened(stub)
    status, reason, _ = refusal(
        lambda: renew(stub, service_pb2.Renewal(id=session.id), epoch=b"another.")
    )
    assert (status, reason) == (grpc.StatusCode.ABORTED, "SESSION_LOST")


def test_ten_thousand_are_renewed_at_once_and_no_more(stub: Any) -> None:
    renewals = [service_pb2.Renewal(id=secrets.token_bytes(16)) for _ in range(10_001)]
    assert len(renew(stub, *renewals[1:])) == 10_000
    status, reason, _ = refusal(lambda: renew(stub, *renewals))
    assert (status, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")


def test_sessions_are_listed_without_their_ids(stub: Any) -> None:
    session = opened(stub, 30.0)
    leaf(stub, session, [1.0, 2.0])
    found = stub.ListSessions(service_pb2.ListSessionsRequest()).sessions[-1]
    assert found.digest == hashlib.sha256(session.id).digest()[:8]
    assert (found.nodes, found.bytes, found.last_seq, found.steps) == (1, 16, 0, 1)
    assert 29.0 < found.lease_left_seconds <= 30.0
    assert found.age_seconds > 0.0
    assert found.memory_limit > 0
    assert not found.busy


def test_a_session_that_nobody_renews_is_over(stub: Any) -> None:
    session = opened(stub, 0.2)
    digest = hashlib.sha256(session.id).digest()[:8]

    def is_gone() -> bool:
        listed = stub.ListSessions(service_pb2.ListSessionsRequest()).sessions
        return all(each.digest != digest for each in listed)

    wait_until(is_gone)
    status, reason, _ = refusal(lambda: nodes(stub, session))
    assert (status, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SESSION_EXPIRED")
