"""A block of ten seconds that nobody waits for any more stops at its next step; the tape is as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import backhaul as bh
from backhaul_proto.messages import SERVICE
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

STEPS = 500
STEP = 0.02  # seconds that each takes here: ten in all
TRAVELLING = 100  # what may be done while the news of a cancellation travels, on a busy machine

CLIENT = """
import sys, numpy as np, backhaul as bh
tape = bh.Tape(bh.connect(sys.argv[1]))
x = tape.leaf(np.ones(3))
tape.flush()
for _ in range(500):
    x = x + 1.0
try:
    x.numpy()
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


class Steps:
    """Counts the steps that are executed, each of which takes some time."""

    def __init__(self) -> None:
        self.count = 0
        self.tenth = threading.Event()

    def slowed(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def slow(*arguments: Any) -> Any:
            self.count += 1
            if self.count == 10:
                self.tenth.set()
            time.sleep(STEP)
            return run(*arguments)

        return slow


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted = Steps()
    monkeypatch.setattr(Tape, "run", counted.slowed(Tape.run))
    return counted


@pytest.fixture
def server() -> Iterator[Server]:
    running = Server(Dispatcher(Engine()), ["127.0.0.1:0"])
    running.start()
    yield running
    running.stop(None)


def idle(server: Server) -> None:
    """Wait until no work is running: by a call that takes a turn."""
    with bh.connect(server.targets[0], timeout=60) as connection:
        bh.Tape(connection).leaf(1.0).numpy()


def long_block(tape: bh.Tape) -> bh.TrackedTensor:
    x = tape.leaf(np.ones(3))
    tape.flush()
    for _ in range(STEPS):
        x = x + 1.0
    return x


def test_a_deadline_stops_it_at_a_step(server: Server, steps: Steps) -> None:
    with bh.connect(server.targets[0], timeout=60) as connection, bh.Tape(connection) as tape:
        end = long_block(tape)
        connection.timeout = 2.0
        with pytest.raises(bh.DeadlineExceeded):
            end.numpy()
        connection.timeout = 60
        idle(server)
        stopped = steps.count
        assert 1 < stopped <= 2.0 / STEP + 2
        part = tape.leaf(np.ones(3)) + 1.0  # the tape goes on without what was refused
        del end
        np.testing.assert_array_equal(part.numpy(), [2.0, 2.0, 2.0])
        assert steps.count == stopped + 1


def test_a_call_that_is_cancelled_stops_at_a_step_and_leaves_nothing(
    server: Server, steps: Steps
) -> None:
    seen: list[bytes] = []
    target = server.targets[0]
    with bh.connect(target, timeout=60) as connection, bh.Tape(connection) as tape:
        end = long_block(tape)
        transport: Any = connection._transport
        exchange = transport._exchange

        def keep(method: str, data: bytes, timeout: float | None, session: bytes | None) -> bytes:
            seen.append(data)
            raise bh.Cancelled("kept for later", reason="CANCELLED")

        transport._exchange = keep
        with pytest.raises(bh.Cancelled):
            end.numpy()
        transport._exchange = exchange
        before = transport.get_session(tape._core._session.id, b"", timeout=60)
        with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
            call: Any = channel.unary_unary(f"/{SERVICE}/Execute", None, None)
            future = call.future(seen[0])
            assert steps.tenth.wait(120)
            future.cancel()
            at = steps.count
            idle(server)
            assert steps.count <= at + TRAVELLING
        after = transport.get_session(tape._core._session.id, b"", timeout=60)
        assert (after.nodes, after.bytes, after.last_seq) == (
            before.nodes,
            before.bytes,
            before.last_seq,
        )


def test_ctrl_c_in_the_client_stops_it_at_a_step(server: Server, steps: Steps) -> None:
    command = [sys.executable, "-c", CLIENT, server.targets[0]]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as client:
        assert steps.tenth.wait(120)
        os.kill(client.pid, signal.SIGINT)
        assert client.stdout is not None
        assert client.stdout.readline() == "interrupted\n"
        at = steps.count
        idle(server)
        assert steps.count <= at + TRAVELLING
        client.wait(120)
