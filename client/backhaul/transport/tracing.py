"""Spans of a client's calls by OpenTelemetry, where it is installed: the server's continue their traces.

Which spans are kept and where they go is the business of the environment, see docs/observability.md.
"""

from __future__ import annotations

from types import TracebackType
from typing import TYPE_CHECKING

import grpc

from backhaul.targets import Target
from backhaul_proto._version import __version__
from backhaul_proto.errors import BackhaulError, status_of
from backhaul_proto.messages import SERVICE

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

Metadata = tuple[tuple[str, str], ...]


def tracing(target: Target) -> Tracing | None:
    """What makes the spans of calls to a server; None where the package is not installed."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return None
    return Tracing(trace.get_tracer_provider().get_tracer("backhaul", __version__), target)


class Tracing:
    """Makes a span for each call; one that is made again has a span for each try.

    Args:
        tracer: makes them.
        target: the server.
    """

    def __init__(self, tracer: Tracer, target: Target) -> None:
        from opentelemetry.trace import SpanKind

        self._tracer = tracer
        self._kind = SpanKind.CLIENT
        self._attributes: dict[str, str | int] = {
            "rpc.system": "grpc",
            "rpc.service": SERVICE,
            **_place(target),
        }

    def call(self, method: str, metadata: Metadata) -> Traced:
        """A call, to be made within ``with``, which gives its metadata. What ends it is told by its span."""
        attributes = {**self._attributes, "rpc.method": method}
        span = self._tracer.start_span(
            f"{SERVICE}/{method}", kind=self._kind, attributes=attributes
        )
        return Traced(span, metadata)


class Traced:
    """A call and its span. It does not become the current span: nothing below makes spans.

    Args:
        span: begun.
        metadata: of the call.
    """

    __slots__ = ("_metadata", "_span")

    def __init__(self, span: Span, metadata: Metadata) -> None:
        self._span = span
        self._metadata = metadata

    def __enter__(self) -> Metadata:
        if not self._span.get_span_context().is_valid:
            return self._metadata  # nobody traces
        from opentelemetry import propagate, trace

        carried: dict[str, str] = {}
        propagate.inject(carried, trace.set_span_in_context(self._span))
        return (*self._metadata, *((key.lower(), value) for key, value in carried.items()))

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        span = self._span
        if span.is_recording():
            code = grpc.StatusCode.OK if error is None else _code_of(error)
            span.set_attribute("rpc.grpc.status_code", code.value[0])
            if error is not None:
                _record(span, error, code)
        span.end()


def _record(span: Span, error: BaseException, code: grpc.StatusCode) -> None:
    from opentelemetry.trace import Status, StatusCode

    reason = error.reason if isinstance(error, BackhaulError) else type(error).__qualname__
    span.set_attribute("error.type", reason)
    span.record_exception(error)
    span.set_status(Status(StatusCode.ERROR, f"{code.name} {reason}"))


def _code_of(error: BaseException) -> grpc.StatusCode:
    """The status of a call that ended so; what interrupts it (Ctrl-C, a task's end) cancels it."""
    if not isinstance(error, BackhaulError):
        return grpc.StatusCode.CANCELLED
    return grpc.StatusCode[status_of(error)]


def _place(target: Target) -> dict[str, str | int]:
    if target.kind == "unix":
        return {"server.address": target.path}
    host, _, port = target.address.rpartition(":")
    return {"server.address": host.strip("[]"), "server.port": int(port)}
