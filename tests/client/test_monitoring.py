"""``backhaul sessions``, ``top`` and ``ping`` against servers on real sockets."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.access.authority import Authority, serving
from typer.testing import CliRunner, Result

import backhaul as bh
from backhaul.cli import app
from backhaul.monitoring import Row, looks, show_top
from backhaul_proto.messages import SessionInfo, SessionSummary
from backhaul_proto.tokens import line_of, new_token
from backhaul_server.engine.engine import Engine
from backhaul_server.service.certificates import Certificates
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.health import Health
from backhaul_server.service.health_port import HealthPort
from backhaul_server.service.server import Server

_SESSION_COLUMNS = [
    "session",
    "device",
    "nodes",
    "memory",
    "age",
    "lease",
    "left",
    "steps",
    "computed",
]
_TOP_COLUMNS = ["session", "device", "load", "steps/s", "memory", "of", "lease", "left", "age"]


def run(*words: str, **environment: str) -> Result:
    return CliRunner().invoke(app, words, env=environment)


@pytest.fixture
def own_target() -> Iterator[str]:
    """A server that has no sessions but the test's."""
    server = Server(Dispatcher(Engine(), lease=600.0), ["127.0.0.1:0"])
    server.start()
    yield server.targets[0]
    server.stop(None)


@pytest.fixture
def two_tapes(own_target: str) -> Iterator[tuple[bh.Tape, bh.Tape]]:
    """An idle tape, then one that has computed."""
    with (
        bh.connect(own_target, timeout=120) as connection,
        bh.Tape(connection) as idle,
        bh.Tape(connection) as worker,
    ):
        held = idle.leaf([1.0, 2.0])
        idle.flush()
        compute(worker)
        yield idle, worker
        del held


def compute(tape: bh.Tape) -> None:
    """A leaf and two steps."""
    x = tape.leaf(np.eye(200))
    assert float(bh.sum(x @ x)) == 200.0


def summary(name: bytes, age: float, steps: int, busy_seconds: float) -> SessionSummary:
    return SessionSummary(
        name, SessionInfo(1, 8, age, 1, steps=steps, busy_seconds=busy_seconds), busy=False
    )


def test_load_is_what_was_computed_since_the_look_before_by_the_servers_clock() -> None:
    answers = iter(
        [
            [summary(b"a", 10.0, 100, 5.0), summary(b"b", 20.0, 0, 0.0)],
            [
                summary(b"a", 12.0, 110, 5.5),
                summary(b"b", 22.0, 40, 1.5),
                summary(b"c", 0.0, 1, 1.0),
            ],
        ]
    )
    seen = looks(lambda: next(answers))
    assert [(each.load, each.steps_per_second) for each in next(seen)] == [(0.5, 10.0), (0.0, 0.0)]
    rows: list[Row] = next(seen)
    assert [row.session.digest for row in rows] == [b"b", b"a", b"c"]
    assert [(row.load, row.steps_per_second) for row in rows] == [
        (0.75, 20.0),
        (0.25, 5.0),
        (0.0, 0.0),
    ]


def test_sessions_are_listed_by_their_digests(
    own_target: str, two_tapes: tuple[bh.Tape, bh.Tape]
) -> None:
    shown = run("sessions", own_target, "--json")
    assert shown.exit_code == 0
    found = json.loads(shown.stdout)
    assert found["target"] == own_target
    with bh.connect(own_target, timeout=120) as connection:
        digests = [each.digest.hex() for each in connection.sessions()]
    idle, worker = found["sessions"]
    assert [idle["session"], worker["session"]] == digests
    assert (idle["nodes"], idle["bytes"], idle["steps"], idle["busy"]) == (1, 16, 1, False)
    assert worker["steps"] == 3
    assert worker["busy_seconds"] > 0
    assert 0 < idle["lease_left_seconds"] <= 600
    table = run("sessions", own_target).stdout.splitlines()
    assert table[0].split() == _SESSION_COLUMNS
    assert [line.split()[0] for line in table[1:]] == digests
    assert table[1].split()[1:5] == ["cpu", "1", "16", "bytes"]


def test_no_sessions_is_said_and_no_error(own_target: str) -> None:
    assert run("sessions", own_target).stdout == "no sessions\n"
    assert run("sessions", BACKHAUL_TARGET=own_target).exit_code == 0


def test_top_shows_what_happened_between_its_refreshes(
    own_target: str, two_tapes: tuple[bh.Tape, bh.Tape], capsys: pytest.CaptureFixture[str]
) -> None:
    _, worker = two_tapes
    pauses: list[float] = []

    def meanwhile(seconds: float) -> None:
        pauses.append(seconds)
        compute(worker)

    with bh.connect(own_target, timeout=120) as connection:
        show_top(connection, count=3, interval=0.7, as_json=True, sleep=meanwhile)
    assert pauses == [0.7, 0.7]
    pages = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    assert len(pages) == 3
    for before, after in pairwise(pages):
        busy, idle = after["sessions"]
        was = next(each for each in before["sessions"] if each["session"] == busy["session"])
        seconds = busy["age_seconds"] - was["age_seconds"]
        assert busy["steps_per_second"] * seconds == pytest.approx(3)
        assert busy["load"] * seconds == pytest.approx(busy["busy_seconds"] - was["busy_seconds"])
        assert (idle["load"], idle["steps_per_second"]) == (0, 0)
        assert after["bytes"] == busy["bytes"] + idle["bytes"]


def test_top_once_is_a_header_and_a_table(
    own_target: str, two_tapes: tuple[bh.Tape, bh.Tape]
) -> None:
    shown = run("top", own_target, "--once")
    assert shown.exit_code == 0
    header, columns, *rows = shown.stdout.splitlines()
    assert header.startswith(f"{own_target}  backhaul {bh.__version__}  2 sessions  ")
    assert columns.split() == _TOP_COLUMNS
    assert len(rows) == 2
    assert "16 bytes" in rows[1]  # it computed less
    assert run("top", own_target, "--count", "2", "--interval", "0.1").stdout.count(header) == 2


def test_top_in_a_process_of_its_own(own_target: str, two_tapes: tuple[bh.Tape, bh.Tape]) -> None:
    command = [sys.executable, "-m", "backhaul", "top", own_target, "--json"]
    done = subprocess.run(
        [*command, "--count", "2", "--interval", "0.1"],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    assert [len(json.loads(line)["sessions"]) for line in done.stdout.splitlines()] == [2, 2]


@pytest.mark.parametrize("target", ["nonsense", "127.0.0.1:1", "embedded", "unix:///nowhere/s"])
@pytest.mark.parametrize("words", [["sessions"], ["top"], ["top", "--json"], ["ping", "--health"]])
def test_a_wrong_target_is_one_line_and_status_one(words: Sequence[str], target: str) -> None:
    shown = run(*words, target)
    assert (shown.exit_code, shown.stdout) == (1, "")
    assert shown.stderr.startswith("backhaul: ")
    assert shown.stderr.count("\n") == 1
    assert target in shown.stderr


def test_ping_tells_of_many_round_trips(own_target: str) -> None:
    facts = json.loads(run("ping", own_target, "--count", "5", "--json").stdout)
    assert facts["count"] == 5
    assert 0 < facts["min_ms"] <= facts["ms"] <= facts["max_ms"]
    assert "5 round trips, ms: min " in run("ping", own_target, "--count", "5").stdout
    assert run("ping", own_target, "--count", "0").exit_code == 2


def test_health_is_served_without_a_token_and_by_tls(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost", "127.0.0.1")
    token = new_token()
    file = tmp_path / "tokens"
    file.write_text(f"{line_of('alice', token)}\n")
    with serving(tokens=file, certificates=Certificates(pair.certificate, pair.key)) as server:
        target, roots = server.targets[0], str(authority.roots)
        assert target.startswith("grpcs://")
        for given in ("", token):
            shown = run("ping", target, "--health", "--tls-ca", roots, BACKHAUL_TOKEN=given)
            assert (shown.exit_code, shown.stdout) == (0, f"{target}: SERVING\n"), shown.output
        assert run("ping", target, "--health").exit_code == 1
        assert run("sessions", target, "--tls-ca", roots).exit_code == 1
        assert run("sessions", target, "--tls-ca", roots, "--token", token).exit_code == 0


def test_a_server_that_stops_is_told_and_is_status_one() -> None:
    health = Health(grpc.server(ThreadPoolExecutor(1)))
    port = HealthPort(health, "127.0.0.1:0")
    port.start()
    try:
        health.serving()
        assert run("ping", port.target, "--health").exit_code == 0
        health.stopping()
        shown = run("ping", port.target, "--health", "--json")
        assert shown.exit_code == 1
        assert json.loads(shown.stdout) == {"target": port.target, "status": "NOT_SERVING"}
    finally:
        port.stop()
        health.close()


def test_a_server_without_the_health_service_is_an_error() -> None:
    server = grpc.server(ThreadPoolExecutor(1))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        shown = run("ping", f"127.0.0.1:{port}", "--health")
    finally:
        server.stop(None)
    assert shown.exit_code == 1
    assert "[VERSION_MISMATCH]" in shown.stderr


def test_health_is_checked_without_the_servers_libraries(own_target: str) -> None:
    program = (
        "import sys\n"
        "for name in ('grpc_health', 'grpc_reflection', 'pydantic_settings', 'prometheus_client'):\n"
        "    sys.modules[name] = None\n"
        "from backhaul.cli import app\n"
        "app(['ping', '--health'])\n"
    )
    environment: dict[str, Any] = {**os.environ, "BACKHAUL_TARGET": own_target}
    command = [sys.executable, "-c", program]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=environment)
    assert (done.returncode, done.stdout) == (0, f"{own_target}: SERVING\n"), done.stderr
