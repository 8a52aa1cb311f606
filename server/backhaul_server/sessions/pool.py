"""What all sessions of a server may use together, and requests that are still arriving beside them."""

from __future__ import annotations

import threading
from typing import Protocol

from backhaul_proto.errors import make_error
from backhaul_proto.units import size


class Share(Protocol):
    """A session's part in a pool."""

    @property
    def held(self) -> int:
        """Bytes that it holds at most."""

    def recount(self) -> None:
        """Count what it holds; the pool is told."""


class Pool:
    """The memory of all sessions together.

    The worker's thread uses it; but what was reserved may be released on any.

    Args:
        limit: bytes that may be used.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self._shares: set[Share] = set()
        self._lock = threading.Lock()

    def join(self, share: Share) -> None:
        """A session begins. It holds nothing yet."""
        self._shares.add(share)

    def leave(self, share: Share) -> None:
        """A session has ended, and holds nothing any more."""
        with self._lock:
            if share in self._shares:
                self._shares.remove(share)
                self._held -= share.held

    def changed(self, difference: int) -> None:
        """A session holds so many bytes more."""
        with self._lock:
            self._held += difference

    def reserve(self, nbytes: int) -> Reservation:
        """Memory for a request that is about to arrive.

        Raises:
            ServerBusy: the sessions, and other such requests, hold too much.
        """
        reservation = Reservation(self, nbytes)
        self.check(reservation, nbytes)
        with self._lock:
            self._shares.add(reservation)
            self._held += nbytes
        return reservation

    def has_room(self, share: Share, needed: int) -> bool:
        """Whether a session may surely use so many bytes, what it holds included."""
        return self._held - self._held_by(share) + needed <= self.limit

    def _held_by(self, share: Share) -> int:
        return share.held if share in self._shares else 0

    def check(self, share: Share, needed: int) -> None:
        """Check what a session needs against what the others hold.

        Raises:
            ServerBusy: they hold too much.
        """
        if self.has_room(share, needed):
            return
        for each in list(self._shares):
            each.recount()
        if not self.has_room(share, needed):
            others = self._held - self._held_by(share)
            raise make_error(
                "SERVER_BUSY",
                f"This would need {size(needed)}; the other sessions of the server hold {size(others)} of "
                f"the {size(self.limit)} that all may use together. Nothing was run. Try again later; "
                "close tapes that are no longer needed; or give the server more with --memory.",
                needed=needed,
                held=others,
                limit=self.limit,
            )


class Reservation:
    """Memory of a request that is still arriving: a share beside those of the sessions."""

    def __init__(self, pool: Pool, nbytes: int) -> None:
        self._pool = pool
        self._nbytes = nbytes

    @property
    def held(self) -> int:
        """Bytes that it holds."""
        return self._nbytes

    def recount(self) -> None:
        """It is what it is."""

    def release(self) -> None:
        """It is not needed any more. Harmless to repeat."""
        self._pool.leave(self)
