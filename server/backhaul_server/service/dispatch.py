"""Every call of the service as a function of its message: gRPC and the embedded transport both end here."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, Final

import numpy as np
from google.protobuf.message import Message

from backhaul_proto import codec, tensors
from backhaul_proto._version import __version__
from backhaul_proto.bounds import MAX_NAMED, MAX_OPERANDS, MAX_RENEWALS, check_count
from backhaul_proto.catalog import ops as catalog
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.einsum import resolve
from backhaul_proto.errors import BackhaulError, DeadlineExceeded, from_wire, make_error
from backhaul_proto.messages import (
    PROTOCOL,
    Answer,
    Array,
    ContractionCost,
    DeviceInfo,
    Execute,
    Limits,
    SessionInfo,
    SessionSummary,
    Sight,
)
from backhaul_proto.v1 import service_pb2
from backhaul_server.accelerators import Accelerator, device_of, host_model, open_accelerator
from backhaul_server.device_names import HOST
from backhaul_server.engine.einsum.explain import explain
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.interruption import interruptible
from backhaul_server.limits import usable_memory
from backhaul_server.plugins import load_plugins
from backhaul_server.service import plain
from backhaul_server.service.host import Answered, Parts, request_type
from backhaul_server.service.incidents import guarded
from backhaul_server.service.op_list import ops_digest, ops_message
from backhaul_server.service.room import room_for_message
from backhaul_server.sessions.accounts import Quotas
from backhaul_server.sessions.blocks import CacheReading
from backhaul_server.sessions.claims import Claim
from backhaul_server.sessions.devices import Device, Devices
from backhaul_server.sessions.engines import Engines
from backhaul_server.sessions.pool import Guard, Pool
from backhaul_server.sessions.table import SessionTable
from backhaul_server.sessions.tombstones import Key
from backhaul_server.sessions.waiting import Waiting
from backhaul_server.tally import Work
from backhaul_server.workers.call import Call
from backhaul_server.workers.thread import ThreadWorker
from backhaul_server.workers.turns import TurnsWorker
from backhaul_server.workers.worker import Interrupt, Worker

DEFAULT_MAX_MESSAGE_BYTES: Final = 1 << 30
_PATIENCE: Final = 0.5
"""Seconds that the server waits for a session that is busy, where that is not what it was asked."""

Handler = Callable[["Dispatcher", Any, Sequence[Array], str, Call], Parts]


class Dispatcher:
    """The service's calls over one worker and its sessions. Many threads may use it at once.

    Args:
        engine: what computes.
        worker: where it computes; closed with it. None: the callers' threads, in turns.
        max_message_bytes: largest message either way.
        session_memory: bytes that a session may use; None: half of what the process may.
        memory: bytes that all sessions may use together; None: four fifths of what the process may.
        lease: seconds after its last call at which a session ends, unless it asked for less; 0: never.
        quotas: what one principal may have of it, and how many sessions there may be.
        guard: knows when the process has become too large; None: it is not looked at.
        freed: told of bytes that were freed at once, when sessions end or release.
        accelerators: devices beside the host.
        device: the one of a session that asks for none; empty: the host.
        more: opens a device that is asked for and not there; None: there are no more.
        clock: seconds, monotonic.
        epoch: names this one among others, and its sessions' worker to clients; None: a random one.

    Attributes:
        engine: what computes.
        limits: told to clients.
        pool: the host's memory.
        devices: where sessions compute, the default first.
        work: counts what they do.
    """

    def __init__(
        self,
        engine: Engine,
        worker: Worker | None = None,
        *,
        max_message_bytes: int = DEFAULT_MAX_MESSAGE_BYTES,
        session_memory: int | None = None,
        memory: int | None = None,
        lease: float = 0.0,
        quotas: Quotas | None = None,
        guard: Guard | None = None,
        freed: Callable[[int], None] | None = None,
        accelerators: Sequence[Accelerator] = (),
        device: str = "",
        more: Callable[[str], Accelerator] | None = None,
        clock: Callable[[], float] = time.monotonic,
        epoch: bytes | None = None,
    ) -> None:
        self.engine = engine
        total = usable_memory() * 4 // 5 if memory is None else memory
        of_one = usable_memory() // 2 if session_memory is None else session_memory
        self.pool = Pool(total, quotas, guard, freed)
        of_one = min(of_one, self.pool.of_one_principal)
        self.limits = Limits(max_message_bytes, of_one, lease)
        host = Device(HOST, host_model(), Engines(engine, of_one), self.pool)

        def opened(each: Accelerator) -> Device:
            return device_of(each, session_memory, self.pool.quotas)

        self.devices = Devices(
            host,
            [opened(each) for each in accelerators],
            device,
            None if more is None else lambda name: opened(more(name)),
        )
        if self.devices.default is not host:
            self.limits = replace(self.limits, session_memory=self.devices.default.engines.limit)
        self._worker: Worker = worker or TurnsWorker(clock=clock)
        self._waiting = Waiting(self._worker, self.pool, clock)
        self.work = Work()
        self._sessions = SessionTable(
            self.devices, codec.read_block, self.limits, clock, self.work, epoch
        )

    @classmethod
    def local(cls) -> Dispatcher:
        """One for the embedded transport: in this process, with the ops of its plugins.

        It computes on NumPy, and on GPUs for sessions that ask for them.

        Raises:
            InvalidArgument: PLUGIN_FAILED.
        """
        load_plugins()
        return cls(Engine(), ThreadWorker(), more=open_accelerator)

    @property
    def session_count(self) -> int:
        """How many sessions are open."""
        return len(self._sessions)

    def read_blocks(self) -> CacheReading:
        """What is kept of blocks."""
        return self._sessions.read_blocks()

    def call(
        self,
        method: str,
        header: bytes,
        arrays: Sequence[Array],
        *,
        principal: str = "",
        call: Call | None = None,
    ) -> Parts:
        """Answer a call whose tensors are handed over beside its header.

        Args:
            method: name of the call, such as ``"Execute"``.
            header: the request's message without its tensors.
            arrays: the tensors, which must not change from now on.
            principal: who asks.
            call: how long the caller waits, and whether still; None: as long as it takes.

        Returns:
            The response's message without its tensors, and the tensors; they may be the engine's own memory.

        Raises:
            BackhaulError: whatever went wrong, typed.
        """
        waiting = call or Call()

        def answer() -> Parts:
            message = codec.parse(request_type(method), header)
            return self.answer(method, message, arrays, principal, waiting)

        return guarded(method, answer)

    def answer(
        self, method: str, message: Message, arrays: Sequence[Array], principal: str, call: Call
    ) -> Parts:
        """Answer a parsed request; to be called within `guarded`."""
        return HANDLERS[method](self, message, arrays, principal, call)

    def check_header(self, header: bytes, nbytes: int, principal: str, call: Call) -> None:
        """As `check_arrival`, with the message's bytes, and guarded.

        Raises:
            BackhaulError: why it would be refused.
        """

        def check() -> None:
            message: Any = codec.parse(request_type("Execute"), header)
            self.check_arrival(message, nbytes, principal, call)

        guarded("Execute", check)

    def check_arrival(
        self, request: service_pb2.ExecuteRequest, nbytes: int, principal: str, call: Call
    ) -> None:
        """Refuse an Execute now if it would be refused whatever its tensors are, of so many bytes.

        To be called within `guarded`.
        """
        known = codec.read_execute(request, [np.empty(0)] * len(request.tensors))
        self._worker.run(
            call,
            (principal, known.session),
            lambda _: self._sessions.expect(principal, known, nbytes),
        )

    @contextmanager
    def arriving(
        self, request: service_pb2.ExecuteRequest, nbytes: int, principal: str, call: Call
    ) -> Iterator[Answered]:
        """While an Execute's tensors come: memory for them, and its session does not end. See `Host`."""
        with self._sessions.lease_of(principal, request.session.id) or nullcontext():
            self.check_arrival(request, nbytes, principal, call)
            claim = self._waiting.claim(call, principal, nbytes)

            def answer(arrays: Sequence[Array]) -> Parts:
                known = codec.read_execute(request, arrays)
                return codec.write_answer(self._run(known, principal, call, claim))

            try:
                yield answer
            finally:
                self.pool.release(claim)

    def message(self, nbytes: int, principal: str, call: Call) -> AbstractContextManager[None]:
        """Memory for a message of so many bytes while its call is answered. See `Host`."""
        return room_for_message(self.pool, self._waiting, nbytes, principal, call)

    def expire(self) -> float:
        """End the sessions whose leases ran out. Returns the seconds after which to call it again."""
        for key in self._sessions.run_out():
            # A call for it that is waiting for its turn goes first, and renews the lease.
            with contextlib.suppress(BackhaulError):
                self._worker.run(Call(_PATIENCE), key, partial(self._expire, key))
        return self._sessions.pause()

    def _expire(self, key: Key, _: Interrupt) -> None:
        self._sessions.expire(key)

    def known_sessions(self) -> list[Key]:
        """The sessions that are open, and those that are known to have ended."""
        return self._sessions.known()

    def knows(self, key: Key) -> bool:
        """Whether a session is open, or is known to have ended."""
        return self._sessions.knows(key)

    def refuse_sessions(self) -> None:
        """Open no more sessions; those that are open are answered."""
        self._sessions.refuse_new()

    def close(self) -> None:
        """Free all sessions, and stop the worker after what it is running."""
        self._worker.close()
        self._sessions.close_all()

    # Handlers

    def _server_info(self, *_: Any) -> Parts:
        return _header(
            service_pb2.GetServerInfoResponse(
                version=__version__,
                protocol=PROTOCOL,
                backend=self.devices.default.engines.backend,
                ops_digest=ops_digest(),
                limits=codec.limits_message(self.limits),
                devices=map(_device_message, [each.info() for each in self.devices]),
            )
        )

    def _list_ops(self, *_: Any) -> Parts:
        return _header(ops_message())

    def _infer(
        self, request: service_pb2.InferRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        given = catalog.by_name(codec.read_attributes(request.attributes), request.op)
        avals = _avals(request.operands)
        prepared = self._prepared(request.op, given, tuple(avals), call)
        return _header(
            service_pb2.InferResponse(
                results=map(tensors.type_message, prepared.results),
                several=prepared.several,
                constant=not catalog.get(request.op).differentiable,
            )
        )

    def _contract_path(
        self, request: service_pb2.ContractPathRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        entry = catalog.get("einsum")
        given = catalog.by_name(codec.read_attributes(request.attributes), entry.name)
        avals = _avals(request.operands)
        engines = self.devices.find(request.device).engines
        room = engines.of(engines.limit_of(request.memory_limit)).room

        def explained(interrupt: Interrupt) -> tuple[ContractionCost, Aval]:
            attributes = catalog.bind(entry, given)
            (result,) = catalog.infer(entry, attributes, tuple(avals))
            resolved = resolve(tuple(each.shape for each in avals), **dict(attributes))
            dtypes = tuple(each.dtype for each in avals)
            with interruptible(interrupt):
                return explain(resolved, dtypes, result.dtype, room), result

        cost, result = self._worker.run(call, None, explained)
        return _header(codec.cost_message(cost, result))

    def _open_session(
        self, request: service_pb2.OpenSessionRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        session, options = request.session.id, request.options
        epoch, limits = self._worker.run(
            call,
            (principal, session),
            lambda _: self._sessions.open(
                principal, session, options.memory_limit, options.lease_seconds, options.device
            ),
        )
        return _header(
            service_pb2.OpenSessionResponse(epoch=epoch, limits=codec.limits_message(limits))
        )

    def _close_session(
        self, request: service_pb2.CloseSessionRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        session = request.session
        self._worker.run(
            call,
            (principal, session.id),
            lambda _: self._sessions.close(principal, session.id, session.epoch),
        )
        return _header(service_pb2.CloseSessionResponse())

    def _get_session(
        self, request: service_pb2.GetSessionRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        session = request.session
        info = self._worker.run(
            call,
            (principal, session.id),
            lambda _: self._sessions.info(principal, session.id, session.epoch),
        )
        return _header(service_pb2.GetSessionResponse(**_told(info)))

    def _renew_lease(
        self, request: service_pb2.RenewLeaseRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        if len(request.sessions) > MAX_RENEWALS:
            raise make_error(
                "MALFORMED_REQUEST",
                f"RenewLease takes at most {MAX_RENEWALS} sessions at once; {len(request.sessions)} came.",
                expected=MAX_RENEWALS,
                actual=len(request.sessions),
            )
        self._sessions.check_epoch(request.epoch)
        response = service_pb2.RenewLeaseResponse()
        releasing = []
        for each in request.sessions:
            reason = self._sessions.renew(principal, each.id)
            if reason is not None:
                response.ended.add(id=each.id, reason=reason)
            elif each.release or each.answered:
                releasing.append(each)
        for each in releasing:  # after all are renewed: it may wait for a session that is busy
            self._let_go(principal, each, call)
        return _header(response)

    def _let_go(self, principal: str, each: service_pb2.Renewal, call: Call) -> None:
        session, nodes, answered = each.id, list(each.release), each.answered
        self._worker.run(
            call,
            (principal, session),
            lambda _: self._sessions.let_go(principal, session, nodes, answered),
        )

    def _list_sessions(
        self, request: service_pb2.ListSessionsRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        response = service_pb2.ListSessionsResponse()
        for found in self.summaries(principal):
            response.sessions.add(**_told(found.info), digest=found.digest, busy=found.busy)
        return _header(response)

    def summaries(self, principal: str) -> Iterator[SessionSummary]:
        """A principal's sessions, in the order in which they were opened."""
        for session in self._sessions.ids(principal):
            found = self._summary(principal, session)
            if found is not None:
                yield found

    def look(self, principal: str, digest: bytes, at_most: int, call: Call) -> Sight | None:
        """The nodes of a principal's session, those made last; None when there is none of this digest.

        Raises:
            DeadlineExceeded: it computes, or is large.
        """
        session = self._sessions.named(principal, digest)
        if session is None:
            return None

        return self._worker.run(
            call,
            (principal, session),
            lambda interrupt: self._sessions.look(principal, digest, at_most, interrupt),
        )

    def _summary(self, principal: str, session: bytes) -> SessionSummary | None:
        summary = self._sessions.summary
        if not self._sessions.is_busy(principal, session):
            # A request that comes first may take long: then what is known is enough.
            with contextlib.suppress(DeadlineExceeded):
                return self._worker.run(
                    Call(_PATIENCE),
                    (principal, session),
                    lambda _: summary(principal, session, exact=True),
                )
        return summary(principal, session, exact=False)

    def _release(
        self, request: service_pb2.ReleaseRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        check_count("nodes in a list", len(request.nodes), MAX_NAMED)
        session, nodes = request.session, list(request.nodes)
        self._worker.run(
            call,
            (principal, session.id),
            lambda _: self._sessions.release(principal, session.id, session.epoch, nodes),
        )
        return _header(service_pb2.ReleaseResponse())

    def _leaf(self, request: service_pb2.LeafRequest, _: Any, principal: str, call: Call) -> Parts:
        infos = self._record(plain.leaf(request), principal, call, count=1)
        return _header(service_pb2.LeafResponse(node=infos[0]))

    def _einsum(
        self, request: service_pb2.EinsumRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        infos = self._record(plain.einsum(request), principal, call, count=1)
        return _header(service_pb2.EinsumResponse(node=infos[0]))

    def _apply(
        self, request: service_pb2.ApplyRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        check_count("operands of a step", len(request.operands), MAX_OPERANDS)
        count = self._result_count(request, principal, call)
        infos = self._record(plain.apply(request, count), principal, call, count=count)
        return _header(service_pb2.ApplyResponse(nodes=infos))

    def _get_value(
        self, request: service_pb2.GetValueRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        answer = self._asked(plain.get_value(request), principal, call)
        response = service_pb2.GetValueResponse()
        tensors.fill(response.value, answer.values[0])
        return _header(response)

    def _pullback(
        self, request: service_pb2.PullbackRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        answer = self._asked(plain.pullback(request), principal, call)
        return _header(plain.pullback_response(answer))

    def _hvp(self, request: service_pb2.HvpRequest, _: Any, principal: str, call: Call) -> Parts:
        return _header(plain.hvp_response(self._asked(plain.hvp(request), principal, call)))

    def _pushforward(
        self, request: service_pb2.PushforwardRequest, _: Any, principal: str, call: Call
    ) -> Parts:
        answer = self._asked(plain.pushforward(request), principal, call)
        return _header(plain.pushforward_response(answer))

    def _execute(
        self,
        request: service_pb2.ExecuteRequest,
        arrays: Sequence[Array],
        principal: str,
        call: Call,
    ) -> Parts:
        return codec.write_answer(self._run(codec.read_execute(request, arrays), principal, call))

    # What they share

    def _run(
        self, request: Execute, principal: str, call: Call, claim: Claim | None = None
    ) -> Answer:
        return self._waiting.run(
            call,
            principal,
            request.session,
            lambda interrupt, own: self._sessions.execute(principal, request, interrupt, own),
            claim,
        )

    def _asked(self, request: Execute, principal: str, call: Call) -> Answer:
        """The answer of a plain question, a failed node's error raised."""
        answer = self._run(request, principal, call)
        failed = answer.question_failure
        if failed is not None:
            raise from_wire("INTERNAL", failed.reason, failed.message, failed.details)
        return answer

    def _record(self, request: Execute, principal: str, call: Call, *, count: int) -> list[Any]:
        """Run a block of one step: what is known of its results; its error raised if it fails."""

        def recorded(interrupt: Interrupt, claim: Claim | None) -> list[Any]:
            answer = self._sessions.execute(principal, request, interrupt, claim)
            session = self._sessions.find(principal, request.session, request.epoch)
            names = range(answer.base_id, answer.base_id + count)
            if answer.failures:
                session.release(names)
                failed = answer.failures[0]
                raise from_wire("INTERNAL", failed.reason, failed.message, failed.details)
            return [
                _node_info(each, session.describe(each), session.reaches_tangent(each))
                for each in names
            ]

        return self._waiting.run(call, principal, request.session, recorded)

    def _result_count(self, request: service_pb2.ApplyRequest, principal: str, call: Call) -> int:
        given = catalog.by_name(codec.read_attributes(request.attributes), request.op)

        def avals(_: Interrupt) -> tuple[Aval, ...]:
            session = self._sessions.find(principal, request.session.id, request.session.epoch)
            return tuple(session.describe(each).aval for each in request.operands)

        kinds = self._worker.run(call, (principal, request.session.id), avals)
        return len(self._prepared(request.op, given, kinds, call).results)

    def _prepared(
        self, op: str, given: Mapping[str, Any], avals: tuple[Aval, ...], call: Call
    ) -> PreparedCall:
        """The call of an op, in turn with all else that computes: it may search for long."""

        def prepared(interrupt: Interrupt) -> PreparedCall:
            with interruptible(interrupt):
                return self.engine.prepare(op, given, avals)

        return self._worker.run(call, None, prepared)


HANDLERS: Final[dict[str, Handler]] = {
    "GetServerInfo": Dispatcher._server_info,
    "OpenSession": Dispatcher._open_session,
    "CloseSession": Dispatcher._close_session,
    "GetSession": Dispatcher._get_session,
    "RenewLease": Dispatcher._renew_lease,
    "ListSessions": Dispatcher._list_sessions,
    "Leaf": Dispatcher._leaf,
    "Einsum": Dispatcher._einsum,
    "Apply": Dispatcher._apply,
    "Infer": Dispatcher._infer,
    "ContractPath": Dispatcher._contract_path,
    "GetValue": Dispatcher._get_value,
    "Pullback": Dispatcher._pullback,
    "Hvp": Dispatcher._hvp,
    "Pushforward": Dispatcher._pushforward,
    "Release": Dispatcher._release,
    "Execute": Dispatcher._execute,
    "ListOps": Dispatcher._list_ops,
}


def _avals(operands: Sequence[Any]) -> list[Aval]:
    """What a request says of operands that it does not have."""
    check_count("operands of a step", len(operands), MAX_OPERANDS)
    return [tensors.read_type(each, f"operand {i}") for i, each in enumerate(operands)]


def _header(message: Message) -> Parts:
    return message.SerializeToString(), []


def _told(info: SessionInfo) -> dict[str, Any]:
    """The fields that GetSessionResponse and SessionSummary have in common."""
    return {
        "nodes": info.nodes,
        "bytes": info.bytes,
        "age_seconds": info.age_seconds,
        "last_seq": info.last_seq,
        "memory_limit": info.memory_limit,
        "lease_left_seconds": info.lease_left_seconds,
        "steps": info.steps,
        "busy_seconds": info.busy_seconds,
        "device": info.device,
    }


def _device_message(info: DeviceInfo) -> service_pb2.Device:
    return service_pb2.Device(
        name=info.name,
        backend=info.backend,
        model=info.model,
        session_memory=info.session_memory,
        memory_limit=info.memory_limit,
        memory_used=info.memory_used,
    )


def _node_info(node: int, described: Any, has_tangent: bool) -> Any:
    info = service_pb2.ApplyResponse().nodes.add(
        node=node, requires_grad=described.requires_grad, has_tangent=has_tangent
    )
    info.type.CopyFrom(tensors.type_message(described.aval))
    return info
