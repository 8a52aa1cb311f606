"""Front ends over workers elsewhere, by gRPC: they know no session, and any of them takes any call."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.contract.refusals import refusal
from tests.server.cluster.fakes import FakeCluster, FakeLauncher, FakeWorker, reported, ticked

import backhaul as bh
from backhaul_proto import tensors
from backhaul_proto.messages import Limits
from backhaul_proto.v1 import service_pb2, service_pb2_grpc
from backhaul_server.cluster.directory import Directory
from backhaul_server.service.draining import Drain
from backhaul_server.service.entry import Entry
from backhaul_server.service.routing import RoutingHost
from backhaul_server.service.server import Server
from backhaul_server.workers.call import front_ends

MEMORY = 64 << 20


class Fronts:
    """Two front ends of two workers."""

    def __init__(self, memory: int = MEMORY) -> None:
        self.launcher = FakeLauncher(memory=memory, session_memory=memory)
        self.directory = Directory(self.launcher)
        self.directory.want(2)
        reported(self.directory, 2)
        self.cluster = FakeCluster(self.directory, self.launcher)
        self.servers = [self.front(), self.front()]

    def front(self) -> Server:
        host = RoutingHost(self.cluster, Limits(1 << 30), MEMORY)
        server = Server(
            host, ["127.0.0.1:0"], entry=Entry(drain=Drain(farewell=front_ends)), streams=2
        )
        server.start()
        return server

    def connect(self, number: int, **options: Any) -> bh.Connection:
        return bh.connect(self.servers[number].targets[0], timeout=30, **options)

    def worker_of(self, tape: bh.Tape) -> FakeWorker:
        epoch = tape._core.session.epoch
        return next(each for each in self.launcher.made if each.facts.epoch == epoch)

    def close(self) -> None:
        for each in self.servers:
            each.stop(None)
        self.launcher.close()


@pytest.fixture
def fronts() -> Iterator[Fronts]:
    made = Fronts()
    yield made
    made.close()


@pytest.fixture
def stub(fronts: Fronts) -> Iterator[Any]:
    with grpc.insecure_channel(fronts.servers[0].targets[0].removeprefix("grpc://")) as channel:
        yield service_pb2_grpc.BackhaulServiceStub(channel)


def test_a_session_goes_on_through_another_front_end_without_a_look_up(fronts: Fronts) -> None:
    with fronts.connect(0) as one, fronts.connect(1) as other, bh.Tape(one) as tape:
        x = tape.leaf(3.0)
        assert float(x * x) == 9.0
        fronts.servers[0].stop(1.0)
        tape._core.connection = other
        assert float(tape.pullback(x * x)[x]) == 6.0
        assert fronts.cluster.looked_up == 0


def test_a_front_end_that_ends_says_that_sessions_live_on(fronts: Fronts, stub: Any) -> None:
    session = service_pb2.SessionRef(id=secrets.token_bytes(16))
    stub.OpenSession(service_pb2.OpenSessionRequest(session=session))
    fronts.servers[0]._drain.close()
    request = service_pb2.GetSessionRequest(session=session)
    reason, facts = refused(lambda: stub.GetSession(request))
    assert (reason, facts) == ("UNAVAILABLE", {"retry_after": "0.5"})
    with fronts.connect(1) as other:
        assert len(other.sessions()) == 1


def test_a_client_that_sends_no_epoch_is_looked_up_once(fronts: Fronts, stub: Any) -> None:
    session = service_pb2.SessionRef(id=secrets.token_bytes(16))
    stub.OpenSession(service_pb2.OpenSessionRequest(session=session))
    leaf = service_pb2.LeafRequest(session=session)
    tensors.fill(leaf.value, np.array(2.5))
    node = stub.Leaf(leaf).node.node
    value = stub.GetValue(service_pb2.GetValueRequest(session=session, node=node)).value
    assert np.frombuffer(value.data)[0] == 2.5
    assert fronts.cluster.looked_up == 1
    stub.CloseSession(service_pb2.CloseSessionRequest(session=session))


def refused(work: Any) -> tuple[str, dict[str, str]]:
    _, reason, facts = refusal(work)
    return reason, facts


def test_a_session_that_nobody_opened_is_not_found(stub: Any) -> None:
    session = service_pb2.SessionRef(id=secrets.token_bytes(16))
    request = service_pb2.GetSessionRequest(session=session)
    assert refused(lambda: stub.GetSession(request))[0] == "SESSION_NOT_FOUND"
    short = service_pb2.GetSessionRequest(session=service_pb2.SessionRef(id=b"short"))
    assert refused(lambda: stub.GetSession(short))[0] == "MALFORMED_REQUEST"


def test_an_epoch_of_no_worker_is_a_lost_session(stub: Any) -> None:
    session = service_pb2.SessionRef(id=secrets.token_bytes(16), epoch=secrets.token_bytes(8))
    request = service_pb2.GetSessionRequest(session=session)
    reason, facts = refused(lambda: stub.GetSession(request))
    assert (reason, facts) == ("SESSION_LOST", {"expected": session.epoch.hex()})


def test_a_dead_workers_sessions_are_lost_with_its_name_and_others_go_on(fronts: Fronts) -> None:
    with fronts.connect(0) as connection:
        tapes = [bh.Tape(connection) for _ in range(4)]
        leaves = [tape.leaf(float(i)) for i, tape in enumerate(tapes)]
        assert [float(x + 1) for x in leaves] == [1.0, 2.0, 3.0, 4.0]
        dead = fronts.worker_of(tapes[0])
        dead.died.set()
        ticked(fronts.directory, lambda: fronts.directory.obituary(dead.facts.epoch) is not None)
        for i, tape in enumerate(tapes):
            if fronts.worker_of(tape) is not dead:
                assert float(leaves[i] * 2) == 2.0 * i
                continue
            with pytest.raises(bh.SessionLost) as caught:
                float(leaves[i] * 2)
            details = caught.value.details
            assert (details["worker"], details["node"]) == (dead.facts.name, dead.facts.node)
            assert dead.facts.node in caught.value.message
        for tape in tapes:
            tape.close()


def test_recovery_goes_to_another_worker_to_the_same_bits(fronts: Fronts) -> None:
    with fronts.connect(0, recover=True) as connection, bh.Tape(connection) as tape:
        x = tape.leaf(np.random.default_rng(1).normal(size=(20, 20)))
        y = bh.tanh(x @ x).sum()
        before = tape.pullback(y)[x]
        dead = fronts.worker_of(tape)
        dead.died.set()
        np.testing.assert_array_equal(tape.pullback(y)[x], before)
        assert fronts.worker_of(tape) is not dead


def test_a_session_is_opened_elsewhere_when_its_worker_drains_just_then(fronts: Fronts) -> None:
    for each in fronts.launcher.made[:1]:
        each.worker.refuse_sessions()
    with fronts.connect(0) as connection:
        tapes = [bh.Tape(connection) for _ in range(4)]
        assert [float(tape.leaf(1.0) + 1) for tape in tapes] == [2.0] * 4
        assert {fronts.worker_of(tape) for tape in tapes} == {fronts.launcher.made[1]}
        for tape in tapes:
            tape.close()


def test_no_worker_at_all_is_told_with_a_time_to_come_again(fronts: Fronts, stub: Any) -> None:
    for each in fronts.launcher.made:
        each.died.set()
    session = service_pb2.SessionRef(id=secrets.token_bytes(16))
    request = service_pb2.OpenSessionRequest(session=session)
    reason, facts = refused(lambda: stub.OpenSession(request))
    assert reason in ("UNAVAILABLE", "SESSION_LOST")
    ticked(fronts.directory, lambda: not fronts.directory.workers())
    reason, facts = refused(lambda: stub.OpenSession(request))
    assert reason == "UNAVAILABLE"
    assert float(facts["retry_after"]) > 0


def test_a_worker_out_of_reach_may_come_back(fronts: Fronts) -> None:
    with fronts.connect(0) as connection, bh.Tape(connection) as tape:
        x = tape.leaf(2.0)
        assert float(x * x) == 4.0
        worker = fronts.worker_of(tape)
        worker.away.set()
        timer = threading.Timer(0.3, worker.away.clear)
        timer.start()
        assert float(x * x * x) == 8.0
        timer.join()


def test_errors_cross_as_what_they_are(fronts: Fronts) -> None:
    with fronts.connect(0) as connection, bh.Tape(connection) as tape:
        a = tape.leaf(-np.eye(2))
        with pytest.raises(bh.LinearAlgebraError) as caught:
            bh.linalg.cholesky(a).numpy()
        assert caught.value.reason == "NOT_POSITIVE_DEFINITE"
        with pytest.raises(bh.MemoryLimitExceeded) as over:
            tape.leaf(np.ones(MEMORY // 4)).sum().numpy()
        assert int(over.value.details["needed"]) > MEMORY


@pytest.fixture
def roomy() -> Iterator[Fronts]:
    made = Fronts(1 << 30)
    yield made
    made.close()


def test_a_call_that_is_cancelled_stops_at_the_worker(roomy: Fronts) -> None:
    with roomy.connect(0) as connection, bh.Tape(connection) as tape:
        x = tape.leaf(np.eye(200))
        assert float(bh.sum(x)) == 200.0
        worker = roomy.worker_of(tape)
        y = x
        for _ in range(600):  # seconds of work
            y = bh.linalg.expm(y * 0.01)
        connection.timeout = 0.3
        with pytest.raises(bh.DeadlineExceeded):
            y.numpy()
        connection.timeout = 30
        until = time.monotonic() + 120
        while worker.worker.report().calls and time.monotonic() < until:
            threading.Event().wait(0.01)
        assert worker.worker.report().calls == 0
        assert worker.worker.report().steps < 1200


def test_large_requests_and_answers_pass_in_streams(fronts: Fronts) -> None:
    array = np.random.default_rng(0).normal(size=(1000, 1000))
    with fronts.connect(0) as connection, bh.Tape(connection) as tape:
        x = tape.leaf(array)
        np.testing.assert_array_equal((x + x).numpy(), array + array)
        assert connection.calls["ExecuteStream"] > 0
        with pytest.raises(bh.MemoryLimitExceeded):
            tape.leaf(np.ones(MEMORY // 8 + 1)).sum().numpy()
    for host in (each.host for each in fronts.servers):
        assert isinstance(host, RoutingHost)
        assert host._pool.used == 0


def until_older(connection: bh.Connection, seconds: float) -> None:
    """Wait until all sessions are, so that the next one is younger by more than workers take to answer."""
    end = time.monotonic() + 120
    while min(each.info.age_seconds for each in connection.sessions()) < seconds:
        assert time.monotonic() < end


def test_sessions_are_listed_with_where_they_are(fronts: Fronts) -> None:
    with fronts.connect(0) as one, fronts.connect(1) as other:
        tapes = [bh.Tape(one) for _ in range(3)]
        for tape in tapes:
            float(tape.leaf(1.0) + 1)
            until_older(one, 1.0)
        workers = [fronts.worker_of(tape).facts for tape in tapes]
        assert [(each.worker, each.node, each.info.device) for each in other.sessions()] == [
            (each.name, each.node, "cpu") for each in workers
        ]
        for tape in tapes:
            tape.close()
        assert list(other.sessions()) == []


def test_leases_are_renewed_by_epoch_and_without(fronts: Fronts, stub: Any) -> None:
    ids = [secrets.token_bytes(16) for _ in range(5)]
    epochs = [
        stub.OpenSession(
            service_pb2.OpenSessionRequest(session=service_pb2.SessionRef(id=each))
        ).epoch
        for each in ids[:4]
    ]
    dead = next(each for each in fronts.launcher.made if each.facts.epoch == epochs[0])
    request = service_pb2.RenewLeaseRequest()
    for each in ids:
        request.sessions.add(id=each)
    assert [(each.id, each.reason) for each in stub.RenewLease(request).ended] == [
        (ids[4], "SESSION_NOT_FOUND")
    ]
    dead.died.set()
    ended = {each.id: each.reason for each in stub.RenewLease(request).ended}
    lost = {ids[i]: "SESSION_LOST" for i in range(4) if epochs[i] == epochs[0]}
    assert ended == {**lost, ids[4]: "SESSION_NOT_FOUND"}
    by_epoch = service_pb2.RenewLeaseRequest(epoch=epochs[0])
    by_epoch.sessions.add(id=ids[0])
    assert refused(lambda: stub.RenewLease(by_epoch))[0] == "SESSION_LOST"
