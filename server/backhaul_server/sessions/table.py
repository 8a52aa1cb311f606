"""All sessions of a worker, by owner and id, and what became of those that ended."""

from __future__ import annotations

import secrets
from collections import OrderedDict
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from backhaul_proto.errors import make_error
from backhaul_proto.messages import Answer, Execute, Limits, SessionInfo
from backhaul_proto.units import size
from backhaul_server.sessions.blocks import BlockCache, Decode
from backhaul_server.sessions.engines import Engines
from backhaul_server.sessions.pool import Arrival, Pool
from backhaul_server.sessions.session import Interrupt, Session
from backhaul_server.workers.call import draining

Key = tuple[str, bytes]

SESSION_ID_BYTES: Final = 16
TOMBSTONES_KEPT: Final = 100_000


class SessionTable:
    """The sessions of one worker. Calls for different sessions may come from different threads.

    Args:
        engines: what computes, and what a session may use.
        pool: what all sessions may use together.
        decode: a block's bytes to a Block.
        limits: told to those who open a session, with its own limit of memory.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        engines: Engines,
        pool: Pool,
        decode: Decode,
        limits: Limits,
        clock: Callable[[], float],
    ) -> None:
        self._pool = pool
        self._engines = engines
        self._blocks = BlockCache(decode)
        self._limits = limits
        self._clock = clock
        self._epoch = secrets.token_bytes(8)
        self._sessions: dict[Key, Session] = {}
        self._ended: OrderedDict[Key, str] = OrderedDict()
        self._draining = False

    def __len__(self) -> int:
        return len(self._sessions)

    def open(self, principal: str, session: bytes, memory_limit: int = 0) -> tuple[bytes, Limits]:
        """Open a session: its epoch, and the limits. Harmless to repeat while nothing was run in it.

        A repetition changes no limit.

        Raises:
            InvalidArgument: SESSION_EXISTS, or MALFORMED_REQUEST for an id that is none.
            SessionClosed: it was closed; ids are not used twice.
        """
        key = (principal, _checked_id(session))
        found = self._sessions.get(key)
        if found is not None and found.last_seq:
            raise make_error(
                "SESSION_EXISTS",
                "A session of this id is open and has run blocks; choose a random id for a new one.",
            )
        if found is None:
            found = self._open(key, memory_limit)
        return self._epoch, self._limits_of(found)

    def execute(self, principal: str, request: Execute, interrupt: Interrupt) -> Answer:
        """Run a request; one with seq 1 opens the session when there is none."""
        key = (principal, _checked_id(request.session))
        self._check_epoch(request.epoch)
        session = self._sessions.get(key)
        opens = session is None and request.seq == 1
        if session is None:
            session = self._open(key, request.memory_limit) if opens else self._find(key)
        try:
            answer = session.execute(request, interrupt)
        except BaseException:
            if opens:
                self._sessions.pop(key).close()  # what was refused leaves nothing behind
            raise
        if request.seq != 1:
            return answer
        return replace(answer, limits=self._limits_of(session))

    def expect(self, principal: str, request: Execute, nbytes: int) -> Arrival:
        """Memory for the tensors of a request that is about to arrive; it has them not yet.

        What would refuse it whatever they are does so here.

        Raises:
            MemoryLimitExceeded: the session may not use so much, whatever it holds.
            ServerBusy: the other sessions hold too much at the moment.
            SessionError, InvalidArgument: as `execute`; BLOCK_UNKNOWN too.
        """
        key = (principal, _checked_id(request.session))
        self._check_epoch(request.epoch)
        session = self._sessions.get(key)
        if session is None and (request.seq != 1 or key in self._ended):
            self._find(key)
        limit = (
            self._engines.limit_of(request.memory_limit)
            if session is None
            else session.memory_limit
        )
        if nbytes > limit:
            raise make_error(
                "MEMORY_LIMIT_EXCEEDED",
                f"The request's arrays have {size(nbytes)}, and the tape may use {size(limit)}. None of them "
                "was read. Send less, or give the tape more with memory_limit=, and the server with "
                "--session-memory.",
                needed=nbytes,
                limit=limit,
            )
        if request.block is not None:
            self._blocks.find(principal, request.block)
        return Arrival(self._pool, nbytes)

    def close(self, principal: str, session: bytes, epoch: bytes = b"") -> None:
        """Close a session and free all that it holds. Closing a closed one is not an error.

        Raises:
            SessionNotFound: there never was one of this id.
            SessionLost: the epoch is another worker's.
        """
        key = (principal, _checked_id(session))
        self._check_epoch(epoch)
        if key not in self._ended:
            self._find(key)
            self._end(key, "SESSION_CLOSED")

    def release(self, principal: str, session: bytes, epoch: bytes, nodes: Sequence[int]) -> None:
        """Let go of nodes of a session now."""
        self.find(principal, session, epoch).release(nodes)

    def info(self, principal: str, session: bytes, epoch: bytes) -> SessionInfo:
        """What a session holds."""
        return self.find(principal, session, epoch).info(self._clock())

    def find(self, principal: str, session: bytes, epoch: bytes) -> Session:
        """The open session of this owner and id.

        Raises:
            SessionClosed, SessionNotFound, SessionLost.
        """
        key = (principal, _checked_id(session))
        self._check_epoch(epoch)
        return self._find(key)

    def close_all(self) -> None:
        """Close every session."""
        for key in list(self._sessions):
            self._end(key, "SESSION_CLOSED")

    def refuse_new(self) -> None:
        """Open no more sessions: the server is about to end."""
        self._draining = True

    def _open(self, key: Key, memory_limit: int) -> Session:
        if self._draining:
            raise draining()
        if key in self._ended:
            self._find(key)
        limit = self._engines.limit_of(memory_limit)
        engine = self._engines.of(limit)
        session = Session(
            engine, self._blocks, key[0], self._epoch, self._clock(), limit, self._pool
        )
        self._sessions[key] = session
        return session

    def _limits_of(self, session: Session) -> Limits:
        return replace(self._limits, session_memory=session.memory_limit)

    def _find(self, key: Key) -> Session:
        session = self._sessions.get(key)
        if session is not None:
            return session
        if key in self._ended:
            raise make_error(
                self._ended[key],
                "The session was closed, and its tensors are gone; make a new tape.",
                session=key[1].hex(),
            )
        raise make_error(
            "SESSION_NOT_FOUND",
            "The server knows no session of this id. Open it with OpenSession, or with an Execute of "
            "seq 1.",
            session=key[1].hex(),
        )

    def _end(self, key: Key, reason: str) -> None:
        self._sessions.pop(key).close()
        self._ended[key] = reason
        while len(self._ended) > TOMBSTONES_KEPT:
            self._ended.popitem(last=False)

    def _check_epoch(self, epoch: bytes) -> None:
        if epoch and epoch != self._epoch:
            raise make_error(
                "SESSION_LOST",
                "The server was restarted since the session was opened, and its tensors are gone; make a "
                "new tape.",
                expected=epoch.hex(),
                actual=self._epoch.hex(),
            )


def _checked_id(session: bytes) -> bytes:
    if len(session) != SESSION_ID_BYTES:
        raise make_error(
            "MALFORMED_REQUEST",
            f"A session's id is {SESSION_ID_BYTES} random bytes; {len(session)} came.",
            expected=SESSION_ID_BYTES,
            actual=len(session),
        )
    return session
