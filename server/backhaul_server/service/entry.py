"""The way in of every call that comes by gRPC: who asks, whether there is room, who is told of it.

All of it runs in the call's own handler. gRPC's interceptors would run on the thread that polls the sockets,
and `maximum_concurrent_rpcs` would refuse health checks too, without a word why.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Final, Protocol

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_server.service.dispatch import guarded
from backhaul_server.service.draining import Drain
from backhaul_server.service.status import refuse
from backhaul_server.workers.call import Call

log = logging.getLogger("backhaul.server")

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
            facts = {"method": visit.method, "reason": error.reason, "ms": visit.ms}
            log.info("refused", extra=facts)
        elif log.isEnabledFor(logging.DEBUG):
            log.debug("answered", extra={"method": visit.method, "ms": visit.ms})


@dataclass(frozen=True, slots=True)
class Entry:
    """What stands at the door.

    Attributes:
        access: who is calling.
        admission: whether there is room.
        observers: who is told of it.
        clock: seconds, monotonic.
        drain: who is in, and who may come in when the server ends.
    """

    access: Access = field(default_factory=Open)
    admission: Admission = field(default_factory=Roomy)
    observers: Sequence[Observer] = field(default_factory=lambda: (Log(),))
    clock: Callable[[], float] = time.monotonic
    drain: Drain = field(default_factory=Drain)

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
    """

    __slots__ = ("_admitted", "_entry", "call", "context", "method", "principal", "started")

    def __init__(self, entry: Entry, method: str, context: Any) -> None:
        self._entry = entry
        self._admitted = False
        self.method = method
        self.context = context
        self.principal = ANYONE
        self.started = entry.clock()
        self.call = Call(context.time_remaining())
        context.add_callback(self.call.cancel)

    @property
    def ms(self) -> float:
        """Milliseconds since it came."""
        return round((self._entry.clock() - self.started) * 1e3, 3)

    def __enter__(self) -> Visit:
        entry = self._entry
        for each in entry.observers:
            each.began(self)
        try:
            guarded(self.method, self._let_in)
        except BackhaulError as error:
            self._end(error)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._admitted:
            self._admitted = False
            self._entry.admission.leave(self.principal, self.method)
        if isinstance(error, BackhaulError):
            self._end(error)
        self._entry.drain.leave(self.call)
        broken = None
        if error is not None:
            broken = make_error("CANCELLED", "The call ended before its answer was sent.")
        for each in self._entry.observers:
            each.ended(self, broken)

    def _let_in(self) -> None:
        self._entry.drain.enter(self.call)
        self.principal = self._entry.access.principal(self.context)
        self._entry.admission.enter(self.principal, self.method)
        self._admitted = True

    def _end(self, error: BackhaulError) -> None:
        self._entry.drain.leave(self.call)
        for each in self._entry.observers:
            each.ended(self, error)
        refuse(self.context, error)
