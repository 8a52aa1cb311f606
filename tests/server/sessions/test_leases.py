"""Leases by a clock that tests turn: what renews them, what ends with them, what is said afterwards."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backhaul_proto import codec
from backhaul_proto.errors import SessionClosed, SessionExpired, SessionNotFound
from backhaul_proto.messages import LEAF, Block, BlockCall, Call, Execute, Limits
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.sessions.devices import Device, Devices
from backhaul_server.sessions.engines import Engines
from backhaul_server.sessions.pool import Pool
from backhaul_server.sessions.table import SessionTable
from backhaul_server.sessions.tombstones import KEPT_SECONDS

LEASE = 600.0


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def pool() -> Pool:
    return Pool(1 << 30)


@pytest.fixture
def table(clock: Clock, pool: Pool) -> SessionTable:
    devices = Devices(Device("cpu", "", Engines(Engine(), 1 << 30), pool))
    return SessionTable(devices, codec.read_block, Limits(1 << 20, 1 << 30, LEASE), clock)


def leaf_request(session: bytes, seq: int = 1, **more: Any) -> Execute:
    """A request that puts an array of 8 kB on the tape."""
    data = codec.write_block(Block(0, [Call(LEAF)], [0], []))
    block = BlockCall(codec.block_hash(data), data, 0)
    return Execute(session, seq=seq, block=block, tensors=[np.ones(1000)], **more)


def no_interrupt() -> None:
    pass


def expire_all(table: SessionTable) -> int:
    found = table.run_out()
    for key in found:
        table.expire(key)
    return len(found)


def test_a_session_lives_as_long_as_its_lease(table: SessionTable, clock: Clock) -> None:
    session = secrets.token_bytes(16)
    _, limits = table.open("a", session)
    assert limits.lease_seconds == LEASE
    clock.now += LEASE - 1
    assert expire_all(table) == 0
    clock.now += 1
    assert expire_all(table) == 1
    with pytest.raises(SessionExpired, match="600 s") as raised:
        table.info("a", session, b"")
    assert raised.value.details == {"session": session.hex(), "lease": "600.0"}


@pytest.mark.parametrize(("asked", "given"), [(0.0, 600.0), (30.0, 30.0), (9000.0, 600.0)])
def test_a_lease_is_what_was_asked_and_what_is_allowed_at_most(
    table: SessionTable, asked: float, given: float
) -> None:
    session = secrets.token_bytes(16)
    answer = table.execute("a", leaf_request(session, lease_seconds=asked), no_interrupt)
    assert answer.limits is not None
    assert answer.limits.lease_seconds == given
    assert table.open("a", secrets.token_bytes(16), 0, asked)[1].lease_seconds == given


@pytest.mark.parametrize(
    "call",
    [
        lambda table, session: table.info("a", session, b""),
        lambda table, session: table.release("a", session, b"", [1]),
        lambda table, session: table.renew("a", session),
        lambda table, session: table.execute("a", leaf_request(session, 2), no_interrupt),
    ],
)
def test_each_call_renews_it(
    table: SessionTable, clock: Clock, call: Callable[[SessionTable, bytes], object]
) -> None:
    session = secrets.token_bytes(16)
    table.execute("a", leaf_request(session), no_interrupt)
    clock.now += LEASE - 1
    call(table, session)
    clock.now += LEASE - 1
    assert expire_all(table) == 0
    summary = table.summary("a", session, exact=True)
    assert summary is not None
    assert summary.info.lease_left_seconds == 1.0


def test_it_does_not_run_out_while_a_request_runs(table: SessionTable, clock: Clock) -> None:
    session = secrets.token_bytes(16)
    table.execute("a", leaf_request(session), no_interrupt)
    ran_out = []

    def slow() -> None:
        clock.now += 2 * LEASE
        ran_out.append(expire_all(table))

    double = codec.write_block(Block(1, [Call("add", (), 2)], [0], [0, 0]))
    request = Execute(
        session, seq=2, block=BlockCall(codec.block_hash(double), double, 0, [1]), values=[2]
    )
    answer = table.execute("a", request, slow)
    np.testing.assert_array_equal(answer.values[0], np.full(1000, 2.0))
    assert set(ran_out) == {0}
    assert table.info("a", session, b"").busy_seconds == 2 * LEASE * len(ran_out)
    clock.now += LEASE
    assert expire_all(table) == 1


def test_what_it_held_is_freed(table: SessionTable, clock: Clock, pool: Pool) -> None:
    for _ in range(3):
        table.execute("a", leaf_request(secrets.token_bytes(16)), no_interrupt)
    assert pool._held == 3 * 8000
    clock.now += LEASE
    assert expire_all(table) == 3
    assert pool._held == 0
    assert len(table) == 0


def test_a_call_that_came_first_keeps_it(table: SessionTable, clock: Clock) -> None:
    session = secrets.token_bytes(16)
    table.open("a", session)
    clock.now += LEASE
    (key,) = table.run_out()
    assert table.renew("a", session) is None
    table.expire(key)
    assert table.info("a", session, b"").lease_left_seconds == LEASE


def test_an_ended_session_says_why_for_hours(table: SessionTable, clock: Clock) -> None:
    expired, closed = secrets.token_bytes(16), secrets.token_bytes(16)
    table.open("a", expired)
    clock.now += LEASE
    expire_all(table)
    table.open("a", closed)
    table.close("a", closed)
    assert table.renew("a", expired) == "SESSION_EXPIRED"
    assert table.renew("a", closed) == "SESSION_CLOSED"
    assert table.renew("b", closed) == "SESSION_NOT_FOUND"
    clock.now += KEPT_SECONDS
    table.pause()
    with pytest.raises(SessionExpired):  # a late copy of its first request opens nothing
        table.execute("a", leaf_request(expired), no_interrupt)
    with pytest.raises(SessionClosed):
        table.info("a", closed, b"")
    clock.now += LEASE + 1
    table.pause()
    with pytest.raises(SessionNotFound):
        table.info("a", closed, b"")


def test_leases_are_looked_at_four_times_in_the_shortest(table: SessionTable) -> None:
    assert table.pause() == 5.0
    table.open("a", secrets.token_bytes(16), 0, 2.0)
    assert table.pause() == 0.5


def test_the_server_ends_what_ran_out_and_nothing_else(clock: Clock) -> None:
    dispatcher = Dispatcher(Engine(), lease=LEASE, clock=clock)
    try:
        table = dispatcher._sessions
        old, young = secrets.token_bytes(16), secrets.token_bytes(16)
        table.open("", old)
        clock.now += LEASE / 2
        table.open("", young)
        clock.now += LEASE / 2
        assert dispatcher.expire() == 5.0
        assert table.ids("") == [young]
    finally:
        dispatcher.close()


def test_without_a_lease_no_session_ends(clock: Clock) -> None:
    dispatcher = Dispatcher(Engine(), clock=clock)
    try:
        dispatcher._sessions.open("", secrets.token_bytes(16))
        clock.now += 1e9
        dispatcher.expire()
        assert len(dispatcher._sessions) == 1
    finally:
        dispatcher.close()
