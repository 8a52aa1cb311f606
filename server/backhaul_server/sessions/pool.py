"""What all sessions of a server may use together, and requests that are still arriving beside them."""

from __future__ import annotations

from threading import Lock
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
    """The memory of all sessions together. Sessions may use it from different threads.

    Args:
        limit: bytes that may be used.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self._held = 0
        self._shares: set[Share] = set()

    @property
    def held(self) -> int:
        """Bytes that are held, or set aside."""
        return self._held

    def join(self, share: Share) -> None:
        """A session begins. It holds nothing yet."""
        with self._lock:
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

    def reserve(self, share: Share, needed: int) -> int | None:
        """Set aside what a session may use beyond what it holds. None when there is no room.

        Returns:
            The bytes set aside, to be given back with `changed`.

        Args:
            share: the session's.
            needed: bytes, what it holds included.
        """
        with self._lock:
            aside = needed - share.held
            if self._held + aside > self.limit:
                return None
            self._held += aside
            return aside

    def reserve_or_refuse(self, share: Share, needed: int) -> int:
        """`reserve`, after what the others hold was counted anew.

        Raises:
            ServerBusy: they hold too much.
        """
        with self._lock:
            shares = list(self._shares)
        for each in shares:
            each.recount()
        aside = self.reserve(share, needed)
        if aside is not None:
            return aside
        others = self._held - share.held
        raise make_error(
            "SERVER_BUSY",
            f"This would need {size(needed)}; the other sessions of the server hold {size(others)} of "
            f"the {size(self.limit)} that all may use together. Nothing was run. Try again later; "
            "close tapes that are no longer needed; or give the server more with --memory.",
            needed=needed,
            held=others,
            limit=self.limit,
        )


class Arrival:
    """Memory that is set aside for the tensors of a request, before they come.

    To the pool it is a share that holds nothing.

    Raises:
        ServerBusy: the sessions, and others that arrive, hold too much.
    """

    held = 0

    def __init__(self, pool: Pool, nbytes: int) -> None:
        self._pool = pool
        aside = pool.reserve(self, nbytes)
        self._aside = pool.reserve_or_refuse(self, nbytes) if aside is None else aside

    def recount(self) -> None:
        """It is what it is."""

    def release(self) -> None:
        """It is not needed any more. Harmless to repeat."""
        aside, self._aside = self._aside, 0
        self._pool.changed(-aside)
