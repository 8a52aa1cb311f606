"""Leases: which sessions are renewed, and what their renewal takes along.

A session ends on the server so many seconds after its last call. Those of tapes that ask nothing for long
are renewed: by a thread here, by a timer of the event loop in `backhaul.aio.renewal`. Either drives
`Leases.renewing`.
"""

from __future__ import annotations

import contextlib
import weakref
from _thread import allocate_lock
from collections.abc import Generator, Sequence
from threading import Thread
from typing import TYPE_CHECKING, Final, NamedTuple

from backhaul_proto.bounds import MAX_RENEWALS
from backhaul_proto.errors import BackhaulError, SessionLost
from backhaul_proto.messages import EndedSession, Renewal

if TYPE_CHECKING:
    from backhaul.connection import Connection
    from backhaul.core import Core

MAX_RELEASES: Final = 100_000
"""Nodes that one call releases, at most; the rest go with the next."""
UNTOLD: Final = 60.0
"""Seconds that a lease is taken for when the answer that tells it has not come."""
LONGEST_PAUSE: Final = 3600.0
_PAUSES: Final = 3
"""Renewals in the time of a lease."""

_ENDED: Final = ("SESSION_EXPIRED", "SESSION_CLOSED")


class Batch(NamedTuple):
    """What one call renews: sessions of one epoch."""

    epoch: bytes
    renewals: Sequence[Renewal]


class Leases:
    """The sessions of a connection's tapes. It keeps no tape alive, and finalizers may use it.

    Attributes:
        pause: seconds between renewals: about a third of the shortest lease.
    """

    def __init__(self) -> None:
        self._cores: dict[bytes, weakref.ref[Core]] = {}
        self.pause = LONGEST_PAUSE

    def add(self, core: Core) -> bool:
        """Renew a session from now on, if it ends by itself. Whether that is sooner than it was planned."""
        self._cores[core.session.id] = weakref.ref(core)
        pause = _pause(core)
        if pause >= self.pause:
            return False
        self.pause = pause
        return True

    def remove(self, session: bytes) -> None:
        """Renew a session no more."""
        self._cores.pop(session, None)

    def idle_sessions(self) -> list[tuple[bytes, bytes]]:
        """Session and epoch of the tapes that live and ask nothing at the moment."""
        found = [each.session for each in self._live()]
        return [(each.id, each.epoch) for each in found if not each.in_doubt]

    def renewing(self) -> Generator[Batch, Sequence[EndedSession], None]:
        """Renew them: yields what each call renews, and is sent what the server answers.

        A call that fails is made again after the next pause. A session that has ended is let be: the next
        question says why.
        """
        cores = [each for each in self._live() if each.session.lease != 0]
        self.pause = min(map(_pause, cores), default=self.pause)
        by_epoch: dict[bytes, list[Core]] = {}
        for each in cores:
            by_epoch.setdefault(each.session.epoch, []).append(each)
        for epoch, group in by_epoch.items():
            for first in range(0, len(group), MAX_RENEWALS):
                yield from self._renew(epoch, group[first : first + MAX_RENEWALS])

    def _renew(
        self, epoch: bytes, cores: Sequence[Core]
    ) -> Generator[Batch, Sequence[EndedSession], None]:
        renewals = []
        room = MAX_RELEASES
        for each in cores:
            renewals.append(each.renewal(room))
            room -= len(renewals[-1].release)
        try:
            ended = yield Batch(epoch, renewals)
        except SessionLost:
            for lost in renewals:
                self.remove(lost.session)
            return
        except BackhaulError:
            return
        for each, renewal in zip(cores, renewals, strict=True):
            each.renewed(renewal)
        for gone in ended:
            if gone.reason in _ENDED:  # else it is still to be opened, by a request on its way
                self.remove(gone.session)

    def _live(self) -> list[Core]:
        found = []
        for session, reference in list(self._cores.items()):
            core = reference()
            if core is None or core.closed or core.session.id != session:
                self.remove(session)
            else:
                found.append(core)
        return found


def _pause(core: Core) -> float:
    lease = core.session.lease
    if lease == 0:
        return LONGEST_PAUSE
    return min(LONGEST_PAUSE, (lease or core.session.asked_lease or UNTOLD) / _PAUSES)


class Renewer:
    """A thread that renews the leases of a connection, until that is closed or nobody has it any more.

    It waits on a plain lock: that can be let go of in a finalizer.
    """

    def __init__(self, connection: Connection) -> None:
        self._asleep = allocate_lock()
        self._asleep.acquire()
        self._connection = weakref.ref(connection, self.wake)
        self._thread = Thread(target=self._run, name="backhaul-leases", daemon=True)
        with contextlib.suppress(
            RuntimeError
        ):  # the interpreter is at its end: no lease will matter
            self._thread.start()

    def wake(self, *_: object) -> None:
        """Look anew how long to wait, or whether at all."""
        with contextlib.suppress(RuntimeError):  # it is awake
            self._asleep.release()

    def _run(self) -> None:
        while (pause := self._pause()) is not None:
            if not self._asleep.acquire(timeout=pause):
                self._renew()

    # The connection is held for the moments of a call only.

    def _pause(self) -> float | None:
        connection = self._connection()
        return None if connection is None or connection.closed else connection.leases.pause

    def _renew(self) -> None:
        connection = self._connection()
        if connection is not None:
            connection.renew_leases()
