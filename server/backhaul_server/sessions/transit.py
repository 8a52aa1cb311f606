"""The host's memory that a session on another device takes: what goes there, and what comes back."""

from __future__ import annotations

from backhaul_proto.errors import make_error
from backhaul_proto.units import size
from backhaul_server.sessions.claims import Claim
from backhaul_server.sessions.pool import Pool


class Transit:
    """A session's part in the host's memory: nothing, but while a request is run.

    So it is also what the session counts by among all others.

    Args:
        pool: the host's.
        principal: whose the session is.

    Raises:
        QuotaExceeded, ServerBusy: there are too many sessions, see `Pool.join`.
    """

    held = 0

    def __init__(self, pool: Pool, principal: str) -> None:
        self.principal = principal
        self._pool = pool
        self._reserved = 0
        pool.join(self)

    def recount(self) -> None:
        """It holds nothing."""

    def admit(self, needed: int, claim: Claim | None) -> None:
        """Set aside the memory of a request's tensors and of its answers. `done` gives it back.

        Args:
            needed: bytes.
            claim: what was set aside for the request before.

        Raises:
            MemoryLimitExceeded: it is more than there can be.
            QuotaExceeded, ServerBusy: others hold too much for it.
            Lacking: others use too much at the moment.
        """
        pool = self._pool
        if needed > pool.of_one_principal:
            raise make_error(
                "MEMORY_LIMIT_EXCEEDED",
                f"The request's arrays and those of its answer would need {size(needed)} in the server's own "
                f"memory, and at most {size(pool.of_one_principal)} may be used. Nothing was run. Ask for "
                "less at once; let gradients stay on the device (fetch=False); or give the server more with "
                "--memory-limit.",
                needed=needed,
                limit=pool.of_one_principal,
            )
        own = None if claim is None else claim.of(pool)
        aside = pool.reserve(self, needed, own)
        if aside is None:
            aside = pool.reserve_or_refuse(self, needed, own)
        self._reserved = aside

    def done(self) -> None:
        """The request runs no more. Harmless to repeat."""
        aside, self._reserved = self._reserved, 0
        if aside:
            self._pool.give_back(self.principal, aside)

    def close(self) -> None:
        """The session has ended."""
        self._pool.leave(self)
