"""Work that waits for memory: outside of turns and of its session's line, so that others can make room."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Final, TypeVar

from backhaul_server.sessions.claims import Claim, Lack, Lacking
from backhaul_server.sessions.pool import Pool
from backhaul_server.workers.call import Call
from backhaul_server.workers.worker import Interrupt, Worker

T = TypeVar("T")

LONGEST: Final = 30.0
"""Seconds that a call without a deadline waits for memory."""


class Waiting:
    """Runs work on a worker, and again when memory that lacked has come free.

    Args:
        worker: where it runs.
        pool: the host's memory.
        clock: seconds, monotonic.
    """

    def __init__(
        self, worker: Worker, pool: Pool, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._worker = worker
        self._pool = pool
        self._clock = clock

    def run(
        self,
        call: Call,
        principal: str,
        session: bytes,
        work: Callable[[Interrupt, Claim | None], T],
        claim: Claim | None = None,
    ) -> T:
        """The work's result. It raises `Lacking` before it has done anything, or not at all.

        Beside what was set aside for it when it came, it holds memory of one pool at a time while it
        waits, so that no two wait for each other.

        Args:
            call: who waits for it.
            principal: who asks.
            session: what it works on.
            work: it takes what is set aside for it.
            claim: that, when something is.

        Raises:
            ServerBusy: the memory did not come free in time.
        """
        key = (principal, session)
        try:
            return self._worker.run(call, key, lambda interrupt: work(interrupt, claim))
        except Lacking as error:
            lack, pool = error.lack, error.pool
        own = self._claim_of(pool, principal, claim)
        until = self._until(call)
        try:
            while True:
                self._wait(own, lack, call, until)
                try:
                    return self._run_with(own, call, key, work)
                except Lacking as error:
                    lack, pool = error.lack, error.pool
                if pool is not own.pool:
                    if own is not claim:
                        own.pool.release(own)
                    own = self._claim_of(pool, principal, claim)
        finally:
            own.pool.release(own)
            if claim is not None:
                claim.pool.release(claim)

    def _run_with(
        self,
        claim: Claim,
        call: Call,
        key: tuple[str, bytes],
        work: Callable[[Interrupt, Claim | None], T],
    ) -> T:
        return self._worker.run(call, key, lambda interrupt: work(interrupt, claim))

    @staticmethod
    def _claim_of(pool: Pool, principal: str, claim: Claim | None) -> Claim:
        """The claim with which a request waits for a pool: the one it came with, or one beside that."""
        if claim is not None and claim.pool is pool:
            return claim
        return Claim(principal, pool, claim)

    def claim(self, call: Call, principal: str, nbytes: int) -> Claim:
        """So many bytes, set aside for what is about to come. `Pool.release` gives them back.

        Raises:
            QuotaExceeded, ServerBusy: there is no room, and none came free in time.
        """
        claim = Claim(principal, self._pool)
        aside = self._pool.reserve(claim, nbytes)
        until = None
        while aside is None:
            try:
                aside = self._pool.reserve_or_refuse(claim, nbytes, claim)
            except Lacking as error:
                lack = error.lack
                until = until or self._until(call)
                self._wait(claim, lack, call, until)
        claim.aside = aside
        return claim

    def _until(self, call: Call) -> float:
        remaining = call.remaining
        return self._clock() + (LONGEST if remaining is None else remaining)

    def _wait(self, claim: Claim, lack: Lack, call: Call, until: float) -> None:
        """Until it is worth another try."""
        pool = claim.pool
        place = pool.enter(claim, lack, call.message_bytes)
        if place is None:
            return
        call.when_cancelled(place.wake)
        try:
            while not place.left:
                left = until - self._clock()
                call.check()
                if left <= 0:
                    pool.refuse(lack)
                place.wait(left + 0.001)  # past the deadline, so that it is seen
        finally:
            pool.give_up(place)
