"""A tape by node ids, whose questions are awaited."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Sequence
from typing import Any

import numpy as np

from backhaul.aio.connection import Connection
from backhaul.aio.driver import drive
from backhaul.core import Core
from backhaul.kept import Kept
from backhaul.recorder import MAX_STEPS
from backhaul.unusable import must_be_awaited
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.messages import Answer, Inferred, Question

Array = np.ndarray[Any, Any]


class AwaitingCore(Core):
    """A core whose callers await answers, one question at a time.

    The recorder's lock is held for moments only, never while an answer is awaited, so steps can be recorded
    meanwhile; they travel with the next question. Nothing is sent but by a question.
    """

    connection: Connection

    def __init__(
        self, connection: Connection, memory_limit: int = 0, lease: float = 0.0, device: str = ""
    ) -> None:
        super().__init__(connection, memory_limit, lease, device)
        self._turn = asyncio.Lock()

    async def ask(
        self,
        values: Sequence[int] = (),
        question: Question | None = None,
        kept: Kept | None = None,
        spent: Sequence[int] = (),
        *,
        sight: bool = False,
    ) -> Answer:
        """Send what was recorded, with a question; ``kept`` is for answers that stay on the server.

        ``spent`` are nodes that nobody asks for after it: the server may free them as soon as it is answered.

        A cancelled task cancels the work on the server, and the tape goes on.

        Raises:
            BackhaulError: the question was refused or failed, the server is out of reach. The tape goes on.
        """
        self.check_usable()
        self.connection.check_loop()
        async with self._turn:
            self.check_usable()
            work = self._asking(values, question, kept, spent, sight=sight)
            try:
                return await drive(work, self.connection.execute, self.recorder.lock)
            finally:
                self._be_renewed()

    async def close(self) -> None:
        """End the session, after the question that is being answered."""
        if self.closed or os.getpid() != self._process:
            return
        self.connection.check_loop()
        async with self._turn:
            if self.closed:
                return
            with self.recorder.lock:
                self._end()
        if self._session.begun:
            try:
                await self.connection.close_session(self._session.id, self._session.epoch)
            except BaseException:  # cancelled: the next call does it
                self.connection.forget(self._session.id, self._session.epoch)
                raise

    def full(self) -> None:
        """What was recorded stays until a question is awaited."""
        self.check_usable()
        with self.recorder.lock:
            self.recorder.full_at = self.recorder.next_id + MAX_STEPS

    def inferred(self, op: str, avals: tuple[Aval, ...], attributes: Attributes) -> Inferred:
        """The results of an op that the client does not know, where they were asked before."""
        found = self.connection.inferred_before(op, avals, attributes)
        if found is None:
            raise must_be_awaited(
                f"The results of {op}, which the server alone knows",
                "Write `await bh.apply(...)`, with bh the module backhaul.aio.",
            )
        return found

    def _make_room(self, arrays: Sequence[Array]) -> None:
        """Nothing: only a question sends."""
