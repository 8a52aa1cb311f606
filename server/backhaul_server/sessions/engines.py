"""Which engine runs the work of a session: a session with little memory keeps fewer intermediates."""

from __future__ import annotations

from backhaul_server.engine.engine import Engine
from backhaul_server.limits import keep_bytes_by_default, work_bytes_by_default


class Engines:
    """Engines by the memory limit of a session, rounded down to a power of two: so they are few.

    Args:
        engine: whose namespace all of them compute with.
        limit: the highest limit of any session.
    """

    def __init__(self, engine: Engine, limit: int) -> None:
        self.limit = limit
        self._xp = engine.xp
        self._engines: dict[int, Engine] = {}

    @property
    def backend(self) -> str:
        """The array library."""
        return self._xp.name

    def limit_of(self, asked: int) -> int:
        """The limit of a session that asked for one (0: for none)."""
        return min(asked, self.limit) if asked else self.limit

    def of(self, limit: int) -> Engine:
        """The engine of sessions with this limit. Safe to call from any thread."""
        rounded = 1 << (limit.bit_length() - 1)
        found = self._engines.get(rounded)
        if found is None:
            found = Engine(self._xp, keep_bytes_by_default(rounded), work_bytes_by_default(rounded))
            found = self._engines.setdefault(rounded, found)
        return found
