"""How a server ends: health first, running blocks, the grace time, a second signal; the port for health."""

from __future__ import annotations

import signal
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.client.waiting import wait_until
from tests.e2e.held_server import STEPS, held
from tests.e2e.server_process import ServerProcess, serving

import backhaul as bh

NAMES = ("", "backhaul.v1.BackhaulService")
NOT_SERVING = health_pb2.HealthCheckResponse.NOT_SERVING
SERVING = health_pb2.HealthCheckResponse.SERVING


def square(connection: bh.Connection) -> float:
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])


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


def test_on_sigterm_the_running_block_ends_and_new_sessions_are_sent_elsewhere(
    tmp_path: Path,
) -> None:
    with (
        held(tmp_path, "--grace", "600", "--health-port", "0") as slow,
        grpc.insecure_channel(health_target(slow.server)) as probe,
        bh.connect(slow.target, timeout=600) as connection,
        bh.connect(slow.target, timeout=60) as other,
        ThreadPoolExecutor(1) as pool,
    ):
        assert [check(probe, each) for each in NAMES] == [SERVING, SERVING]
        assert square(other) == 6.0
        open_one = bh.Tape(other).leaf(2.0)
        assert float(open_one * 3.0) == 6.0
        asked = slow.asked(pool, slow.chain(bh.Tape(connection)))
        slow.server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: check(probe) == NOT_SERVING)
        wait_until(lambda: refusal(other) == "DRAINING")
        assert not asked.done()
        assert float(open_one * 2.0) == 4.0  # sessions that are open are answered meanwhile
        assert check(probe, NAMES[1]) == NOT_SERVING
        slow.go_on()
        assert asked.result() == STEPS
        assert slow.server.process.wait(120) == 0


def test_before_anything_is_refused_health_is_not_serving_for_the_delay() -> None:
    with (
        serving("--drain-delay", "600") as server,
        grpc.insecure_channel(server.target.removeprefix("grpc://")) as channel,
        bh.connect(server.target, timeout=60) as connection,
    ):
        assert check(channel) == SERVING
        server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: check(channel) == NOT_SERVING)
        assert square(connection) == 6.0  # a new session


def test_after_the_delay_the_server_ends() -> None:
    with serving("--drain-delay", "1") as server:
        started = time.monotonic()
        server.process.send_signal(signal.SIGTERM)
        assert server.process.wait(120) == 0
        assert time.monotonic() - started >= 1


def test_what_takes_longer_than_the_grace_time_is_told_draining_and_the_status_is_zero(
    tmp_path: Path,
) -> None:
    with (
        held(tmp_path, "--grace", "0.3") as slow,
        bh.connect(slow.target, timeout=600) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = slow.asked(pool, slow.chain(bh.Tape(connection)))
        status, log = slow.server.stop()
        with pytest.raises(bh.Unavailable) as told:
            asked.result()
    assert told.value.reason == "DRAINING"
    assert status == 0
    assert log[-1]["message"] == "stopped"
    assert log[-1]["cut_off"] == 1


def test_a_step_that_does_not_end_is_left_behind(tmp_path: Path) -> None:
    with (
        held(tmp_path, "--grace", "0.1") as slow,
        bh.connect(slow.target, timeout=600) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        x = bh.Tape(connection).leaf(3.0)
        asked = slow.asked(pool, x * x, stuck=True)
        status, log = slow.server.stop()
        with pytest.raises(bh.TransportError):
            asked.result()
    assert status == 0
    assert [line["message"] for line in log][-2:] == [
        "stopped",
        "left behind: a step that did not end",
    ]


@pytest.mark.parametrize(("number", "status"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_second_signal_ends_the_server_at_once(
    tmp_path: Path, number: signal.Signals, status: int
) -> None:
    with (
        held(tmp_path, "--grace", "600", "--health-port", "0") as slow,
        grpc.insecure_channel(health_target(slow.server)) as probe,
        bh.connect(slow.target, timeout=600) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        asked = slow.asked(pool, slow.chain(bh.Tape(connection)))
        slow.server.process.send_signal(signal.SIGTERM)
        wait_until(lambda: check(probe) == NOT_SERVING)
        slow.server.process.send_signal(number)
        assert slow.server.process.wait(120) == status
        with pytest.raises((bh.TransportError, bh.SessionError)):
            asked.result()


def test_the_port_for_health_has_nothing_else_and_is_not_held_up_by_calls(tmp_path: Path) -> None:
    with (
        held(tmp_path, "--health-port", "0", "--threads", "1") as slow,
        grpc.insecure_channel(health_target(slow.server)) as probe,
        bh.connect(slow.target, timeout=600) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        info: Any = probe.unary_unary("/backhaul.v1.BackhaulService/GetServerInfo")
        with pytest.raises(grpc.RpcError) as refused:
            info(b"", timeout=60)
        code: Any = refused.value
        assert code.code() == grpc.StatusCode.UNIMPLEMENTED
        asked = slow.asked(pool, slow.chain(bh.Tape(connection)))
        assert check(probe) == SERVING
        assert not asked.done()
        slow.go_on()
        assert asked.result() == STEPS
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
        slow.server.process.send_signal(signal.SIGTERM)
        watcher.join(60)
        assert watched == [SERVING, NOT_SERVING]
        assert slow.server.process.wait(120) == 0
