"""How a server ends: health first, running blocks, the grace time, a second signal; the port for health."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.e2e.server_process import ServerProcess, serving

import backhaul as bh

NAMES = ("", "backhaul.v1.BackhaulService")
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING


def square(connection: bh.Connection) -> float:
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])


def until(holds: Callable[[], bool], seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < end, "it did not come"
        time.sleep(0.01)


def busy(server: ServerProcess) -> Callable[[], bool]:
    """Whether the server has computed for some time since now."""

    def ticks() -> int:
        words = Path(f"/proc/{server.process.pid}/stat").read_text().rpartition(")")[2].split()
        return int(words[11]) + int(words[12])

    before = ticks()
    enough = 0.2 * os.sysconf("SC_CLK_TCK")
    return lambda: ticks() - before > enough


def chain(tape: bh.Tape, steps: int) -> Any:
    """A loss of 400 a step, each of which takes some ten milliseconds and little memory."""
    x = tape.leaf(np.eye(400))
    total = tape.leaf(0.0)
    for _ in range(steps):
        total = total + bh.einsum("ij,jk,ki->", x, x, x)
    return total


def run(pool: ThreadPoolExecutor, server: ServerProcess, loss: Any) -> Future[float]:
    """The loss, asked for; the server is at it."""
    started = busy(server)
    asked = pool.submit(lambda: float(loss))
    until(started)
    return asked


def health_target(server: ServerProcess) -> str:
    assert server.process.stdout is not None
    line = server.process.stdout.readline()
    assert line.startswith("health on grpc://"), line
    return line.split()[-1].removeprefix("grpc://")


def refusal(connection: bh.Connection) -> str | None:
    """Why no new session is to be had, if none is."""
    try:
        square(connection)
    except bh.Unavailable as error:
        return error.reason
    return None


def check(channel: grpc.Channel, name: str = "") -> Any:
    stub: Any = health_pb2_grpc.HealthStub(channel)
    return stub.Check(health_pb2.HealthCheckRequest(service=name), timeout=60).status


def test_on_sigterm_the_running_block_ends_and_new_sessions_are_sent_elsewhere() -> None:
    with (
        serving("--grace", "60", "--health-port", "0") as server,
        grpc.insecure_channel(health_target(server)) as probe,
        bh.connect(server.target, timeout=60) as connection,
        bh.connect(server.target, timeout=60) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        assert [check(probe, each) for each in NAMES] == [SERVING, SERVING]
        assert square(other) == 6.0
        open_one = bh.Tape(other).leaf(2.0)
        assert float(open_one * 3.0) == 6.0
        asked = run(pool, server, chain(bh.Tape(connection), 300))
        server.process.send_signal(signal.SIGTERM)
        until(lambda: check(probe) == NOT_SERVING)
        until(lambda: refusal(other) == "DRAINING")
        assert not asked.done()
        assert float(open_one * 2.0) == 4.0  # sessions that are open are answered meanwhile
        assert check(probe, NAMES[1]) == NOT_SERVING
        assert asked.result() == 120_000.0
        assert server.process.wait(120) == 0


def test_before_anything_is_refused_health_is_not_serving_for_the_delay() -> None:
    with (
        serving("--drain-delay", "5") as server,
        grpc.insecure_channel(server.target.removeprefix("grpc://")) as channel,
        bh.connect(server.target, timeout=60) as connection,
    ):
        assert check(channel) == SERVING
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        until(lambda: check(channel) == NOT_SERVING)
        assert square(connection) == 6.0  # a new session
        assert time.monotonic() - started < 5, "too slow to tell"
        assert server.process.wait(120) == 0
        assert time.monotonic() - started >= 5


def test_what_takes_longer_than_the_grace_time_is_told_draining_and_the_status_is_zero() -> None:
    with (
        serving("--grace", "0.3") as server,
        bh.connect(server.target, timeout=60) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = run(pool, server, chain(bh.Tape(connection), 1500))
        status, log = server.stop()
        with pytest.raises(bh.Unavailable) as told:
            asked.result()
    assert told.value.reason == "DRAINING"
    assert status == 0
    assert log[-1]["message"] == "stopped"
    assert log[-1]["cut_off"] == 1


def test_a_step_that_does_not_end_is_left_behind() -> None:
    with (
        serving("--grace", "0.1") as server,
        bh.connect(server.target, timeout=60) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        tape = bh.Tape(connection)
        big = bh.einsum("i,j->ij", tape.leaf(np.ones(7000)), np.ones(7000))
        tape.flush()  # from here on the server is busy with the product alone
        started = busy(server)
        asked = pool.submit(lambda: float(bh.sum(big @ big)))
        until(started)
        status, log = server.stop()
        with pytest.raises(bh.TransportError):
            asked.result()
    assert status == 0
    assert [line["message"] for line in log][-2:] == [
        "stopped",
        "left behind: a step that did not end",
    ]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_the_server_at_once(number: signal.Signals, status: int) -> None:
    with (
        serving("--grace", "60", "--health-port", "0") as server,
        grpc.insecure_channel(health_target(server)) as probe,
        bh.connect(server.target, timeout=60) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = run(pool, server, chain(bh.Tape(connection), 1500))
        server.process.send_signal(signal.SIGTERM)
        until(lambda: check(probe) == NOT_SERVING)
        server.process.send_signal(number)
        assert server.process.wait(120) == status
        with pytest.raises((bh.TransportError, bh.SessionError)):
            asked.result()


def test_the_port_for_health_has_nothing_else_and_is_not_held_up_by_calls() -> None:
    with (
        serving("--health-port", "0", "--threads", "1") as server,
        grpc.insecure_channel(health_target(server)) as probe,
        bh.connect(server.target, timeout=60) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        info: Any = probe.unary_unary("/backhaul.v1.BackhaulService/GetServerInfo")
        with pytest.raises(grpc.RpcError) as refused:
            info(b"", timeout=60)
        code: Any = refused.value
        assert code.code() == grpc.StatusCode.UNIMPLEMENTED
        asked = run(pool, server, chain(bh.Tape(connection), 300))
        assert check(probe) == SERVING
        assert not asked.done()
        assert asked.result() == 120_000.0
        watched: list[Any] = []
        stub: Any = health_pb2_grpc.HealthStub(probe)
        stream = stub.Watch(health_pb2.HealthCheckRequest(service=""), timeout=120)
        first = threading.Event()

        def watch() -> None:
            for each in stream:
                watched.append(each.status)
                first.set()
                if each.status == NOT_SERVING:
                    return

        watcher = threading.Thread(target=watch)
        watcher.start()
        assert first.wait(60)
        server.process.send_signal(signal.SIGTERM)
        watcher.join(60)
        assert watched == [SERVING, NOT_SERVING]
        assert server.process.wait(120) == 0
