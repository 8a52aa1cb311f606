"""How many calls are in a server at once, and what it says to those beyond."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.client.waiting import wait_until
from tests.contract.refusals import refusal

from backhaul_proto.errors import QuotaExceeded, ServerBusy
from backhaul_proto.v1 import service_pb2, service_pb2_grpc
from backhaul_server.engine.engine import Engine
from backhaul_server.service import admission
from backhaul_server.service.admission import PASSING, RESERVE, Slots
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry
from backhaul_server.service.health import Health
from backhaul_server.service.server import Server
from backhaul_server.workers.call import Call
from backhaul_server.workers.turns import TurnsWorker

LIST = service_pb2.ListOpsRequest()  # is answered without a turn, when it is let in
INFO = service_pb2.GetServerInfoRequest()


class Named:
    """Takes the principal from what the caller says."""

    def principal(self, context: Any) -> str:
        return str(dict(context.invocation_metadata()).get("name", ""))


def test_beyond_the_slots_calls_are_refused_and_told_times_one_after_the_other() -> None:
    slots = Slots(2, line=0, clock=lambda: 10.0)
    slots.enter("a", "Execute")
    slots.enter("b", "Execute")
    told = []
    for _ in range(3):
        with pytest.raises(ServerBusy) as caught:
            slots.enter("c", "Execute")
        assert caught.value.details["calls"] == "2"
        told.append(float(caught.value.details["retry_after"]))
    assert told == [0.105, 0.11, 0.115]
    slots.leave("a", "Execute")
    slots.enter("c", "Execute")
    assert slots.inside == 2


def test_what_makes_room_passes_up_to_a_reserve() -> None:
    slots = Slots(1, line=0)
    slots.enter("a", "Execute")
    for method in sorted(PASSING) * (RESERVE // len(PASSING)):
        slots.enter("a", method)
    with pytest.raises(ServerBusy):
        slots.enter("a", "Release")
    for method in sorted(PASSING) * (RESERVE // len(PASSING)):
        slots.leave("a", method)
    with pytest.raises(ServerBusy):
        slots.enter("a", "Execute")


class Line:
    """Calls for which there is no slot, each on a thread of its own."""

    def __init__(self, slots: Slots, threads: ThreadPoolExecutor) -> None:
        self.slots = slots
        self.entered: list[str] = []
        self._threads = threads

    def join(self, name: str) -> Future[None]:
        before = len(self.slots._line)
        joined = self._threads.submit(self._enter, name)
        wait_until(lambda: len(self.slots._line) > before)
        return joined

    def _enter(self, name: str) -> None:
        self.slots.enter(name, "Execute")
        self.entered.append(name)


def test_a_few_wait_for_a_slot_and_get_it_in_the_order_in_which_they_came(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "MOMENT", 60.0)
    slots = Slots(1, of_principal=1, line=2)
    slots.enter("a", "Execute")
    with ThreadPoolExecutor(2) as threads:
        line = Line(slots, threads)
        second, third = line.join("b"), line.join("c")
        with pytest.raises(ServerBusy):
            slots.enter("d", "Execute")
        with pytest.raises(QuotaExceeded):  # who waits counts
            slots.enter("b", "Execute")
        slots.enter("", "Release")  # beyond the slots: when it leaves, there is none for others
        slots.leave("", "Release")
        assert not line.entered
        slots.leave("a", "Execute")
        second.result(60)
        assert line.entered == ["b"]
        slots.leave("b", "Execute")
        third.result(60)
        slots.leave("c", "Execute")
    assert slots.inside == 0
    slots.enter("b", "Execute")


def test_who_waits_a_moment_in_vain_is_refused_and_no_longer_counted() -> None:
    slots = Slots(1, of_principal=1)
    slots.enter("a", "Execute")
    for _ in range(2):
        with pytest.raises(ServerBusy) as caught:
            slots.enter("b", "Execute")
        assert "retry_after" in caught.value.details
    slots.leave("a", "Execute")
    slots.enter("b", "Execute")
    assert slots.inside == 1


def test_slots_are_neither_lost_nor_doubled_by_those_who_give_up(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(admission, "MOMENT", 0.0005)
    slots = Slots(2)
    entered: Counter[bool] = Counter()
    most = [0]

    def come_and_go(_: int) -> None:
        for _ in range(300):
            try:
                slots.enter("a", "Execute")
            except ServerBusy:
                entered[False] += 1
                continue
            most[0] = max(most[0], slots.inside)
            time.sleep(0.0005)
            slots.leave("a", "Execute")
            entered[True] += 1

    with ThreadPoolExecutor(6) as threads:
        list(threads.map(come_and_go, range(6)))
    assert (slots.inside, most[0]) == (0, 2)
    assert entered.total() == 1800
    assert min(entered.values()) > 0


def test_a_principal_has_a_number_of_its_own_and_streams_count_for_it() -> None:
    slots = Slots(10, of_principal=2)
    slots.enter("a", "Execute")
    slots.enter("a", "ExecuteStream")
    assert slots.inside == 1
    for method in ("Execute", "ExecuteStream"):
        with pytest.raises(QuotaExceeded) as caught:
            slots.enter("a", method)
        facts = {name: caught.value.details[name] for name in ("quota", "used", "allowed")}
        assert facts == {"quota": "calls", "used": "2", "allowed": "2"}
        assert float(caught.value.details["retry_after"]) > 0
    slots.enter("b", "Execute")
    slots.enter("a", "CloseSession")
    slots.leave("a", "CloseSession")
    slots.leave("a", "ExecuteStream")
    slots.enter("a", "Execute")


def test_the_pace_at_which_calls_end_is_what_they_are_told() -> None:
    now = [0.0]
    slots = Slots(1, line=0, clock=lambda: now[0])
    slots.enter("", "Execute")
    for _ in range(200):
        now[0] += 0.05
        slots.leave("", "Execute")
        slots.enter("", "Execute")
    told = []
    for _ in range(2):
        with pytest.raises(ServerBusy) as caught:
            slots.enter("", "Execute")
        told.append(float(caught.value.details["retry_after"]))
    assert told[1] - told[0] == pytest.approx(0.05, rel=0.1)


@contextmanager
def full(threads: int, of_principal: int | None = None) -> Iterator[tuple[Server, grpc.Channel]]:
    """A server whose calls all wait for one that holds the turn."""
    worker = TurnsWorker(lanes=0)
    entry = Entry(access=Named(), admission=Slots(threads, of_principal, line=0))
    server = Server(Dispatcher(Engine(), worker), ["127.0.0.1:0"], threads=threads, entry=entry)
    server.start()
    begun, free = threading.Event(), threading.Event()

    def hold(_: Any) -> None:
        begun.set()
        assert free.wait(60)

    with ThreadPoolExecutor(1) as holder, ExitStack() as stack:
        holding: Future[None] = holder.submit(worker.run, Call(), None, hold)
        assert begun.wait(60)
        stack.callback(server.stop, None)
        stack.callback(holding.result, 60)
        stack.callback(free.set)
        yield (
            server,
            stack.enter_context(grpc.insecure_channel(server.targets[0].removeprefix("grpc://"))),
        )


def opening(number: int) -> service_pb2.OpenSessionRequest:
    return service_pb2.OpenSessionRequest(
        session=service_pb2.SessionRef(id=number.to_bytes(16, "big"))
    )


def test_a_full_server_refuses_and_is_well() -> None:
    with full(4) as (_, channel):
        stub: Any = service_pb2_grpc.BackhaulServiceStub(channel)
        health: Any = health_pb2_grpc.HealthStub(channel)
        watch = health.Watch(health_pb2.HealthCheckRequest())
        inside = [stub.OpenSession.future(opening(i), timeout=60) for i in range(4)]
        wait_until(lambda: refusal_of(stub) == "SERVER_BUSY")
        for _ in range(100):
            status, reason, facts = refusal(lambda: stub.ListOps(LIST, timeout=60))
            assert (status, reason) == (grpc.StatusCode.RESOURCE_EXHAUSTED, "SERVER_BUSY")
            assert facts["calls"] == "4"
            assert 0.1 <= float(facts["retry_after"]) <= 5.0
        assert stub.GetServerInfo(INFO, timeout=60).version
        check = health.Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert check.status == health_pb2.HealthCheckResponse.SERVING
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
        assert not any(each.done() for each in inside)


def refusal_of(stub: Any, **metadata: str) -> str:
    """Why a call is not let in; nothing when it is."""
    try:
        stub.ListOps(LIST, timeout=60, metadata=list(metadata.items()))
    except grpc.RpcError as error:
        failed = error
    else:
        return ""

    def again() -> None:
        raise failed

    return str(refusal(again)[1])


def test_many_who_watch_its_health_hold_no_threads() -> None:
    with full(1) as (_, channel):
        health: Any = health_pb2_grpc.HealthStub(channel)
        watching = [health.Watch(health_pb2.HealthCheckRequest()) for _ in range(20)]
        for each in watching:
            assert next(each).status == health_pb2.HealthCheckResponse.SERVING
        check = health.Check(health_pb2.HealthCheckRequest(), timeout=60)
        assert check.status == health_pb2.HealthCheckResponse.SERVING
        for each in watching:
            each.cancel()


def test_a_principal_s_calls_leave_room_for_others() -> None:
    with full(8, of_principal=2) as (_, channel):
        stub: Any = service_pb2_grpc.BackhaulServiceStub(channel)
        mine = [("name", "a")]
        inside = [stub.OpenSession.future(opening(i), timeout=60, metadata=mine) for i in range(2)]

        wait_until(lambda: refusal_of(stub, name="a") == "QUOTA_EXCEEDED")
        assert refusal_of(stub, name="b") == ""
        assert not any(each.done() for each in inside)


class Watcher:
    """A watcher that is slow to be told: what is sent to him does not leave for a while."""

    def __init__(self) -> None:
        self.told: list[Any] = []
        self.may_leave = threading.Event()

    def send(self, response: Any) -> None:
        assert self.may_leave.wait(60)
        self.told.append(response.status)

    def add_callback(self, _: Any) -> bool:
        return True


def test_a_watcher_who_is_slow_holds_up_neither_health_nor_the_end() -> None:
    """As long as he is told, gRPC's thread may wait for the lock of the service."""
    server = grpc.server(ThreadPoolExecutor(1))
    health = Health(server)
    health.serving()
    watcher = Watcher()
    watch: Any = health._servicer.Watch
    watch(health_pb2.HealthCheckRequest(), watcher, watcher.send)
    health.stopping()
    check: Any = health._servicer.Check
    answered = check(health_pb2.HealthCheckRequest(), None)
    assert answered.status == health_pb2.HealthCheckResponse.NOT_SERVING
    watcher.may_leave.set()
    states = health_pb2.HealthCheckResponse
    wait_until(lambda: watcher.told == [states.SERVING, states.NOT_SERVING])
    health.close()
