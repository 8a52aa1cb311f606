"""Spans of calls by OpenTelemetry, where it is installed: each continues the trace of its client.

Which spans are kept and where they go is the business of the environment, see docs/observability.md.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from backhaul_proto._version import __version__
from backhaul_proto.errors import BackhaulError, status_of
from backhaul_proto.messages import SERVICE
from backhaul_server.service.entry import Observer, Visit
from backhaul_server.service.status import code_of

if TYPE_CHECKING:
    from opentelemetry.trace import Span, Tracer

_NS: Final = 1_000_000_000


def tracing() -> Sequence[Observer]:
    """An observer that makes spans; none where the package is not installed."""
    try:
        from opentelemetry import trace
    except ModuleNotFoundError:
        return ()
    return (Tracing(trace.get_tracer_provider().get_tracer("backhaul_server", __version__)),)


class Tracing:
    """An observer: a span for each call, and in it one for the last work that was done for it.

    Args:
        tracer: makes them.
    """

    def __init__(self, tracer: Tracer) -> None:
        self._tracer = tracer

    def began(self, visit: Visit) -> None:
        """Begin the call's span."""
        from opentelemetry import propagate
        from opentelemetry.trace import SpanKind

        visit.span = self._tracer.start_span(
            f"{SERVICE}/{visit.method}",
            propagate.extract(visit.metadata),
            SpanKind.SERVER,
            {"rpc.system": "grpc", "rpc.service": SERVICE, "rpc.method": visit.method},
        )

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        """End it, with what became of the call."""
        span: Span = visit.span
        if not span.is_recording():
            span.end()
            return
        self._work(visit, span)
        code = 0 if error is None else code_of(error).value[0]
        span.set_attribute("rpc.grpc.status_code", code)
        if error is not None:
            from opentelemetry.trace import Status, StatusCode

            span.set_attribute("error.type", error.reason)
            span.set_status(Status(StatusCode.ERROR, f"{status_of(error)} {error.reason}"))
        span.end()

    def _work(self, visit: Visit, span: Span) -> None:
        call = visit.call
        if call.first_turn is None or call.worked is None:
            return
        from opentelemetry.trace import set_span_in_context

        now, at = time.time_ns(), visit.now()
        began, ended = (now - int((at - each) * _NS) for each in (call.last_turn, call.worked))
        child = self._tracer.start_span("execute", set_span_in_context(span), start_time=began)
        child.set_attribute("backhaul.queue_seconds", call.first_turn - visit.started)
        child.end(ended)
