"""What a principal may have of the server, and what it has."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Quotas:
    """How much there is for one principal, and for all.

    Attributes:
        principal_memory: bytes that the sessions of a principal may use; None: what all may.
        principal_sessions: how many a principal may have open.
        sessions: how many all may have open.
    """

    principal_memory: int | None = None
    principal_sessions: int = 10_000
    sessions: int = 100_000


@dataclass(slots=True)
class Account:
    """What a principal has at the moment.

    Attributes:
        sessions: how many are open.
        held: bytes that they hold at most.
        aside: bytes that are set aside for its requests.
    """

    sessions: int = 0
    held: int = 0
    aside: int = 0

    @property
    def is_idle(self) -> bool:
        """Whether there is nothing to be remembered."""
        return not (self.sessions or self.held or self.aside)
