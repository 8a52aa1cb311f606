"""The way in of every call that comes by gRPC: who asks, whether there is room, who is told of it.

All of it runs in the call's own handler. gRPC's interceptors would run on the thread that polls the sockets,
and `maximum_concurrent_rpcs` would refuse health checks too, without a word why.
"""

from __future__ import annotations

import itertools
import logging
import re
import secrets
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import SESSION_METADATA
from backhaul_proto.v1 import service_pb2
from backhaul_server.service.draining import Drain
from backhaul_server.service.incidents import typed
from backhaul_server.service.status import refuse
from backhaul_server.sessions.table import digest_of
from backhaul_server.workers.call import Call

log = logging.getLogger("backhaul.server")

INCIDENT: Final = "incident"
"""A fact of an error that is a bug of ours: under this name it is in the log, with its traceback."""
NO_SESSION: Final = service_pb2.SessionRef()
_RUN: Final = secrets.token_hex(4)
"""Tells the calls of this process from those of others."""
_TRACE_ID: Final = re.compile(r"[0-9a-f]{2}-([0-9a-f]{32})-[0-9a-f]{16}-")

ANYONE: Final = ""
"""The principal of callers that need not say who they are."""


class Access(Protocol):
    """Knows who is calling."""

    def principal(self, context: Any) -> str:
        """Who makes the call of this gRPC context.

        Raises:
            Unauthenticated: the server does not know.
        """


class Admission(Protocol):
    """Knows whether there is room for a call."""

    def enter(self, principal: str, method: str) -> None:
        """Let a call in. Each is followed by `leave`.

        Raises:
            ServerBusy, QuotaExceeded: there is no room for it. It is not followed by `leave`.
        """

    def leave(self, principal: str, method: str) -> None:
        """The call has ended."""


class Observer(Protocol):
    """Is told of each call."""

    def began(self, visit: Visit) -> None:
        """It was let in, or is about to be refused."""

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        """It was answered, or refused with the error."""


class Open:
    """Anybody may call, and all are one principal."""

    def principal(self, context: Any) -> str:
        """Nobody in particular."""
        return ANYONE


class Roomy:
    """There is always room."""

    def enter(self, principal: str, method: str) -> None:
        """Let it in."""

    def leave(self, principal: str, method: str) -> None:
        """Take no note."""


class Log:
    """Writes a line a call: answered ones for debugging, refused ones always."""

    def began(self, visit: Visit) -> None:
        """Nothing yet."""

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        """The line."""
        if error is not None:
            facts = {**visit.facts(), "reason": error.reason}
            if INCIDENT in error.details:
                facts[INCIDENT] = error.details[INCIDENT]
            log.info("refused", extra=facts)
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("answered", extra=visit.facts())


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at the door.

    Attributes:
        access: who is calling.
        admission: whether there is room.
        observers: who is told of it.
        clock: seconds, monotonic.
        drain: who is in, and who may come in when the server ends.
        numbers: of the calls, each once.
    """

    access: Access = field(default_factory=Open)
    admission: Admission = field(default_factory=Roomy)
    observers: Sequence[Observer] = field(default_factory=lambda: (Log(),))
    clock: Callable[[], float] = time.monotonic
    drain: Drain = field(default_factory=Drain)
    numbers: Iterator[int] = field(default_factory=lambda: itertools.count(1))

    def visit(self, method: str, context: Any) -> Visit:
        """A call that has come in, to be entered with ``with``."""
        return Visit(self, method, context)


class Visit:
    """A call in the server. Errors that leave its ``with`` end the call as gRPC statuses.

    Attributes:
        method: its name.
        context: gRPC's.
        call: how long the caller waits, and whether still.
        principal: who asks.
        started: when it came, by the entry's clock.
        number: of the call, since the server was started.
        session: the session that it is for, where it is known; never to be written down, see `facts`.
        span: its span, where it is traced.
    """

    __slots__ = (
        "_entry",
        "call",
        "context",
        "method",
        "number",
        "principal",
        "session",
        "span",
        "started",
    )

    def __init__(self, entry: Entry, method: str, context: Any) -> None:
        self._entry = entry
        self.method = method
        self.context = context
        self.principal = ANYONE
        self.started = entry.clock()
        self.number = next(entry.numbers)
        self.session = b""
        self.span: Any = None
        self.call = Call(context.time_remaining(), entry.clock)
        context.add_callback(self.call.cancel)

    @property
    def ms(self) -> float:
        """Milliseconds since it came."""
        return round(self.seconds * 1e3, 3)

    @property
    def seconds(self) -> float:
        """Seconds since it came."""
        return self._entry.clock() - self.started

    @property
    def metadata(self) -> dict[str, Any]:
        """What its client sent beside the request."""
        return dict(self.context.invocation_metadata() or ())

    def now(self) -> float:
        """The time by the clock of `started`."""
        return self._entry.clock()

    def note_session(self, request: Any) -> None:
        """Remember which session a request names, if it names one."""
        self.session = getattr(request, "session", NO_SESSION).id

    def facts(self) -> dict[str, Any]:
        """What a line of the log tells of the call."""
        metadata = self.metadata
        told: dict[str, Any] = {
            "method": self.method,
            "ms": self.ms,
            "request": request_id(metadata, self.number),
            "principal": self.principal,
        }
        session = self.session or _from_hex(metadata.get(SESSION_METADATA, ""))
        if session:
            told["session"] = digest_of(session).hex()
        return told

    def __enter__(self) -> Visit:
        entry = self._entry
        for each in entry.observers:
            each.began(self)
        try:
            entry.drain.enter(self.call)
            self.principal = entry.access.principal(self.context)
            entry.admission.enter(self.principal, self.method)
        except Exception as error:
            self._end(typed(self.method, error))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        entry = self._entry
        entry.admission.leave(self.principal, self.method)
        if isinstance(error, BackhaulError):
            self._end(error)
        entry.drain.leave(self.call)
        broken = None
        if error is not None:
            broken = make_error("CANCELLED", "The call ended before its answer was sent.")
        for each in entry.observers:
            each.ended(self, broken)

    def _end(self, error: BackhaulError) -> None:
        self._entry.drain.leave(self.call)
        for each in self._entry.observers:
            each.ended(self, error)
        refuse(self.context, error)


def request_id(metadata: Mapping[str, Any], number: int) -> str:
    """What a call is found by in the log: the id of its trace if its client began one, else one of ours."""
    parent = metadata.get("traceparent")
    traced = _TRACE_ID.match(parent) if isinstance(parent, str) else None
    return f"{_RUN}-{number}" if traced is None else traced[1]


def _from_hex(text: Any) -> bytes:
    """The bytes; none when it is no such text."""
    try:
        return bytes.fromhex(text)
    except (TypeError, ValueError):
        return b""
