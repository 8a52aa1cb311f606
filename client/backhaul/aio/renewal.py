"""Leases, renewed in an event loop."""

from __future__ import annotations

import asyncio
import contextlib
import weakref
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from backhaul.aio.connection import Connection


class Renewer:
    """Renews the leases of a connection, until that is closed or nobody has it any more.

    Between renewals there is a timer and no task: a loop that is closed then has nothing pending to warn of.

    Args:
        connection: whose leases.
        loop: the loop that it belongs to.
    """

    def __init__(self, connection: Connection, loop: asyncio.AbstractEventLoop) -> None:
        self._connection = weakref.ref(connection)
        self._loop = loop
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    def plan(self) -> None:
        """Renew them after the pause, counted from now."""
        connection = self._connection()
        if self._timer is not None:
            self._timer.cancel()
        if connection is not None and not connection.closed:
            self._timer = self._loop.call_later(connection.leases.pause, self._begin)

    async def stop(self) -> None:
        """Renew them no more."""
        if self._timer is not None:
            self._timer.cancel()
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def _begin(self) -> None:
        if self._connection() is not None:
            self._task = self._loop.create_task(self._renew())

    async def _renew(self) -> None:
        connection = self._connection()
        if connection is not None and not connection.closed:
            with contextlib.suppress(asyncio.CancelledError):
                await connection.renew_leases()
                self.plan()
        self._task = None
