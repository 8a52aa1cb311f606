"""Memory that is set aside for a request before it runs, and places in the line for it."""

from __future__ import annotations

from _thread import LockType, allocate_lock
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from backhaul_server.sessions.pool import Pool


class Lack(NamedTuple):
    """What a request lacks.

    Attributes:
        aside: bytes that it needs beyond what its session holds.
        needed: bytes that it needs, those included.
    """

    aside: int
    needed: int


class Lacking(Exception):
    """There is no room for a request at the moment. Nothing of it was run; it is for `Waiting` to catch.

    Attributes:
        lack: what it lacks.
        pool: where.
    """

    def __init__(self, lack: Lack, pool: Pool) -> None:
        super().__init__(lack)
        self.lack = lack
        self.pool = pool


@dataclass(slots=True, eq=False)
class Claim:
    """What is set aside for a request that does not run yet: it still arrives, or has waited.

    To the pool it is a share that holds nothing.

    Attributes:
        principal: whose it is.
        pool: what it is of.
        beside: one of another pool, that the request has too.
        aside: bytes.
        number: its number among those that had to wait; 0 when it had not to.
        held: nothing.
    """

    principal: str
    pool: Pool
    beside: Claim | None = None
    aside: int = 0
    number: int = 0
    held: int = 0

    def recount(self) -> None:
        """It is what it is."""

    def of(self, pool: Pool) -> Claim | None:
        """The one of a pool, this one or the one beside it."""
        if self.pool is pool:
            return self
        return None if self.beside is None else self.beside.of(pool)


class Place:
    """A place in the line for memory: a lock that is let go when its turn has come.

    Attributes:
        claim: of the request that waits.
        lack: what it waits for.
        beside: bytes that are set aside for its messages.
        parked: bytes that are set aside for it while it waits, those included.
        passed: bytes that were given to others ahead of it while it was the first.
        left: whether it is in the line no more.
    """

    __slots__ = ("_ready", "beside", "claim", "lack", "left", "parked", "passed")

    def __init__(self, claim: Claim, lack: Lack, beside: int) -> None:
        self.claim = claim
        self.lack = lack
        self.beside = beside
        self.parked = claim.aside + beside
        self.passed = 0
        self.left = False
        self._ready: LockType = allocate_lock()
        self._ready.acquire()

    def __lt__(self, other: Place) -> bool:
        return self.claim.number < other.claim.number

    def wake(self) -> None:
        """Wake who waits. Harmless to repeat."""
        try:
            self._ready.release()
        except RuntimeError:  # it was let go before
            return

    def wait(self, seconds: float) -> None:
        """Wait until one is woken, at most so long."""
        self._ready.acquire(timeout=seconds)
