"""Counting round trips."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import backhaul as bh


@dataclass(slots=True)
class Trips:
    """Round trips of questions within a `counted` block, once that has ended."""

    count: int = -1


@contextmanager
def counted(connection: bh.Connection) -> Iterator[Trips]:
    """Count the questions of a block. (Renewals, and the end of tapes that are gone, are no part of it.)"""
    found = Trips()
    before = Counter(connection.calls)
    yield found
    made = connection.calls - before
    found.count = sum(count for name, count in made.items() if name.startswith("Execute"))
