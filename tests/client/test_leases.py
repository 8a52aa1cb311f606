"""Leases in the client, over real sockets: tapes outlive them, and what is dropped is freed meanwhile."""

from __future__ import annotations

import gc
import signal
import subprocess
import sys
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from tests.client.waiting import wait_until

import backhaul as bh
from backhaul_proto.errors import InvalidArgument, SessionExpired
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

LEASE = 2.0


@pytest.fixture(scope="module")
def leased() -> Iterator[str]:
    """A server whose sessions end soon."""
    server = Server(Dispatcher(Engine(), lease=LEASE), ["127.0.0.1:0"])
    server.start()
    yield server.targets[0]
    server.stop(None)


@pytest.fixture
def watcher(leased: str) -> Iterator[bh.Connection]:
    """A connection that looks at what others leave on the server."""
    with bh.connect(leased, timeout=60) as made:
        yield made


def test_a_tape_outlives_its_lease(leased: str) -> None:
    with bh.connect(leased, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.arange(100.0))
        tape.flush()
        wait_until(lambda: connection.sessions()[0].info.age_seconds > 3 * LEASE)
        assert connection.calls["RenewLease"] >= 3
        np.testing.assert_array_equal((x + 1.0).numpy(), np.arange(100.0) + 1.0)


def test_without_renewal_it_is_typed(leased: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with bh.connect(leased, timeout=60) as connection:
        monkeypatch.setattr(connection, "keep", lambda _: None)
        tape = bh.Tape(connection)
        x = tape.leaf(np.arange(100.0))
        tape.flush()
        wait_until(lambda: not connection.sessions())
        with pytest.raises(SessionExpired, match=f"{LEASE:g} s"):
            (x + 1.0).numpy()


@pytest.mark.parametrize("fetched", [True, False])
def test_counting_up_leaves_one_tensor(
    leased: str, watcher: bh.Connection, *, fetched: bool
) -> None:
    with bh.connect(leased, timeout=60) as connection:
        tape = bh.Tape(connection)
        x: Any = tape.leaf(np.zeros(100))
        for _ in range(1000):
            x = x + 1.0
            if fetched:
                x.numpy()
        np.testing.assert_array_equal(x.numpy(), np.full(100, 1000.0))
        one = tape.constant(1.0)  # what each step used, and is kept to be found again
        assert one.size == 1
        wait_until(lambda: watcher.sessions()[0].info.nodes <= 2)
        np.testing.assert_array_equal((x * 2.0).numpy(), np.full(100, 2000.0))


def test_what_a_waiting_step_needs_is_not_released(leased: str, watcher: bh.Connection) -> None:
    with bh.connect(leased, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.full(100, 3.0))
        unneeded = tape.leaf(np.full(100, 5.0))
        tape.flush()
        y = x * x  # not sent yet
        del x, unneeded
        wait_until(lambda: watcher.sessions()[0].info.nodes == 1)
        np.testing.assert_array_equal(y.numpy(), np.full(100, 9.0))


def test_forgotten_tapes_are_closed(leased: str, watcher: bh.Connection) -> None:
    with bh.connect(leased, timeout=60) as connection:
        tape = bh.Tape(connection)
        tape.leaf(1.0)
        tape.flush()
        del tape
        gc.collect()
        wait_until(lambda: connection.calls["CloseSession"] == 1)
        assert watcher.sessions() == []


def test_closing_the_connection_closes_its_sessions(leased: str, watcher: bh.Connection) -> None:
    connection = bh.connect(leased, timeout=30)
    tapes = [bh.Tape(connection) for _ in range(3)]
    for each in tapes:
        each.leaf(1.0)
        each.flush()
    assert len(watcher.sessions()) == 3
    connection.close()
    assert watcher.sessions() == []


def test_a_connection_without_tapes_renews_nothing(leased: str) -> None:
    with bh.connect(leased, timeout=60) as connection:
        with bh.Tape(connection) as tape:
            tape.leaf(1.0)
            tape.flush()
        connection.renew_leases()
        assert connection.calls["RenewLease"] == 0


def test_a_forgotten_connection_ends_with_its_thread(leased: str) -> None:
    connection = bh.connect(leased, timeout=30)
    tape = bh.Tape(connection)
    tape.leaf(1.0)
    tape.flush()
    assert connection._renewer is not None
    thread, gone = connection._renewer._thread, weakref.ref(connection)
    assert thread.daemon
    del tape, connection

    def is_gone() -> bool:
        gc.collect()
        return gone() is None and not thread.is_alive()

    wait_until(is_gone)


def test_an_embedded_server_needs_no_thread() -> None:
    with bh.connect("embedded") as connection:
        tape = bh.Tape(connection, lease=0.5)
        tape.leaf(1.0)
        tape.flush()
        assert connection._renewer is None


@pytest.mark.parametrize("wrong", [0, -1.0, float("nan"), float("inf"), True, "10"])
def test_a_lease_is_a_number_of_seconds(wrong: Any) -> None:
    with pytest.raises(InvalidArgument, match="finite number of seconds"):
        bh.Tape(lease=wrong)


CHILD = """
import sys, backhaul as bh
tape = bh.Tape(bh.connect(sys.argv[1], timeout=60))
tape.leaf([1.0, 2.0])
tape.flush()
print("begun", flush=True)
{then}
"""


def child(target: str, then: str) -> subprocess.Popen[str]:
    code = CHILD.format(then=then)
    process = subprocess.Popen(
        [sys.executable, "-c", code, target],
        stdout=subprocess.PIPE,
        text=True,
        stdin=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "begun\n"
    return process


def ended(watcher: bh.Connection) -> Callable[[], bool]:
    return lambda: not watcher.sessions()


def test_a_killed_client_leaves_nothing(leased: str, watcher: bh.Connection) -> None:
    wait_until(ended(watcher))  # those of the tests before
    process = child(leased, "sys.stdin.read()")
    try:
        assert len(watcher.sessions()) == 1
    finally:
        process.send_signal(signal.SIGKILL)
        process.communicate()
    wait_until(ended(watcher))


def test_a_client_ends_with_its_program(leased: str, watcher: bh.Connection) -> None:
    process = child(leased, "")
    process.communicate(timeout=120)
    assert process.returncode == 0
    wait_until(ended(watcher))


def test_a_fork_neither_renews_nor_closes(leased: str, watcher: bh.Connection) -> None:
    then = """
import os, threading
if os.fork() == 0:
    names = [each.name for each in threading.enumerate()]
    tape.close()
    os._exit(int("backhaul-leases" in names))
print(os.waitstatus_to_exitcode(os.wait()[1]), flush=True)
sys.stdin.read()
"""
    process = child(leased, then)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == "0\n"
        assert len(watcher.sessions()) == 1
    finally:
        process.kill()
        process.communicate()
    wait_until(ended(watcher))
