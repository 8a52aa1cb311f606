"""Metrics over real HTTP, and the lines of the log, after calls that are known."""

from __future__ import annotations

import hashlib
import json
import logging
import re
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from prometheus_client import CollectorRegistry
from prometheus_client.parser import text_string_to_metric_families
from tests.e2e.server_process import serving

import backhaul as bh
from backhaul_proto.errors import BackhaulError
from backhaul_proto.messages import SERVICE
from backhaul_proto.v1 import service_pb2
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry, Log, Visit
from backhaul_server.service.metrics import Calls, expose, registry_of
from backhaul_server.service.server import Server

PAGE = Path(__file__).parents[3] / "docs" / "observability.md"
Sample = tuple[str, tuple[tuple[str, str], ...]]


def read(url: str) -> dict[Sample, float]:
    """What is told there, over HTTP."""
    with urllib.request.urlopen(url, timeout=120) as response:
        text = response.read().decode()
    return {
        (each.name, tuple(sorted(each.labels.items()))): each.value
        for family in text_string_to_metric_families(text)
        for each in family.samples
    }


class Watched:
    """A server, and its metrics."""

    def __init__(self) -> None:
        calls = Calls()
        self.meanwhile = Meanwhile()
        entry = Entry(observers=(Log(), calls, self.meanwhile))
        self.server = Server(Dispatcher(Engine()), ["127.0.0.1:0"], entry=entry)
        self.registry: CollectorRegistry = registry_of(self.server, calls)
        self.exposition = expose(self.registry, "127.0.0.1", 0)
        self.server.start()
        self.target = self.server.targets[0]

    def read(self) -> dict[Sample, float]:
        return read(self.exposition.url)

    def close(self) -> None:
        self.exposition.close()
        self.server.stop(None)


class Meanwhile:
    """An observer that does something while a call is in the server."""

    def __init__(self) -> None:
        self.do: Callable[[], object] = lambda: None

    def began(self, visit: Visit) -> None:
        self.do()

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        """That is not meanwhile."""


@pytest.fixture
def watched() -> Iterator[Watched]:
    made = Watched()
    yield made
    made.close()


def calls_of(method: str, code: str, reason: str = "") -> Sample:
    return "backhaul_calls_total", (("code", code), ("method", method), ("reason", reason))


def families(registry: CollectorRegistry) -> Iterator[tuple[str, str, frozenset[str]]]:
    """Name, type and labels of what a registry has, as they are for who asks for them."""
    for family in registry.collect():
        if family.name.startswith("process_"):
            continue
        suffix = {"counter": "_total", "info": "_info"}.get(family.type, "")
        labels = {label for each in family.samples for label in each.labels} - {"le"}
        yield f"{family.name}{suffix}", family.type, frozenset(labels)


def documented() -> Iterator[tuple[str, str, frozenset[str]]]:
    """The same of the table in the docs."""
    for row in PAGE.read_text(encoding="utf-8").splitlines():
        if not row.startswith("| `backhaul_"):
            continue
        names, labels, text = (cell.strip() for cell in row.strip("|").split("|"))
        for name in re.findall(r"`(\w+)`", names):
            kind = "counter" if name.endswith("_total") else "gauge"
            kind = "histogram" if "(histogram)" in text else kind
            kind = "info" if name.endswith("_info") else kind
            yield name, kind, frozenset(filter(None, labels.split(", ")))


def refused(target: str, session: bytes) -> grpc.RpcError:
    """A GetSession of a session that is not there."""
    request = service_pb2.GetSessionRequest(session=service_pb2.SessionRef(id=session))
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        call: Any = channel.unary_unary(f"/{SERVICE}/GetSession", None, None)
        with pytest.raises(grpc.RpcError) as caught:
            call(request.SerializeToString(), timeout=120)
    return caught.value


def test_calls_steps_and_questions_are_counted(watched: Watched) -> None:
    with bh.connect(watched.target, timeout=120) as connection, bh.Tape(connection) as tape:
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
        bh.connect(watched.target, timeout=120) as connection,
        bh.Tape(connection) as tape,
    ):
        x = tape.leaf([31415.92653, 27182.81828])
        assert bh.sum(x).item() == 31415.92653 + 27182.81828
    lines = [str(vars(each)) for each in caplog.records]
    assert [each for each in lines if "answered" in each]
    assert not [each for each in lines if "31415" in each or "27182" in each]


def test_the_table_of_the_docs_has_every_metric_with_its_labels(watched: Watched) -> None:
    seen: set[tuple[str, str, frozenset[str]]] = set()
    with bh.connect(watched.target, timeout=120) as connection, bh.Tape(connection) as tape:
        x = tape.leaf([1.0, 2.0])
        tape.pullback(bh.sum(x * x))
        watched.meanwhile.do = lambda: seen.update(families(watched.registry))
        connection.info()  # so that one is in flight
        watched.meanwhile.do = lambda: None
    assert seen == set(documented())


def test_a_server_process_tells_where_its_metrics_are() -> None:
    with serving("--metrics-port", "0") as server:
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        found = re.fullmatch(r"metrics on (http://127\.0\.0\.1:[1-9]\d*/metrics)\n", line)
        assert found is not None, line
        with bh.connect(server.target, timeout=120) as connection:
            connection.info()
        told = read(found[1])
        assert told[calls_of("GetServerInfo", "OK")] == 1
        assert told["process_resident_memory_bytes", ()] > 0
        assert server.stop()[0] == 0


def test_metrics_at_an_address_in_use_are_an_error(watched: Watched) -> None:
    port = int(watched.exposition.url.split(":")[2].split("/")[0])
    with pytest.raises(bh.InvalidArgument, match="--metrics-port") as error:
        expose(watched.registry, "127.0.0.1", port)
    assert error.value.reason == "INVALID_TARGET"
