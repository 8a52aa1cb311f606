"""A block that nobody waits for any more stops at its next step; the tape is as before."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
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
from backhaul_server.workers.call import Call

STEPS = 500

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
    """Counts the steps that are executed; the tenth lasts until the server hears that nobody waits.

    Attributes:
        count: how many began.
        tenth: set when the tenth has begun.
        heard: set when the server has heard.
    """

    def __init__(self) -> None:
        self.count = 0
        self.tenth = threading.Event()
        self.heard = threading.Event()

    def counted(self, run: Callable[..., Any]) -> Callable[..., Any]:
        def step(*arguments: Any) -> Any:
            self.count += 1
            if self.count == 10:
                self.tenth.set()
                assert self.heard.wait(120)
            return run(*arguments)

        return step

    def heard_of(self, cancel: Callable[[Call], None]) -> Callable[[Call], None]:
        def ended(call: Call) -> None:
            cancel(call)
            if self.tenth.is_set():  # calls before that end too
                self.heard.set()

        return ended


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> Steps:
    counted = Steps()
    monkeypatch.setattr(Tape, "run", counted.counted(Tape.run))
    monkeypatch.setattr(Call, "cancel", counted.heard_of(Call.cancel))
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
        assert steps.count == 10
        part = tape.leaf(np.ones(3)) + 1.0  # the tape goes on without what was refused
        del end
        np.testing.assert_array_equal(part.numpy(), [2.0, 2.0, 2.0])
        assert steps.count == 11


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
            idle(server)
            assert steps.count == 10
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
        idle(server)
        assert steps.count == 10
        client.wait(120)
