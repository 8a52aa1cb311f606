"""All sessions of a worker, by owner and id, and what became of those that ended."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import Answer, Execute, Limits, SessionInfo, SessionSummary, Sight
from backhaul_proto.units import size
from backhaul_server.sessions.blocks import BlockCache, CacheReading, Decode
from backhaul_server.sessions.claims import Claim
from backhaul_server.sessions.devices import Devices
from backhaul_server.sessions.lease import Lease
from backhaul_server.sessions.session import Interrupt, Session
from backhaul_server.sessions.tombstones import Key, Tombstone, Tombstones
from backhaul_server.sessions.transit import Transit
from backhaul_server.tally import Work
from backhaul_server.workers.call import draining

SESSION_ID_BYTES: Final = 16
LONGEST_PAUSE: Final = 5.0
"""Seconds between looks at leases, at most: so late a session may end."""
SHORTEST_PAUSE: Final = 0.1


class SessionTable:
    """The sessions of one worker. Calls for different sessions may come from different threads.

    Args:
        devices: what computes, and what sessions may use of each.
        decode: a block's bytes to a Block.
        limits: told to those who open a session, with its own limit of memory and its own lease.
        clock: seconds, monotonic.
        work: counts what is done.
        epoch: names this life of the worker; None: a random one.
    """

    def __init__(
        self,
        devices: Devices,
        decode: Decode,
        limits: Limits,
        clock: Callable[[], float],
        work: Work | None = None,
        epoch: bytes | None = None,
    ) -> None:
        self._devices = devices
        self._work = work or Work()
        self._blocks = BlockCache(decode)
        self._limits = limits
        self._clock = clock
        self._epoch = epoch or secrets.token_bytes(8)
        self._sessions: dict[Key, Session] = {}
        self._ended = Tombstones(clock, limits.lease_seconds)
        self._draining = False

    def __len__(self) -> int:
        return len(self._sessions)

    def read_blocks(self) -> CacheReading:
        """What is kept of blocks."""
        return self._blocks.read()

    def open(
        self,
        principal: str,
        session: bytes,
        memory_limit: int = 0,
        lease_seconds: float = 0.0,
        device: str = "",
    ) -> tuple[bytes, Limits]:
        """Open a session: its epoch, and the limits. Harmless to repeat while nothing was run in it.

        A repetition changes no limit.

        Raises:
            InvalidArgument: SESSION_EXISTS, UNKNOWN_DEVICE, or MALFORMED_REQUEST for an id that is none.
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
            found = self._open(key, memory_limit, lease_seconds, device)
        found.lease.renew()
        return self._epoch, self._limits_of(found)

    def execute(
        self,
        principal: str,
        request: Execute,
        interrupt: Interrupt,
        claim: Claim | None = None,
    ) -> Answer:
        """Run a request; one with seq 1 opens the session when there is none. See `Session.execute`."""
        key = (principal, _checked_id(request.session))
        self.check_epoch(request.epoch)
        session = self._sessions.get(key)
        opens = session is None and request.seq == 1
        if session is None:
            session = self._find(key) if not opens else self._opened_by(key, request)
        lease = session.lease
        began = lease.hold()
        try:
            answer = session.execute(request, interrupt, claim)
        except BaseException:
            if opens:
                self._sessions.pop(key).close()  # what was refused leaves nothing behind
            raise
        finally:
            session.busy_seconds += lease.let_go() - began
        if request.seq != 1:
            return answer
        return replace(answer, limits=self._limits_of(session))

    def expect(self, principal: str, request: Execute, nbytes: int) -> None:
        """A request is about to arrive; it has no tensors yet.

        What would refuse it whatever they are does so here.

        Raises:
            MemoryLimitExceeded: the session may not use so much, whatever it holds.
            SessionError, InvalidArgument: as `execute`; BLOCK_UNKNOWN too.
        """
        key = (principal, _checked_id(request.session))
        self.check_epoch(request.epoch)
        session = self._sessions.get(key)
        if session is None and (request.seq != 1 or key in self._ended):
            self._find(key)
        if session is None and self._draining:
            raise draining()
        limit = (
            self._devices.find(request.device).engines.limit_of(request.memory_limit)
            if session is None
            else session.memory_limit
        )
        limit = min(limit, self._devices.host.pool.of_one_principal)  # they come by its memory
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

    def close(self, principal: str, session: bytes, epoch: bytes = b"") -> None:
        """Close a session and free all that it holds. Closing a closed one is not an error.

        Raises:
            SessionNotFound: there never was one of this id.
            SessionLost: the epoch is another worker's.
        """
        key = (principal, _checked_id(session))
        self.check_epoch(epoch)
        if key not in self._ended:
            self._find(key)
            self._end(key, "SESSION_CLOSED")

    def release(self, principal: str, session: bytes, epoch: bytes, nodes: Sequence[int]) -> None:
        """Let go of nodes of a session now."""
        self.find(principal, session, epoch).release(nodes)

    def renew(self, principal: str, session: bytes) -> str | None:
        """Renew a lease. None, or why the session is not there any more: the reason of `find`'s error."""
        key = (principal, _checked_id(session))
        found = self._sessions.get(key)
        if found is not None:
            return None if found.lease.renew() else "SESSION_EXPIRED"
        ended = self._ended.get(key)
        return "SESSION_NOT_FOUND" if ended is None else ended.reason

    def let_go(self, principal: str, session: bytes, nodes: Sequence[int], answered: int) -> None:
        """Let go of nodes of a session now, and of what its last request released if that is answered."""
        found = self._sessions.get((principal, session))
        if found is not None:
            found.let_go(nodes, answered)

    def lease_of(self, principal: str, session: bytes) -> Lease | None:
        """The lease of a session; None when there is no such session."""
        found = self._sessions.get((principal, session))
        return None if found is None else found.lease

    def check_epoch(self, epoch: bytes) -> None:
        """Check the epoch that a client knows; an empty one is not checked.

        Raises:
            SessionLost: it is another worker's.
        """
        if epoch and epoch != self._epoch:
            raise make_error(
                "SESSION_LOST",
                "The server was restarted since the session was opened, and its tensors are gone; make a "
                "new tape.",
                expected=epoch.hex(),
                actual=self._epoch.hex(),
            )

    def info(self, principal: str, session: bytes, epoch: bytes) -> SessionInfo:
        """What a session holds."""
        found = self.find(principal, session, epoch)
        return found.info(self._clock(), found.lease.left)

    def ids(self, principal: str) -> list[bytes]:
        """The sessions of an owner, in the order in which they were opened."""
        return [session for owner, session in list(self._sessions) if owner == principal]

    def summary(self, principal: str, session: bytes, *, exact: bool) -> SessionSummary | None:
        """What is told of a session in a list; None when it has ended. Its lease is not renewed.

        Args:
            principal: its owner.
            session: its id.
            exact: count what it holds. Only where no request of it is being run.
        """
        found = self._sessions.get((principal, session))
        if found is None:
            return None
        now, left = self._clock(), found.lease.left
        info = found.info(now, left) if exact else found.rough_info(now, left)
        return SessionSummary(digest_of(session), info, found.lease.in_use)

    def look(
        self, principal: str, digest: bytes, at_most: int, interrupt: Interrupt
    ) -> Sight | None:
        """The nodes of a session that is named as in a list; None when it has ended.

        Its lease is not renewed: to look is not to use it.

        Args:
            principal: its owner.
            digest: of its id.
            at_most: so many nodes, those made last.
            interrupt: stops it.
        """
        session = self.named(principal, digest)
        found = None if session is None else self._sessions.get((principal, session))
        return None if found is None else found.nodes(at_most, interrupt)

    def named(self, principal: str, digest: bytes) -> bytes | None:
        """The id of an owner's session that has this digest; None when it has ended."""
        return next((each for each in self.ids(principal) if digest_of(each) == digest), None)

    def is_busy(self, principal: str, session: bytes) -> bool:
        """Whether a request of the session is being run."""
        found = self._sessions.get((principal, session))
        return found is not None and found.lease.in_use

    def run_out(self) -> list[Key]:
        """The sessions whose leases ran out; to be ended by `expire`."""
        return [key for key, session in list(self._sessions.items()) if session.lease.has_run_out]

    def expire(self, key: Key) -> None:
        """End a session if its lease has run out, and nothing was called meanwhile."""
        session = self._sessions.get(key)
        if session is not None and session.lease.end():
            self._end(key, "SESSION_EXPIRED")

    def pause(self) -> float:
        """Seconds until leases are to be looked at again. What has ended long ago is forgotten."""
        self._ended.forget_old()
        leases = [each.lease.seconds for each in list(self._sessions.values())]
        shortest = min(filter(None, [self._limits.lease_seconds, *leases]), default=LONGEST_PAUSE)
        return min(LONGEST_PAUSE, max(SHORTEST_PAUSE, shortest / 4))

    def known(self) -> list[Key]:
        """The sessions that are open, and those that are known to have ended."""
        return [*list(self._sessions), *self._ended.keys()]

    def knows(self, key: Key) -> bool:
        """Whether a session is open, or is known to have ended."""
        return key in self._sessions or key in self._ended

    def find(self, principal: str, session: bytes, epoch: bytes) -> Session:
        """The open session of this owner and id. Its lease is renewed.

        Raises:
            SessionClosed, SessionExpired, SessionNotFound, SessionLost.
        """
        key = (principal, _checked_id(session))
        self.check_epoch(epoch)
        found = self._find(key)
        found.lease.renew()
        return found

    def close_all(self) -> None:
        """Close every session."""
        for key in list(self._sessions):
            self._end(key, "SESSION_CLOSED")

    def refuse_new(self) -> None:
        """Open no more sessions: the server is about to end."""
        self._draining = True

    def _opened_by(self, key: Key, request: Execute) -> Session:
        return self._open(key, request.memory_limit, request.lease_seconds, request.device)

    def _open(self, key: Key, memory_limit: int, lease_seconds: float, device: str) -> Session:
        if self._draining:
            raise draining()
        if key in self._ended:
            self._find(key)
        place = self._devices.find(device)
        limit = place.engines.limit_of(memory_limit)
        engine = place.engines.of(limit)
        lease = Lease(self._lease_of(lease_seconds), self._clock)
        host = self._devices.host
        transit = None if place is host else Transit(host.pool, key[0])
        try:
            session = Session(
                engine,
                self._blocks,
                key[0],
                self._epoch,
                self._clock(),
                limit,
                place.pool,
                lease,
                self._work,
                place.name,
                transit,
            )
        except BaseException:
            if transit is not None:
                transit.close()
            raise
        self._sessions[key] = session
        return session

    def _lease_of(self, asked: float) -> float:
        """Seconds of the lease of a session that asks for so many."""
        allowed = self._limits.lease_seconds
        if not asked >= 0 or asked == float("inf"):
            raise make_error(
                "INVALID_VALUE",
                f"A lease is a finite number of seconds above 0, or 0 for the server's own; {asked} was "
                "asked.",
                actual=asked,
            )
        return min(asked or allowed, allowed or asked)

    def _limits_of(self, session: Session) -> Limits:
        return replace(
            self._limits,
            session_memory=session.memory_limit,
            lease_seconds=session.lease.seconds,
        )

    def _find(self, key: Key) -> Session:
        session = self._sessions.get(key)
        if session is not None:
            return session
        ended = self._ended.get(key)
        if ended is not None:
            raise _has_ended(ended, key[1])
        raise make_error(
            "SESSION_NOT_FOUND",
            "The server knows no session of this id. Open it with OpenSession, or with an Execute of "
            "seq 1.",
            session=key[1].hex(),
        )

    def _end(self, key: Key, reason: str) -> None:
        session = self._sessions[key]
        # First: other threads find one or the other.
        self._ended.add(key, reason, session.lease.seconds)
        del self._sessions[key]
        session.close()


def digest_of(session: bytes) -> bytes:
    """What a session is told from others by, where its id is not to be seen."""
    return hashlib.sha256(session).digest()[:8]


def _has_ended(ended: Tombstone, session: bytes) -> BackhaulError:
    if ended.reason == "SESSION_EXPIRED":
        return make_error(
            ended.reason,
            f"Nothing was called for the session for {ended.lease:g} s, its lease, and its tensors are gone. "
            "Make a new tape. A client renews the leases of its tapes while it lives and reaches the server; "
            "to be away for longer, ask for a longer lease (bh.Tape(lease=...), or the server's --lease).",
            session=session.hex(),
            lease=ended.lease,
        )
    return make_error(
        ended.reason,
        "The session was closed, and its tensors are gone; make a new tape.",
        session=session.hex(),
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
