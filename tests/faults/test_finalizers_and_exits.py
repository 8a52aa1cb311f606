"""What goes without being closed: finalizers that run anywhere make no call, and processes end quietly."""

from __future__ import annotations

import gc
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from tests.e2e.server_process import serving
from tests.faults.programs import run
from tests.faults.ways import Way

import backhaul as bh


def tied(*things: Any) -> None:
    """Put things into a cycle that nothing else holds: only a gc run finds them."""
    cycle: list[Any] = list(things)
    cycle.append(cycle)


def made(connection: bh.Connection) -> tuple[bh.Tape, bh.TrackedTensor]:
    """A tape that the server knows, with a tensor."""
    tape = bh.Tape(connection)
    x = tape.leaf(np.ones(3))
    (x * 2.0).numpy()
    return tape, x


@pytest.fixture
def own(way: Way, targets: Mapping[str, str]) -> Any:
    """A connection of the test's own, for what it counts."""
    with bh.connect(targets[way.by], timeout=60, **way.options) as connection:
        yield connection


def test_a_gc_run_inside_a_call_makes_no_call_of_its_own(own: bh.Connection) -> None:
    """As it comes when gRPC allocates, with its locks held."""
    transport: Any = own._ready()
    call = transport._call
    runs: list[int] = []

    def collecting(*parts: Any) -> Any:
        tied(*made_before.pop()) if made_before else None
        before = transport.calls.total()
        gc.collect()
        runs.append(transport.calls.total() - before)
        return call(*parts)

    made_before = [made(own) for _ in range(3)]
    keeper = bh.Tape(own)
    x = keeper.leaf(2.0)
    transport._call = collecting
    try:
        for k in range(3):
            assert float(x * float(k)) == 2.0 * k
    finally:
        del transport._call
    assert not made_before
    assert runs
    assert not any(runs)


def test_finalizers_on_another_thread_make_no_call_and_wait_for_no_lock(own: bh.Connection) -> None:
    things = [made(own) for _ in range(5)]
    before = own.calls.copy()
    locks = [tape._recorder.lock for tape, _ in things]
    transport = own._ready()
    for lock in locks:
        lock.acquire()
    transport._lock.acquire()
    own._lock.acquire()
    try:
        tied(*things)
        del things
        thread = threading.Thread(target=gc.collect)
        thread.start()
        thread.join(20)
        assert not thread.is_alive(), "a finalizer waits for a lock"
    finally:
        own._lock.release()
        transport._lock.release()
        for lock in locks:
            lock.release()
    assert own.calls == before
    own.ping()
    assert own.calls - before == {"GetServerInfo": 1, "CloseSession": 5}


def test_tensors_dropped_while_other_threads_ask_are_released_and_not_lost(
    tape: bh.Tape,
) -> None:
    x = tape.leaf(np.ones(10))
    stop = threading.Event()

    def dropping() -> None:
        while not stop.is_set():
            tied(x * 2.0, x + 1.0)
            gc.collect(0)

    threads = [threading.Thread(target=dropping) for _ in range(2)]
    for each in threads:
        each.start()
    try:
        for k in range(30):
            np.testing.assert_array_equal(tape.pullback(bh.sum(x * float(k)))[x], np.full(10, k))
    finally:
        stop.set()
        for each in threads:
            each.join(30)
    gc.collect()
    (x * 1.0).numpy()
    (x * 1.0).numpy()
    session = tape._core._session
    held = tape._core.connection._ready().get_session(session.id, session.epoch, timeout=60)
    assert held.nodes < 100


# Ends of processes

ENDS = {
    "nothing closed": "",
    "a cycle": "cycle = [tape, x, y, connection]; cycle.append(cycle); del tape, x, y, connection",
    "gc off": "gc.disable(); cycle = [tape, x]; cycle.append(cycle); del cycle",
    "steps not sent": "z = y * 3.0 + np.ones(3)",
    "closed": "tape.close(); connection.close()",
    "connection first": "connection.close()",
    "an error shown": "try: bh.matmul(x, np.ones((4, 4)))\nexcept bh.BackhaulError as error: kept = error",
    "used by threads": "ts = [threading.Thread(target=square, args=(connection,)) for _ in range(4)]\n"
    "[t.start() for t in ts]",
    "in an atexit": "import atexit; atexit.register(lambda: square(connection))",
    "a daemon in a call": "def work():\n"
    "    with bh.Tape(connection) as mine:\n"
    "        z = mine.leaf(np.eye(300))\n"
    "        while True: began.set(); bh.sum(z @ z @ z).numpy()\n"
    "began = threading.Event(); threading.Thread(target=work, daemon=True).start(); began.wait()",
    "sys.exit": "sys.exit(0)",
}


@pytest.mark.parametrize(
    "end",
    [
        end if end == "a daemon in a call" else pytest.param(end, marks=pytest.mark.slow)
        for end in ENDS
    ],
)
def test_a_process_ends_quietly_and_quickly(way: Way, targets: Mapping[str, str], end: str) -> None:
    program = (
        "connection = connect(); tape = bh.Tape(connection); x = tape.leaf(np.ones(3)); y = x * 2.0\n"
        "assert y.numpy().tolist() == [2.0] * 3\n"
        f"print('at the end', time.time(), flush=True)\n{ENDS[end]}\n"
    )
    done = run(way, targets, program, timeout=300)
    ended = time.time()
    assert (done.returncode, done.stderr) == (0, "")
    said, _, at = done.stdout.strip().rpartition(" ")
    assert said == "at the end"
    assert ended - float(at) < 60


def test_a_process_that_closes_nothing_leaves_no_session(
    way: Way, targets: Mapping[str, str], connection: bh.Connection
) -> None:
    before = {each.digest for each in connection.sessions()}
    program = (
        "tapes = [bh.Tape(connect()) for _ in range(3)]\n"
        "for each in tapes: each.leaf(1.0).numpy()\n"
    )
    done = run(way, targets, program)
    assert (done.returncode, done.stderr) == (0, "")
    assert {each.digest for each in connection.sessions()} <= before


LEAVING = """
import sys
import backhaul as bh
tapes = [bh.Tape(bh.connect(sys.argv[1], timeout=60)) for _ in range(3)]
for each in tapes:
    each.leaf(1.0).numpy()
print("ready", flush=True)
sys.stdin.readline()
"""


def test_a_process_ends_soon_though_its_server_does_not_answer() -> None:
    with (
        serving() as server,
        subprocess.Popen(
            [sys.executable, "-c", LEAVING, server.target],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        ) as client,
    ):
        assert client.stdout is not None
        assert client.stdout.readline() == "ready\n"
        os.kill(server.process.pid, signal.SIGSTOP)
        client.communicate("go on\n", timeout=60)  # a second, and what the machine is busy with
        assert client.returncode == 0
