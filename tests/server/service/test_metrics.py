"""Metrics over real HTTP, and the lines of the log, after calls that are known."""

from __future__ import annotations

import hashlib
import json
import logging
import urllib.request
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families

import backhaul as bh
from backhaul_proto.messages import SERVICE
from backhaul_proto.v1 import service_pb2
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry, Log
from backhaul_server.service.metrics import Calls, expose, registry_of
from backhaul_server.service.server import Server

Sample = tuple[str, tuple[tuple[str, str], ...]]


class Watched:
    """A server, and its metrics."""

    def __init__(self) -> None:
        calls = Calls()
        self.server = Server(
            Dispatcher(Engine()), ["127.0.0.1:0"], entry=Entry(observers=(Log(), calls))
        )
        registry: CollectorRegistry = registry_of(self.server, calls)
        self.exposition = expose(registry, "127.0.0.1", 0)
        self.server.start()
        self.target = self.server.targets[0]

    def read(self) -> dict[Sample, float]:
        address = f"http://127.0.0.1:{self.exposition.port}/metrics"
        with urllib.request.urlopen(address, timeout=10) as response:
            text = response.read().decode()
        return {
            (each.name, tuple(sorted(each.labels.items()))): each.value
            for family in text_string_to_metric_families(text)
            for each in family.samples
        }

    def close(self) -> None:
        self.exposition.close()
        self.server.stop(None)


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.close()


def calls_of(method: str, code: str, reason: str = "") -> Sample:
    return "backhaul_calls_total", (("code", code), ("method", method), ("reason", reason))


def refused(target: str, session: bytes) -> grpc.RpcError:
    """A GetSession of a session that is not there."""
    request = service_pb2.GetSessionRequest(session=service_pb2.SessionRef(id=session))
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        call: Any = channel.unary_unary(f"/{SERVICE}/GetSession", None, None)
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=10)
    return caught.value


def test_calls_steps_and_questions_are_counted(watched: Watched) -> None:
    with bh.connect(watched.target, timeout=30) as connection, bh.Tape(connection) as tape:
        for _ in range(3):
            x = tape.leaf([1.0, 2.0])
            assert tape.pullback(bh.sum(x * x))[x].tolist() == [2.0, 4.0]
        read = watched.read()
        assert read["backhaul_sessions_open", ()] == 1
    refused(watched.target, b"\x07" * 16)
    after = watched.read()
    assert read[calls_of("Execute", "OK")] == 3
    assert read["backhaul_call_seconds_count", (("method", "Execute"),)] == 3
    assert read["backhaul_steps_total", (("op", "leaf"),)] == 3
    assert read["backhaul_work_seconds_count", (("kind", "pullback"),)] == 3
    assert read["backhaul_work_seconds_count", (("kind", "block"),)] == 3
    assert after[calls_of("GetSession", "NOT_FOUND", "SESSION_NOT_FOUND")] == 1
    assert after["backhaul_sessions_open", ()] == 0
    assert sum(v for (name, _), v in after.items() if name == "backhaul_calls_in_flight") == 0


def test_no_label_names_a_session_or_a_principal(watched: Watched) -> None:
    refused(watched.target, b"\x07" * 16)
    names = {label for _, labels in watched.read() for label, _ in labels}
    assert not names & {"session", "principal"}
    assert not [key for key in watched.read() if (b"\x07" * 16).hex() in str(key)]


def test_a_refused_call_is_a_line_with_the_digest_of_its_session(
    watched: Watched, caplog: pytest.LogCaptureFixture
) -> None:
    session = b"\x07" * 16
    with caplog.at_level(logging.INFO, "backhaul.server"):
        refused(watched.target, session)
    (line,) = [vars(each) for each in caplog.records if each.message == "refused"]
    assert line["method"] == "GetSession"
    assert line["reason"] == "SESSION_NOT_FOUND"
    assert line["session"] == hashlib.sha256(session).digest()[:8].hex()
    assert line["request"].endswith("-1")
    assert session.hex() not in json.dumps(line, default=str)


def test_tensors_are_not_logged(watched: Watched, caplog: pytest.LogCaptureFixture) -> None:
    with (
        caplog.at_level(logging.DEBUG, "backhaul.server"),
        bh.connect(watched.target, timeout=30) as connection,
        bh.Tape(connection) as tape,
    ):
        x = tape.leaf([31415.92653, 27182.81828])
        assert bh.sum(x).item() == 31415.92653 + 27182.81828
    lines = [str(vars(each)) for each in caplog.records]
    assert [each for each in lines if "answered" in each]
    assert not [each for each in lines if "31415" in each or "27182" in each]
