"""Which worker a new session goes to."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

FULL: Final = 0.9
"""The part of its memory from which on a worker is taken only when all others are as full."""


@dataclass(frozen=True, slots=True)
class Load:
    """What a worker bears.

    Attributes:
        held: bytes of memory that its sessions hold.
        limit: bytes that they may.
        busy: the part of the time that it computes.
        sessions: how many it has, those just placed included.
    """

    held: int
    limit: int
    busy: float
    sessions: int


def least_loaded(loads: Sequence[Load]) -> int:
    """The number of the worker that a new session goes to; there is at least one.

    That with the smallest sum of three parts: of its memory that is held, of its time that it computes, and
    of all sessions those that it has. A session that is idle today computes tomorrow, so their number counts
    beside what they do now; those placed since the last report are in it, so that many sessions opened at
    once do not all go to the worker that was least busy a moment ago.
    """
    of_all = 1 + sum(each.sessions for each in loads)

    def cost(index: int) -> tuple[bool, float]:
        load = loads[index]
        held = load.held / load.limit if load.limit else 1.0
        return held >= FULL, held + min(load.busy, 1.0) + load.sessions / of_all

    return min(range(len(loads)), key=cost)
