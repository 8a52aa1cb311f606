"""Server and clients as processes of their own: killed, stopped, demonstrated."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.e2e.held_server import held
from tests.e2e.server_process import serving

import backhaul as bh

_EXAMPLES = Path(__file__).parents[2] / "examples"


def square(connection: bh.Connection) -> float:
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])


def test_sigterm_ends_a_server_that_was_used_with_status_zero_and_a_clean_log() -> None:
    with serving() as server:
        with bh.connect(server.target, timeout=30) as connection:
            assert square(connection) == 6.0
            with bh.Tape(connection) as tape:
                low = bh.linalg.cholesky(tape.leaf(-np.eye(2)))
                with pytest.raises(bh.LinearAlgebraError):
                    low.numpy()
        raw = grpc.insecure_channel(server.target.removeprefix("grpc://"))
        execute: Any = raw.unary_unary("/backhaul.v1.BackhaulService/Execute")
        with pytest.raises(grpc.RpcError):
            execute(b"\xff")
        raw.close()
        status, log = server.stop()
    assert status == 0
    assert [line["message"] for line in log][:1] == ["serving"]
    assert any(line.get("reason") == "MALFORMED_REQUEST" for line in log)
    assert not any("exc_info" in line or "Traceback" in json.dumps(line) for line in log)


def test_a_client_that_is_killed_leaves_the_server_serving() -> None:
    program = (
        "import sys, numpy as np, backhaul as bh\n"
        "tape = bh.Tape(bh.connect(sys.argv[1]))\n"
        "x = tape.leaf(np.ones((500, 500)))\n"
        "y = x @ x\n"
        "y.numpy()\n"
        "print('working', flush=True)\n"
        "while True:\n"
        "    (y @ y).numpy()\n"
    )
    with serving() as server, bh.connect(server.target, timeout=30) as connection:
        for _ in range(3):
            with subprocess.Popen(
                [sys.executable, "-c", program, server.target], stdout=subprocess.PIPE, text=True
            ) as client:
                assert client.stdout is not None
                assert client.stdout.readline() == "working\n"
                client.kill()
            assert square(connection) == 6.0
        assert server.stop()[0] == 0


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_server_that_ends_under_a_waiting_client_is_a_typed_error(
    tmp_path: Path, number: signal.Signals
) -> None:
    with (
        held(tmp_path, "--grace", "0.1") as slow,
        bh.connect(slow.target, timeout=600) as connection,
        ThreadPoolExecutor(1) as pool,
    ):
        tape = bh.Tape(connection)
        x = tape.leaf(1.0)
        asked = slow.asked(pool, slow.chain(tape))
        slow.server.process.send_signal(number)
        with pytest.raises((bh.TransportError, bh.SessionError)) as told:
            asked.result()
        assert not isinstance(told.value, bh.DeadlineExceeded)
        slow.server.process.wait(120)
        with pytest.raises(bh.Unavailable) as gone:
            (x * 2.0).numpy()
        assert slow.target in gone.value.message


def test_a_server_that_stops_answering_is_a_deadline_exceeded() -> None:
    with serving() as server, bh.connect(server.target, timeout=60) as connection:
        assert square(connection) == 6.0
        connection.timeout = 1.0
        server.process.send_signal(signal.SIGSTOP)
        assert os.WIFSTOPPED(os.waitpid(server.process.pid, os.WUNTRACED)[1])  # not at once
        try:
            with pytest.raises(bh.DeadlineExceeded):
                square(connection)
        finally:
            server.process.send_signal(signal.SIGCONT)
        connection.timeout = 60
        assert square(connection) == 6.0


def test_a_server_whose_log_nobody_reads_goes_on_answering() -> None:
    command = [sys.executable, "-m", "backhaul", "serve", "--port", "0", "--log-level", "debug"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as server:
        try:
            assert server.stdout is not None
            assert server.stderr is not None
            target = server.stdout.readline().split()[-1]
            lines_enough_to_fill_a_pipe = 1000
            with bh.connect(target, timeout=60) as connection:
                for _ in range(lines_enough_to_fill_a_pipe // 2):
                    assert square(connection) == 6.0
            server.send_signal(signal.SIGTERM)
            assert server.wait(timeout=120) == 0
            lines = [json.loads(line) for line in server.stderr.read().splitlines()[:100]]
            assert {"serving", "answered"} == {line["message"] for line in lines}
        finally:
            server.kill()


def test_work_that_takes_longer_than_the_timeout_is_stopped_and_the_tape_is_as_before(
    tmp_path: Path,
) -> None:
    with held(tmp_path) as slow, bh.connect(slow.target, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(np.eye(600))
        assert float(bh.sum(x)) == 600.0
        loss = slow.chain(tape)
        connection.timeout = 2
        with pytest.raises(bh.DeadlineExceeded):
            float(loss)
        connection.timeout = 60
        del loss
        with bh.connect(slow.target, timeout=60) as other:
            assert square(other) == 6.0
        assert float(bh.sum(x * 2.0)) == 1200.0


def test_a_port_in_use_is_an_error_at_once() -> None:
    with serving() as server:
        port = server.target.rpartition(":")[2]
        second = subprocess.run(
            [sys.executable, "-m", "backhaul", "serve", "--port", port],
            capture_output=True,
            text=True,
            timeout=30,
            check=False,
        )
    assert second.returncode == 1
    assert "INVALID_TARGET" in second.stderr
    assert "Traceback" not in second.stderr


def test_a_unix_socket(tmp_path: Path) -> None:
    path = tmp_path / "backhaul.sock"
    with serving("--unix", str(path)), bh.connect(f"unix://{path}", timeout=60) as connection:
        assert square(connection) == 6.0


def test_health_and_reflection(server: Any, target: str) -> None:
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        stub: Any = health_pb2_grpc.HealthStub(channel)
        for name in ("", "backhaul.v1.BackhaulService"):
            answer = stub.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        from google.protobuf.descriptor_pool import DescriptorPool
        from grpc_reflection.v1alpha.proto_reflection_descriptor_database import (
            ProtoReflectionDescriptorDatabase,
        )

        pool = DescriptorPool(ProtoReflectionDescriptorDatabase(channel))
        service = pool.FindServiceByName("backhaul.v1.BackhaulService")
        assert "Execute" in {method.name for method in service.methods}


def test_demo_and_ping_commands(target: str) -> None:
    def run(*words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "backhaul", *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            env={**os.environ, "COLUMNS": "120", **settings},
        )

    # Of a server that others reach: none of the demo's own.
    settings = {"BACKHAUL_HOST": "0.0.0.0", "BACKHAUL_HEALTH_PORT": target.rpartition(":")[2]}
    shown = run("demo", "--instance", str(_EXAMPLES / "tree_and_mirror.json"))
    assert shown.returncode == 0, shown.stdout + shown.stderr
    assert "WRONG" not in shown.stdout
    assert shown.stdout.count(" ok ") == 4
    elsewhere = run("demo", "--target", target)
    assert elsewhere.returncode == 0, elsewhere.stdout + elsewhere.stderr
    assert target in elsewhere.stdout
    assert elsewhere.stdout.count(" ok ") == 4
    answered = run("ping", target, "--json")
    assert json.loads(answered.stdout)["protocol"] == "backhaul.v1"
    refused = run("ping", "127.0.0.1:1", "--timeout", "2")
    assert refused.returncode == 1
    assert "UNAVAILABLE" in refused.stderr
    nonsense = run("demo", "--instance", __file__)
    assert nonsense.returncode == 1
    assert "INVALID_VALUE" in nonsense.stderr
