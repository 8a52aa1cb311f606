"""Leases: the sessions of a connection's tapes are renewed together, long before they run out.

A session that nobody asks anything ends on the server when its lease runs out; so memory of clients that
are gone is free again. A live client renews all its sessions by one call, every third of the shortest
lease, and with it lets the server free what dropped handles leave behind on tapes that ask nothing.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Generator, Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple, Protocol

from backhaul_proto.errors import BackhaulError, SessionError
from backhaul_proto.messages import EndedSession, Renewal

if TYPE_CHECKING:
    from backhaul.core import Core

AT_ONCE: Final = 10_000
"""Sessions that one call renews at most."""
_TIMES: Final = 3
_LONGEST_CALL: Final = 10.0
UNKNOWN: Final = 60.0
"""Seconds, in place of a lease that was not heard of: the answer that told it was lost."""


class Batch(NamedTuple):
    """What one call renews.

    Attributes:
        epoch: of all of the sessions.
        sessions: them.
    """

    epoch: bytes
    sessions: Sequence[Renewal]


class Renewals:
    """The tapes of one connection that have a session. It does not keep them alive. For any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._cores: weakref.WeakSet[Core] = weakref.WeakSet()
        self._shortest = 0.0

    def add(self, core: Core) -> bool:
        """A tape's session was opened; whether it has the shortest lease of all."""
        lease = core.lease
        with self._lock:
            self._cores.add(core)
            is_shorter = bool(lease) and not 0 < self._shortest <= lease
            if is_shorter:
                self._shortest = lease
        return is_shorter

    @property
    def pause(self) -> float | None:
        """Seconds between renewals; None while there is no lease."""
        return self._shortest / _TIMES if self._shortest else None

    @property
    def timeout(self) -> float:
        """Seconds that a call may take."""
        return min(_LONGEST_CALL, self.pause or _LONGEST_CALL)

    def cores(self) -> list[Core]:
        """The tapes that live."""
        with self._lock:
            return list(self._cores)

    def round(self) -> Generator[Batch, Sequence[EndedSession], None]:
        """Renew all. Each batch is answered by those of it that have ended, or with an error thrown in."""
        by_epoch: dict[bytes, list[tuple[Core, Renewal]]] = {}
        for core in self.cores():
            renewal = core.renewal()
            if renewal is None:
                self._forget([core])
            else:
                by_epoch.setdefault(core.epoch, []).append((core, renewal))
        for epoch, all_of_it in by_epoch.items():
            for first in range(0, len(all_of_it), AT_ONCE):
                part = all_of_it[first : first + AT_ONCE]
                yield from self._renew(epoch, part)
        with self._lock:
            leases = [each.lease for each in self._cores]
            self._shortest = min(filter(None, leases), default=0.0)

    def _renew(
        self, epoch: bytes, part: Sequence[tuple[Core, Renewal]]
    ) -> Generator[Batch, Sequence[EndedSession], None]:
        try:
            ended = yield Batch(epoch, [renewal for _, renewal in part])
        except SessionError:  # the server was restarted: their next questions will be told so
            self._forget([core for core, _ in part])
            return
        except BackhaulError:
            return  # nothing answers now; the next round tries again
        gone = {each.session for each in ended}
        self._forget([core for core, renewal in part if renewal.session in gone])
        for core, renewal in part:
            core.were_let_go(renewal.release)

    def _forget(self, cores: Sequence[Core]) -> None:
        with self._lock:
            self._cores.difference_update(cores)


class Renewing(Protocol):
    """A connection whose sessions are to be renewed."""

    def renew(self) -> None:
        """Renew them."""


class RenewingThread:
    """Renews the sessions of a connection until that is closed or gone. It does not keep it alive.

    Args:
        connection: the connection.
        renewals: its tapes.
    """

    def __init__(self, connection: Renewing, renewals: Renewals) -> None:
        self._renewals = renewals
        self._connection = weakref.ref(connection)
        self._changed = threading.Event()
        self._stopped = False
        # At the end of the connection, or of the interpreter.
        self._end: Any = weakref.finalize(connection, self.stop)
        thread = threading.Thread(target=self._run, name="backhaul-leases", daemon=True)
        thread.start()

    def hurry(self) -> None:
        """The pause has become shorter."""
        self._changed.set()

    def stop(self) -> None:
        """Renew no more."""
        self._stopped = True
        self._changed.set()

    def _run(self) -> None:
        while not self._stopped:
            if self._changed.wait(self._renewals.pause):
                self._changed.clear()
                continue
            connection = self._connection()
            if connection is None:
                return
            connection.renew()
            del connection
