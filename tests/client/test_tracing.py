"""Spans of both sides, of real calls: what is told of each, and that they share a trace."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF
from opentelemetry.trace import SpanKind, StatusCode
from tests.aio.clients import Client

import backhaul as bh
import backhaul.aio
from backhaul.targets import parse_target
from backhaul.transport.tracing import Tracing
from backhaul.transport.tracing import tracing as client_tracing
from backhaul_proto.errors import BackhaulError
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry, Log, Visit
from backhaul_server.service.server import Server
from backhaul_server.service.tracing import tracing

EXECUTE = "backhaul.v1.BackhaulService/Execute"
EXECUTE_STREAM = "backhaul.v1.BackhaulService/ExecuteStream"
LARGE = np.ones(600_000)
"""4.8 MB: it travels by a stream."""


class Metadata:
    """An observer that keeps what the clients sent beside their requests."""

    def __init__(self) -> None:
        self.of: dict[str, dict[str, Any]] = {}

    def began(self, visit: Visit) -> None:
        self.of[visit.method] = visit.metadata

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        """Nothing more is to be kept."""


@pytest.fixture
def exporter() -> InMemorySpanExporter:
    return InMemorySpanExporter()


@pytest.fixture
def provider(exporter: InMemorySpanExporter, monkeypatch: pytest.MonkeyPatch) -> TracerProvider:
    """The environment's, for this test; a process may set it once only."""
    made = TracerProvider()
    made.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: made)
    return made


@pytest.fixture
def sent() -> Metadata:
    return Metadata()


@pytest.fixture
def traced(provider: TracerProvider, sent: Metadata, tmp_path: Path) -> Iterator[Server]:
    """A server that makes spans, at a port and a unix socket."""
    entry = Entry(observers=(Log(), sent, *tracing()))
    addresses = ["127.0.0.1:0", f"unix:{tmp_path}/s"]
    running = Server(Dispatcher(Engine()), addresses, entry=entry)
    running.start()
    yield running
    running.stop(None)


def within(ask: Callable[[Client], Any], target: str, *, awaited: bool) -> None:
    """Let a client of either kind ask."""

    async def main() -> None:
        if not awaited:
            with bh.connect(target, timeout=60) as connection:
                await ask(Client(bh, connection))
            return
        async with backhaul.aio.connect(target, timeout=60) as connection:
            await ask(Client(backhaul.aio, connection))

    asyncio.run(main())


def spans(exporter: InMemorySpanExporter, name: str, kind: SpanKind) -> list[ReadableSpan]:
    """The spans of this name and kind."""
    return [
        each for each in exporter.get_finished_spans() if (each.name, each.kind) == (name, kind)
    ]


def only(exporter: InMemorySpanExporter, name: str, kind: SpanKind) -> ReadableSpan:
    (found,) = spans(exporter, name, kind)
    return found


def is_child(child: ReadableSpan, parent: ReadableSpan) -> bool:
    assert child.context is not None
    assert parent.context is not None
    return (
        child.parent is not None
        and child.parent.span_id == parent.context.span_id
        and child.context.trace_id == parent.context.trace_id
    )


@pytest.mark.parametrize("awaited", [False, True], ids=["waited for", "awaited"])
@pytest.mark.parametrize(("name", "value"), [(EXECUTE, np.ones(3)), (EXECUTE_STREAM, LARGE)])
def test_the_program_the_call_the_server_and_its_work_are_one_trace(
    traced: Server,
    provider: TracerProvider,
    exporter: InMemorySpanExporter,
    name: str,
    value: np.ndarray[Any, Any],
    awaited: bool,
) -> None:
    async def ask(client: Client) -> None:
        tape = client.tape()
        x = tape.leaf(value)
        loss = client.bh.sum(x * x)
        with provider.get_tracer("test").start_as_current_span("program"):
            gradients = await client.ask(tape.pullback(loss))
        assert (gradients[x] == 2 * value).all()

    within(ask, traced.targets[0], awaited=awaited)
    program = only(exporter, "program", SpanKind.INTERNAL)
    call = only(exporter, name, SpanKind.CLIENT)
    served = only(exporter, name, SpanKind.SERVER)
    works = spans(exporter, "execute", SpanKind.INTERNAL)  # another is of CloseSession
    assert is_child(call, program)
    assert is_child(served, call)
    assert [is_child(work, served) for work in works].count(True) == 1
    method = name.rpartition("/")[2]
    port = int(traced.targets[0].rpartition(":")[2])
    of_both = {
        "rpc.system": "grpc",
        "rpc.service": "backhaul.v1.BackhaulService",
        "rpc.method": method,
        "rpc.grpc.status_code": 0,
    }
    assert served.attributes == of_both
    assert call.attributes == {**of_both, "server.address": "127.0.0.1", "server.port": port}
    assert call.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("awaited", [False, True], ids=["waited for", "awaited"])
def test_an_error_is_told_by_the_spans_of_both_sides(
    traced: Server,
    exporter: InMemorySpanExporter,
    caplog: pytest.LogCaptureFixture,
    awaited: bool,
) -> None:
    async def ask(client: Client) -> None:
        tape = client.bh.Tape(client.connection, memory_limit=1000)
        y = client.bh.sum(tape.leaf(np.ones(1000)))
        await client.error(bh.MemoryLimitExceeded, lambda: tape.pullback(y))

    with caplog.at_level(logging.INFO, "backhaul.server"):
        within(ask, traced.targets[0], awaited=awaited)
    call = only(exporter, EXECUTE, SpanKind.CLIENT)
    served = only(exporter, EXECUTE, SpanKind.SERVER)
    assert is_child(served, call)
    for span in (call, served):
        assert span.attributes is not None
        assert span.attributes["rpc.grpc.status_code"] == 8
        assert span.attributes["error.type"] == "MEMORY_LIMIT_EXCEEDED"
        assert span.status.status_code is StatusCode.ERROR
        assert span.status.description == "RESOURCE_EXHAUSTED MEMORY_LIMIT_EXCEEDED"
    (event,) = call.events
    assert event.attributes is not None
    assert event.attributes["exception.type"] == "backhaul_proto.errors.MemoryLimitExceeded"
    # The line of the log names the trace.
    refused = [vars(each) for each in caplog.records if each.message == "refused"]
    (line,) = [each for each in refused if each["method"] == "Execute"]
    assert call.context is not None
    assert line["request"] == trace.format_trace_id(call.context.trace_id)


def test_each_try_of_a_call_is_a_span(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    with bh.connect("127.0.0.1:1", timeout=120) as connection, pytest.raises(bh.Unavailable):
        connection.ping()
    tries = spans(exporter, "backhaul.v1.BackhaulService/GetServerInfo", SpanKind.CLIENT)
    assert len(tries) == 4
    for span in tries:
        assert span.attributes is not None
        assert span.attributes["error.type"] == "UNAVAILABLE"
        assert span.attributes["rpc.grpc.status_code"] == 14


def test_a_unix_socket_is_named_by_its_path(
    traced: Server, exporter: InMemorySpanExporter, tmp_path: Path
) -> None:
    with bh.connect(f"unix://{tmp_path}/s", timeout=120) as connection:
        connection.info()
    call = only(exporter, "backhaul.v1.BackhaulService/GetServerInfo", SpanKind.CLIENT)
    assert call.attributes is not None
    assert call.attributes["server.address"] == f"{tmp_path}/s"
    assert "server.port" not in call.attributes


@pytest.mark.parametrize("awaited", [False, True], ids=["waited for", "awaited"])
def test_an_embedded_server_makes_no_spans(
    provider: TracerProvider, exporter: InMemorySpanExporter, awaited: bool
) -> None:
    async def ask(client: Client) -> None:
        x = client.tape().leaf(3.0)
        assert (await client.ask(x._tape.pullback(x * x)))[x] == 6.0

    within(ask, "embedded", awaited=awaited)
    assert exporter.get_finished_spans() == ()


def test_a_trace_that_is_not_kept_is_continued_as_one_that_is_not_kept(
    traced: Server,
    sent: Metadata,
    exporter: InMemorySpanExporter,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    unkept = TracerProvider(sampler=ALWAYS_OFF)
    monkeypatch.setattr(trace, "get_tracer_provider", lambda: unkept)
    with bh.connect(traced.targets[0], timeout=120) as connection:
        connection.info()
    flags = int(sent.of["GetServerInfo"]["traceparent"].rpartition("-")[2], 16)
    assert flags & 1 == 0
    assert exporter.get_finished_spans() == ()


def test_without_a_provider_nothing_is_added_to_a_call(
    sent: Metadata, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = Server(Dispatcher(Engine()), ["127.0.0.1:0"], entry=Entry(observers=(sent,)))
    server.start()
    try:
        with bh.connect(server.targets[0], timeout=120) as connection:
            connection.info()
            with_the_api = dict(sent.of["GetServerInfo"])
        monkeypatch.setitem(sys.modules, "opentelemetry", None)  # as if it was not installed
        assert client_tracing(parse_target(server.targets[0])) is None
        with bh.connect(server.targets[0], timeout=120) as connection:
            connection.info()
    finally:
        server.stop(None)
    assert "traceparent" not in with_the_api
    assert sent.of["GetServerInfo"].keys() == with_the_api.keys()


def test_what_interrupts_a_call_ends_its_span_as_cancelled(
    provider: TracerProvider, exporter: InMemorySpanExporter
) -> None:
    made = Tracing(provider.get_tracer("test"), parse_target("[::1]:50051"))

    def interrupted() -> None:
        with made.call("Execute", (("a", "b"),)) as metadata:
            assert [name for name, _ in metadata] == ["a", "traceparent"]
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    call = only(exporter, EXECUTE, SpanKind.CLIENT)
    assert call.attributes is not None
    assert call.attributes["rpc.grpc.status_code"] == 1
    assert call.attributes["error.type"] == "KeyboardInterrupt"
    assert call.attributes["server.address"] == "::1"
