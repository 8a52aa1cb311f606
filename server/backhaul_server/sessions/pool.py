"""What all sessions of a server may use together."""

from __future__ import annotations

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

    Args:
        limit: bytes that may be used.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._held = 0
        self._shares: set[Share] = set()

    def join(self, share: Share) -> None:
        """A session begins. It holds nothing yet."""
        self._shares.add(share)

    def leave(self, share: Share) -> None:
        """A session has ended, and holds nothing any more."""
        if share in self._shares:
            self._shares.remove(share)
            self._held -= share.held

    def changed(self, difference: int) -> None:
        """A session holds so many bytes more."""
        self._held += difference

    def has_room(self, share: Share, needed: int) -> bool:
        """Whether a session may surely use so many bytes, what it holds included."""
        return self._held - share.held + needed <= self.limit

    def check(self, share: Share, needed: int) -> None:
        """Check what a session needs against what the others hold.

        Raises:
            ServerBusy: they hold too much.
        """
        if self.has_room(share, needed):
            return
        for each in self._shares:
            each.recount()
        if not self.has_room(share, needed):
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
