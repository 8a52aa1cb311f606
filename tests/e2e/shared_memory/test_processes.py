"""Clients and servers that die, fork, stop and are interrupted."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.e2e.server_process import serving
from tests.e2e.shared_memory.support import (
    MB,
    answers,
    descriptors,
    in_shared_memory,
    large_square,
    listening,
    mappings,
    memory_of,
    square,
    until,
)

import backhaul as bh
from backhaul.transport import shared_memory
from backhaul_proto.errors import make_error

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds are Linux's")


_HOLDER = """
import sys, numpy as np, backhaul as bh
connection = bh.connect(sys.argv[1], shared_memory=True)
tape = bh.Tape(connection)
x = tape.leaf(np.ones((1000, 1000)))
grad = tape.pullback(bh.sum(x * x))[x]
waiting = tape.leaf(np.ones((2000, 1000)))
print("holding", flush=True)
if sys.argv[2] == "idle":
    sys.stdin.read()
while True:
    (x @ x).numpy()
"""


@pytest.mark.parametrize("when", ["idle", "busy"])
def test_a_client_that_is_killed_leaves_nothing_in_the_server(folder: Path, when: str) -> None:
    with serving("--unix", str(folder / "s")) as server:
        process = server.process.pid
        with bh.connect(f"unix://{folder / 's'}", timeout=60) as connection:
            assert square(connection) == 6.0
            fds = descriptors(process)
            for _ in range(3):
                with subprocess.Popen(
                    [sys.executable, "-c", _HOLDER, f"unix://{folder / 's'}", when],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    text=True,
                ) as client:
                    assert client.stdout is not None
                    assert client.stdout.readline() == "holding\n"
                    assert mappings(process) > 0
                    client.kill()
                until(lambda: mappings(process) == 0)
                assert square(connection) == 6.0
            until(lambda: descriptors(process) <= fds)
        status, log = server.stop()
    assert status == 0
    assert not any("exc_info" in line for line in log)
    assert not any("backhaul" in name for name in os.listdir("/dev/shm"))
    assert os.listdir(folder) in ([], ["s"])  # the side socket is gone


def test_a_server_that_is_killed_and_started_again_gives_new_memory(folder: Path) -> None:
    path = folder / "s"
    with (
        serving("--unix", str(path)) as first,
        bh.connect(f"unix://{path}", timeout=20, shared_memory=True) as connection,
    ):
        kept = large_square(connection, 1.0)
        tape = bh.Tape(connection)
        waiting = tape.leaf(np.full(MB // 8, 5.0))  # frozen in the memory of the first server
        first.process.send_signal(signal.SIGKILL)
        first.process.wait(30)
        with serving("--unix", str(path)):
            until(lambda: answers(connection))
            again = large_square(connection, 3.0)
            assert in_shared_memory(again)
            np.testing.assert_array_equal(again, np.full(MB // 8, 6.0))
            np.testing.assert_array_equal(kept, np.full(MB // 8, 2.0))
            np.testing.assert_array_equal(waiting.numpy(), np.full(MB // 8, 5.0))


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (make_error("DEADLINE_EXCEEDED", "late"), False),
        (make_error("UNAVAILABLE", "broken"), False),
        (KeyboardInterrupt(), False),
        (make_error("SEGMENT_UNKNOWN", "gone"), False),
        (make_error("SINGULAR_MATRIX", "refused by the server, which is done with it"), True),
    ],
    ids=lambda each: getattr(each, "reason", None) or type(each).__name__,
)
def test_memory_of_a_call_in_doubt_is_not_written_again(
    target: str, error: BaseException, again: bool
) -> None:
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        memory = memory_of(connection)
        array = np.ones(MB // 8)
        lent: list[Any] = []

        def call(error: BaseException | None = None) -> None:
            with memory.lend([array], MB) as loan:
                lent.append((loan.tensors, loan.buffers))
                if error is not None:
                    raise error

        with pytest.raises(type(error)):
            call(error)
        call()
        assert (lent[0] == lent[1]) == again
        assert large_square(connection, 2.0)[0] == 4.0


def test_a_call_that_was_not_answered_in_time_leaves_right_numbers(folder: Path) -> None:
    path = folder / "s"
    with (
        serving("--unix", str(path)) as server,
        bh.connect(f"unix://{path}", timeout=60) as connection,
    ):
        assert large_square(connection, 1.0)[0] == 2.0
        tape = bh.Tape(connection)
        x = tape.leaf(np.full(MB // 8, 3.0))
        y = x * 2.0
        server.process.send_signal(signal.SIGSTOP)
        stat = Path(f"/proc/{server.process.pid}/stat")
        until(lambda: stat.read_text().rpartition(")")[2].split()[0] == "T")
        connection.timeout = 0.5
        try:
            with pytest.raises(bh.DeadlineExceeded):
                y.numpy()
            with warnings.catch_warnings():
                warnings.simplefilter(
                    "ignore", RuntimeWarning
                )  # the stopped server does not say hello
                others = [tape.leaf(np.full(MB // 8, -1.0)) for _ in range(4)]
        finally:
            server.process.send_signal(signal.SIGCONT)
        until(lambda: answers(connection))
        connection.timeout = 60
        np.testing.assert_array_equal(y.numpy(), np.full(MB // 8, 6.0))
        assert [float(bh.sum(each)) for each in others] == [-MB / 8] * 4


_FORKS = """
import json, os, signal, sys, numpy as np, backhaul as bh
connection = bh.connect(sys.argv[1], shared_memory=True, timeout=60)
tape = bh.Tape(connection)
x = tape.leaf(np.full(100_000, 2.0))
grad = tape.pullback(bh.sum(x * x))[x]
side = connection._transport._shared._side._socket
if os.fork() == 0:
    try:
        tape.leaf(np.ones(100_000))
        found = "no error"
    except bh.Unavailable as error:
        found = error.reason
    print(json.dumps([os.getpid(), found, side.fileno(), float(grad[0])]), flush=True)
    del grad, x, tape
    signal.pause()  # it outlives its parent
again = tape.leaf(np.full(100_000, 3.0))
assert float(tape.pullback(bh.sum(again * again))[again][0]) == 6.0
assert float(grad[0]) == 4.0
os.read(0, 1)
os.kill(os.getpid(), 9)
"""


def test_a_forked_child_has_no_part_in_it_and_keeps_none_of_it(folder: Path) -> None:
    path = folder / "s"
    with (
        serving("--unix", str(path)) as server,
        subprocess.Popen(
            [sys.executable, "-c", _FORKS, f"unix://{path}"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        ) as client,
    ):
        assert client.stdout is not None
        assert client.stdin is not None
        child, *found = json.loads(client.stdout.readline())
        try:
            assert found == ["FORKED", -1, 4.0]
            assert mappings(server.process.pid) > 0
            client.stdin.write(b"x")
            client.stdin.flush()
            client.wait(30)
            # The child lives, and the memory of the parent is gone.
            until(lambda: mappings(server.process.pid) == 0)
        finally:
            os.kill(child, signal.SIGKILL)


def test_an_interrupted_question_leaves_right_numbers(folder: Path) -> None:
    with (
        listening(folder / "s", max_message_bytes=64 * MB) as target,
        bh.connect(target, timeout=60, shared_memory=True) as connection,
    ):
        tape = bh.Tape(connection)
        x = tape.leaf(np.eye(300))
        y = x
        for _ in range(300):
            y = y @ x
        asked = threading.Event()

        def interrupt() -> None:
            assert asked.wait(120)
            signal.raise_signal(signal.SIGINT)

        interrupter = threading.Thread(target=interrupt)
        interrupter.start()

        def ask_on() -> None:
            while True:
                asked.set()
                (y @ x).numpy()

        with pytest.raises(KeyboardInterrupt):
            ask_on()
        interrupter.join()
        others = [tape.leaf(np.full((300, 300), float(i))) for i in range(4)]
        np.testing.assert_array_equal(y.numpy(), np.eye(300))
        np.testing.assert_array_equal(x.numpy(), np.eye(300))
        assert [float(each.numpy()[0, 0]) for each in others] == [0.0, 1.0, 2.0, 3.0]


def test_a_side_socket_that_the_server_closed_is_opened_anew(target: str) -> None:
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        first = large_square(connection, 1.0)
        memory = memory_of(connection)
        ended = memory._side
        assert ended is not None
        ended._socket.shutdown(socket.SHUT_RDWR)
        again = large_square(connection, 3.0)
        assert in_shared_memory(again)
        assert memory._side is not ended
        assert [first[0], again[0]] == [2.0, 6.0]


def test_a_segment_that_the_server_has_lost_is_made_anew(target: str) -> None:
    with bh.connect(target, timeout=60, shared_memory=True) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.full(MB // 8, 2.0))
        memory = memory_of(connection)
        assert memory._side is not None
        for each in memory._pool.segments:
            memory._side.free(each.id)  # behind the pool's back
        assert tape.pullback(bh.sum(x * x))[x][0] == 4.0
        assert connection.calls["Execute"] == 2
    assert shared_memory.OF_SEGMENTS[0] == "SEGMENT_UNKNOWN"
