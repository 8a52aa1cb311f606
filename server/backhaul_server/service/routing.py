"""A front end of workers elsewhere: who is calling was seen to, sessions are theirs. It holds no state.

A call goes to the worker that the epoch in it names; each client has it from the answer that opened its
session. Only a call without an epoch is looked up in the directory, as one that opens a session is.
"""

from __future__ import annotations

import itertools
import secrets
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any, Final, TypeVar

from backhaul_proto import codec
from backhaul_proto.errors import BackhaulError, from_wire, make_error
from backhaul_proto.messages import Array, Limits
from backhaul_proto.units import size
from backhaul_proto.v1 import service_pb2
from backhaul_server.cluster.facts import Away, Cluster, Died, Key, Late, Link, Refusal
from backhaul_server.cluster.packing import Bytes, packed, unpacked
from backhaul_server.service.host import Answered, Parts
from backhaul_server.service.room import room_for_message
from backhaul_server.sessions.pool import Pool
from backhaul_server.sessions.table import SESSION_ID_BYTES
from backhaul_server.sessions.waiting import Waiting
from backhaul_server.workers.call import Call, deadline_exceeded
from backhaul_server.workers.turns import TurnsWorker

T = TypeVar("T")

ANYWHERE: Final = frozenset({"GetServerInfo", "ListOps", "Infer", "ContractPath"})
"""Calls that any worker answers."""
LATE: Final = 0.5
"""Seconds that an answer is waited for beyond the caller's time: the worker keeps to that itself."""
TRIES: Final = 4
"""Workers that a session is to be opened at, one after the other, before the caller is told."""
TRY_AGAIN: Final = 0.5
"""Seconds after which a worker or directory that could not be reached is asked again."""
LOOK: Final = 2.0
"""Seconds for which the list of workers is taken as it was, where it matters little."""
LOOKED_UP: Final = 100_000
"""Sessions of callers without an epoch whose workers are remembered."""


class RoutingHost:
    """Has the workers of a cluster answer calls. Many threads may use it at once.

    Args:
        cluster: the workers.
        limits: what is kept to here: the size of messages.
        memory: bytes that requests may take here while they come.
        clock: seconds, monotonic.
    """

    def __init__(
        self,
        cluster: Cluster,
        limits: Limits,
        memory: int,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limits = limits
        self.cluster = cluster
        self._clock = clock
        self._pool = Pool(memory)
        self._waiting = Waiting(TurnsWorker(clock=clock), self._pool, clock)
        self._numbers = itertools.count(1)
        self._name = secrets.token_hex(8)
        self._looked_up: OrderedDict[Key, bytes] = OrderedDict()
        self._some: tuple[float, list[bytes]] = (float("-inf"), [])
        self._closing = False

    def answer(
        self, method: str, message: Any, arrays: Sequence[Array], principal: str, call: Call
    ) -> Parts:
        """Have a worker answer a call; see `Host`."""
        if (
            method == "Execute"
        ):  # its tensors go beside it; this process has put them where they are
            del message.tensors[:]
            del message.response_buffers[:]
        if method == "ListSessions":
            return self._list_sessions(message, principal, call)
        if method == "RenewLease":
            return self._renew_lease(message, principal, call)

        header = packed(message.SerializeToString())

        def ask(link: Link) -> Parts:
            return self._ask(link, method, header, arrays, principal, call)

        if method in ANYWHERE:
            return self._anywhere(ask)
        return self._at_session(method, message, principal, ask)

    @contextmanager
    def arriving(
        self, request: service_pb2.ExecuteRequest, nbytes: int, principal: str, call: Call
    ) -> Iterator[Answered]:
        """While an Execute's tensors come: memory for them here; see `Host`."""
        if nbytes > self._pool.limit:
            raise make_error(
                "MEMORY_LIMIT_EXCEEDED",
                f"The request's arrays have {size(nbytes)}, and this front end may use "
                f"{size(self._pool.limit)} for what is on its way to the workers. Send less at once.",
                needed=nbytes,
                limit=self._pool.limit,
            )
        header = packed(request.SerializeToString())

        def check(link: Link) -> None:
            self._result(link, call, "check_arrival", header, nbytes, principal)

        self._at_session("Execute", request, principal, check)
        claim = self._waiting.claim(call, principal, nbytes)

        def answer(arrays: Sequence[Array]) -> Parts:
            return self.answer("Execute", request, arrays, principal, call)

        try:
            yield answer
        finally:
            self._pool.release(claim)

    def message(self, nbytes: int, principal: str, call: Call) -> AbstractContextManager[None]:
        """Memory here for a message of so many bytes while its call is answered; see `Host`."""
        return room_for_message(self._pool, self._waiting, nbytes, principal, call)

    def expire(self) -> float:
        """Nothing: workers see to leases. Returns seconds."""
        return 3600.0

    def refuse_sessions(self) -> None:
        """Nothing: other front ends go on, and what is opened here until the end lives on at its worker."""

    def close(self) -> None:
        """Let go of the cluster; the workers and their sessions stay."""
        self.cluster.close()

    # Which worker

    def _at_session(self, method: str, message: Any, principal: str, ask: Callable[[Link], T]) -> T:
        """Ask the worker of the session that a request names."""
        session = message.session
        if len(session.id) != SESSION_ID_BYTES:
            return self._anywhere(ask)  # which says what is wrong with it
        key = (principal, session.id)
        if session.epoch:
            return self._at(session.epoch, ask)
        if method == "OpenSession" or (method == "Execute" and message.seq == 1):
            return self._opening(key, ask)
        epoch = self._looked_up.get(key) or self._directory(partial(self.cluster.find, key))
        if epoch is None:
            raise make_error(
                "SESSION_NOT_FOUND",
                "No worker knows a session of this id. Open it with OpenSession, or with an Execute of "
                "seq 1.",
                session=session.id.hex(),
            )
        self._looked_up[key] = epoch
        while len(self._looked_up) > LOOKED_UP:
            self._looked_up.popitem(last=False)
        return self._at(epoch, ask)

    def _opening(self, key: Key, ask: Callable[[Link], T]) -> T:
        """Ask the worker where a session is to be opened: another one when that dies, or takes no more.

        What a worker that is dead had run of the first request is gone with it, so it can be run again.
        """
        dead, failed = b"", None
        for _ in range(TRIES):
            epoch = self._directory(partial(self.cluster.place, key, dead))
            if epoch is None:
                break
            try:
                return self._asked(epoch, ask)
            except Died as error:
                dead, failed = epoch, self._lost(epoch, str(error))
            except BackhaulError as error:
                if error.reason != "DRAINING" or self._closing:
                    raise
                dead, failed = epoch, error
        raise failed or _no_worker()

    def _at(self, epoch: bytes, ask: Callable[[Link], T]) -> T:
        try:
            return self._asked(epoch, ask)
        except Died as error:
            raise self._lost(epoch, str(error)) from None

    def _asked(self, epoch: bytes, ask: Callable[[Link], T]) -> T:
        try:
            link = self.cluster.link(epoch)
            if link is None:
                raise Died("")
            return ask(link)
        except Away as error:
            raise _away(str(error)) from None

    def _anywhere(self, ask: Callable[[Link], T]) -> T:
        """Ask some worker, one after the other."""
        until, epochs = self._some
        if self._clock() >= until or not epochs:
            epochs = [
                each.facts.epoch for each in self._directory(lambda: list(self.cluster.workers()))
            ]
            self._some = (self._clock() + LOOK, epochs)
        first = next(self._numbers)
        for number in range(len(epochs)):
            try:
                return self._asked(epochs[(first + number) % len(epochs)], ask)
            except Died:
                continue
        self._some = (float("-inf"), [])
        raise _no_worker()

    def _directory(self, ask: Callable[[], T]) -> T:
        try:
            return ask()
        except Away as error:
            raise _away(str(error)) from None

    def _lost(self, epoch: bytes, cause: str) -> BackhaulError:
        """The error of a session whose worker is no more."""
        try:
            obituary = self.cluster.obituary(epoch)
        except Away:
            obituary = None
        details: dict[str, str] = {"expected": epoch.hex()}
        where = ""
        if obituary is not None:
            cause = cause or obituary.cause
            details |= {"worker": obituary.facts.name, "node": obituary.facts.node}
            where = f" {obituary.facts.name} on node {obituary.facts.node}"
        because = f" ({cause})" if cause else ""
        return make_error(
            "SESSION_LOST",
            f"The session's worker{where} is no more{because}, and its tensors are gone with it. Make a new "
            "tape; with connect(recover=True) a client does so itself.",
            **details,
        )

    # Asking

    def _ask(
        self,
        link: Link,
        method: str,
        header: Bytes,
        arrays: Sequence[Array],
        principal: str,
        call: Call,
    ) -> Parts:
        found, results = self._result(link, call, "answer", method, header, arrays, principal)
        return unpacked(found), results

    def _result(self, link: Link, call: Call, method: str, *args: Any) -> Any:
        """What a worker answers in the caller's time."""
        call.check()
        number = f"{self._name}-{next(self._numbers)}"
        remaining = call.remaining
        pending = link.ask(method, number, *args, remaining)
        call.when_cancelled(lambda: _cancel(link, number))
        try:
            reply = pending.result(None if remaining is None else remaining + LATE)
        except Late:
            _cancel(link, number)
            call.check()
            raise deadline_exceeded() from None
        finally:
            call.when_cancelled(_nothing)  # the end of every call is told as a cancellation too
        if isinstance(reply, Refusal):
            if reply.reason == "CANCELLED":
                call.check()  # which knows who wanted it
            raise from_wire("INTERNAL", reply.reason, reply.message, reply.details)
        return reply

    # Calls of many sessions

    def _list_sessions(
        self, request: service_pb2.ListSessionsRequest, principal: str, call: Call
    ) -> Parts:
        header = request.SerializeToString()
        opened: list[tuple[float, service_pb2.SessionSummary]] = []
        for state in self._directory(self.cluster.workers):
            facts = state.facts
            asked = time.monotonic()
            try:
                data, _ = self._asked(
                    facts.epoch,
                    lambda link: self._ask(link, "ListSessions", header, [], principal, call),
                )
            except Died:
                continue
            # Ages are of the moment at which each worker answered, and they answer one after the other.
            answered = (asked + time.monotonic()) / 2
            for each in codec.parse(service_pb2.ListSessionsResponse, data).sessions:
                each.worker, each.node = facts.name, facts.node
                opened.append((answered - each.age_seconds, each))
        opened.sort(key=lambda pair: pair[0])
        found = [each for _, each in opened]
        return service_pb2.ListSessionsResponse(sessions=found).SerializeToString(), []

    def _renew_lease(
        self, request: service_pb2.RenewLeaseRequest, principal: str, call: Call
    ) -> Parts:
        def renew(epoch: bytes, part: service_pb2.RenewLeaseRequest) -> Parts:
            header = packed(part.SerializeToString())
            return self._at(
                epoch, lambda link: self._ask(link, "RenewLease", header, [], principal, call)
            )

        if request.epoch:
            return renew(request.epoch, request)
        response = service_pb2.RenewLeaseResponse()
        parts: dict[bytes, service_pb2.RenewLeaseRequest] = {}
        for each in request.sessions:
            key = (principal, each.id)
            epoch = self._directory(partial(self.cluster.find, key))
            if epoch is None:
                response.ended.add(id=each.id, reason="SESSION_NOT_FOUND")
            else:
                part = parts.setdefault(epoch, service_pb2.RenewLeaseRequest())
                part.sessions.add().CopyFrom(each)
        for epoch, part in parts.items():
            try:
                data, _ = renew(epoch, part)
            except BackhaulError as error:
                if error.reason != "SESSION_LOST":
                    raise
                for each in part.sessions:
                    response.ended.add(id=each.id, reason=error.reason)
            else:
                response.MergeFrom(codec.parse(service_pb2.RenewLeaseResponse, data))
        return response.SerializeToString(), []


def _cancel(link: Link, number: str) -> None:
    try:
        link.ask("cancel", number)
    except (Died, Away):
        return  # then it computes nothing, or what it does is for nobody


def _nothing() -> None:
    """Nobody is told."""


def _away(who: str) -> BackhaulError:
    return make_error(
        "UNAVAILABLE",
        f"{who} cannot be reached at the moment: its node may have failed, or the network. If it has, the "
        "cluster will notice soon. Ask again.",
        retry_after=TRY_AGAIN,
    )


def _no_worker() -> BackhaulError:
    return make_error(
        "UNAVAILABLE",
        "The cluster has no worker that takes sessions at the moment: they are being started, or there is no "
        "room for one. Ask again; `backhaul workers` lists them, and Ray's own `ray status` says what "
        "they wait for.",
        retry_after=TRY_AGAIN,
    )
