"""A tape by node ids: what is recorded, what was sent, what failed, what may be released."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from backhaul.connection import AnyConnection, Connection
from backhaul.constants import Content
from backhaul.failures import Failures
from backhaul.kept import Kept
from backhaul.parts import may_be_of_a_step, send_in_parts
from backhaul.recorder import Recorder
from backhaul.signatures import NodeType
from backhaul.steps import Steps, run
from backhaul.unanswered import check_answered
from backhaul.unusable import forked, tape_closed
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.errors import AutodiffError, BackhaulError, MemoryLimitExceeded, ServerBusy
from backhaul_proto.messages import (
    CONSTANT,
    Answer,
    Call,
    Inferred,
    KeepingQuestion,
    Question,
    Renewal,
    keep_from,
)

if TYPE_CHECKING:
    from backhaul.session import Session

Array = np.ndarray[Any, Any]

BLOCK_BYTES: Final = 64 << 20
"""Bytes of arrays beyond which what was recorded is sent without a question, so that they do not heap up."""

_CONSTANT: Final = Call(CONSTANT)


class Core(ABC):
    """What stands behind a tape. It knows nodes, not tensors.

    Its questions are generators, under "Under the recorder's lock"; who may wait (`BlockingCore`) and who
    may not (`backhaul.aio.core.AwaitingCore`) drive them.

    Attributes:
        connection: where the server is.
        recorder: steps not sent yet, and what is known of the nodes.
        failures: nodes that have an error in place of a value.
        dropped: ids of handles that are gone. Finalizers append; requests take them along.
        closed: whether the tape was closed.
        memory_limit: bytes that the session may use; 0: what the server allows.
        device: where it computes; empty: the server's default.
        times: seconds of nodes and of their derivatives, as far as they were measured.
    """

    def __init__(
        self,
        connection: AnyConnection,
        memory_limit: int = 0,
        lease: float = 0.0,
        device: str = "",
    ) -> None:
        self.connection = connection
        self.memory_limit = memory_limit
        self.device = device
        self.recorder = Recorder()
        self.failures = Failures(self.recorder.sources)
        self.dropped: deque[int] = deque()
        self.closed = False
        self.times: dict[int, tuple[float, float]] = {}
        self._process = os.getpid()
        self._session = connection.session(self.recorder, memory_limit, lease, device)
        self._renewed = b""  # the session that the connection renews
        self._to_release: set[int] = set()

    @property
    def session(self) -> Session:
        """Its end of the session."""
        return self._session

    @property
    def name(self) -> str:
        """The session's name for people."""
        return f"<Tape {self._session.id.hex()[:8]} on {self.connection.target}>"

    def check_usable(self) -> None:
        """Raises SessionClosed after `close`, Unavailable (FORKED) in a forked process."""
        if self.closed:
            raise tape_closed(self.name)
        if os.getpid() != self._process:  # its lock may be held by a thread that is not here
            raise forked(self.connection.target)

    def source(
        self, call: Call, arrays: Sequence[Array], type_: NodeType, operands: Sequence[int] = ()
    ) -> int:
        """Record a leaf with its arrays, which nobody changes any more, or its operands. Returns its id."""
        self.check_usable()
        with self.recorder.lock:
            return self._source(call, arrays, type_, operands)

    def constant(self, content: Content) -> int:
        """The node of a constant with this content, recorded if it is new."""
        self.check_usable()
        recorder = self.recorder
        with recorder.lock:
            node = recorder.constants.find(content.key)
            if node is None:
                node = self._source(_CONSTANT, [content.array], content.type)
                self.dropped += recorder.constants.keep(content.key, node, content.array.nbytes)
        return node

    def take_dropped(self) -> None:
        """Forget the nodes whose handles are gone."""
        self.check_usable()
        with self.recorder.lock:
            self._take_dropped()

    def forget(self) -> None:
        """End the session at the next call of the connection. For finalizers: takes no lock."""
        self.connection.leases.remove(self._session.id)
        if self._session.begun and not self.closed:
            self.connection.forget(self._session.id, self._session.epoch)

    def renewal(self, at_most: int) -> Renewal:
        """What renews the session's lease, with nodes to release, so many at most.

        While the tape is in use, or a request may be on its way, nothing is released.
        """
        session, lock = self._session, self.recorder.lock
        if not lock.acquire(blocking=False):
            return Renewal(session.id)
        try:
            if session.in_doubt:
                return Renewal(session.id)
            self._take_dropped()
            released = sorted(self._unneeded())[:at_most]
            return Renewal(session.id, released, session.last_seq)
        finally:
            lock.release()

    def renewed(self, renewal: Renewal) -> None:
        """The server has done it. What is not noted here is released again, which is harmless."""
        lock = self.recorder.lock
        if renewal.release and lock.acquire(blocking=False):
            try:
                self._to_release.difference_update(renewal.release)
            finally:
                lock.release()

    def _be_renewed(self) -> None:
        session = self._session
        if session.begun and self._renewed != session.id and not self.closed:
            self._renewed = session.id
            self.connection.keep(self)

    @abstractmethod
    def full(self) -> None:
        """As many steps were recorded as travel well in one request."""

    @abstractmethod
    def inferred(self, op: str, avals: tuple[Aval, ...], attributes: Attributes) -> Inferred:
        """The results of an op that the client does not know."""

    # Under the recorder's lock

    def _source(
        self, call: Call, arrays: Sequence[Array], type_: NodeType, operands: Sequence[int] = ()
    ) -> int:
        self._make_room(arrays)
        return self.recorder.source(call, arrays, type_, operands)

    @abstractmethod
    def _make_room(self, arrays: Sequence[Array]) -> None:
        """These arrays are about to be recorded."""

    def _asking(
        self,
        values: Sequence[int] = (),
        question: Question | None = None,
        kept: Kept | None = None,
        spent: Sequence[int] = (),
        *,
        sight: bool = False,
    ) -> Steps[Answer]:
        failures, session = self.failures, self._session
        self._take_dropped()
        failures.check(values, question)
        refused_before = session.refused
        until = None
        if kept is not None:
            assert isinstance(question, KeepingQuestion)
            question = kept.reserve(self.recorder, question)
            until = kept.end
        try:
            try:
                answer = yield from session.execute(
                    self._to_release, values, question, until=until, spent=spent, sight=sight
                )
            except BackhaulError as error:
                again = yield from self._asking_again(
                    error, refused_before, values, question, until, sight
                )
                if again is None:
                    raise
                answer = again
        except (AutodiffError, MemoryLimitExceeded) as error:
            failures.locate(error)
            raise
        failures.note(answer.failures)
        if answer.question_failure is not None:
            raise failures.error(answer.question_failure)
        check_answered(question, answer)
        if kept is not None:
            kept.note(self.recorder, answer)
        return answer

    def _asking_again(
        self,
        error: BackhaulError,
        refused_before: bool,
        values: Sequence[int],
        question: Question | None,
        until: int | None,
        sight: bool,
    ) -> Steps[Answer | None]:
        """The answer, after an error that something can be done about; None when it is not such an error."""
        session, recorder = self._session, self.recorder

        def may_be_of_a_step_here(error: BackhaulError) -> bool:
            open_steps = (keep_from(question) or recorder.next_id) > recorder.columns.base
            return open_steps and may_be_of_a_step(error, refused_before=refused_before)

        for_memory = isinstance(error, MemoryLimitExceeded | ServerBusy) and "held" in error.details
        try:
            if for_memory and (yield from self._release_first()):
                return (
                    yield from session.execute(
                        self._to_release, values, question, until=until, sight=sight
                    )
                )
        except BackhaulError as second:
            if not may_be_of_a_step_here(second):
                raise
        else:
            if not may_be_of_a_step_here(error):
                return None
        end = keep_from(question) or recorder.next_id  # what is recorded meanwhile waits
        yield from send_in_parts(session, recorder, self.failures, self._to_release, end)
        self.failures.check(values, question)
        until = end if until is None else until
        return (
            yield from session.execute(self._to_release, values, question, until=until, sight=sight)
        )

    def _release_first(self) -> Steps[bool]:
        """Release what has no handle by a request of its own; whether there was anything.

        What a refused request released is held still, and a release takes effect with the next request.
        Constants that are only kept to be found again go too.
        """
        recorder = self.recorder
        for node in recorder.constants.unheld():
            recorder.constants.forget(node)
            self.dropped.append(node)
        self._take_dropped()
        if not any(node < recorder.columns.base for node in self._to_release):
            return False
        recorder.leave_out_unneeded(self._to_release)
        yield from self._session.execute(self._to_release, until=0)
        return True

    def _take_dropped(self) -> None:
        self.recorder.mend()
        self.failures.spread(self.recorder)  # first: what depends on a node may outlive its handle
        constants, types, dropped = self.recorder.constants, self.recorder.types, self.dropped
        for _ in range(len(dropped)):
            node = dropped.popleft()
            if node > 0 and (node not in constants or constants.drop(node)):
                self._to_release.add(node)
                types.pop(node, None)
        self.failures.drop(self._to_release)

    def _unneeded(self) -> list[int]:
        """What the server has that no handle, and no step that is still to be sent, needs."""
        columns = self.recorder.columns
        sent = [node for node in self._to_release if node < columns.base]
        if not sent:
            return sent
        needed = set(columns.operands)
        return [node for node in sent if node not in needed]

    def _end(self) -> None:
        self.connection.leases.remove(self._session.id)
        self.closed = True
        self.times.clear()
        self.recorder.close()
        self._session.end()


class BlockingCore(Core):
    """A core whose callers wait for answers. It sends what was recorded by itself when that is much."""

    connection: Connection

    def __init__(
        self, connection: Connection, memory_limit: int = 0, lease: float = 0.0, device: str = ""
    ) -> None:
        super().__init__(connection, memory_limit, lease, device)

    def flush(self) -> None:
        """Send what was recorded."""
        self.ask()

    def ask(
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

        Raises:
            BackhaulError: the question was refused or failed, the server is out of reach. The tape goes on.
        """
        self.check_usable()
        try:
            with self.recorder.lock:
                return run(
                    self._asking(values, question, kept, spent, sight=sight),
                    self.connection.execute,
                )
        finally:
            self._be_renewed()

    def close(self) -> None:
        """End the session."""
        if self.closed or os.getpid() != self._process:
            return
        with self.recorder.lock:
            self._end()
        if self._session.begun:
            try:
                self.connection.close_session(self._session.id, self._session.epoch)
            except BaseException:  # interrupted: the next call does it
                self.connection.forget(self._session.id, self._session.epoch)
                raise

    def full(self) -> None:
        """Send what was recorded."""
        self.flush()

    def inferred(self, op: str, avals: tuple[Aval, ...], attributes: Attributes) -> Inferred:
        """The results of an op that the client does not know: asked once for these arguments."""
        return self.connection.infer(op, avals, attributes)

    # Under the recorder's lock

    def _make_room(self, arrays: Sequence[Array]) -> None:
        waiting = self.recorder.columns.nbytes
        if waiting and waiting + sum(x.nbytes for x in arrays) > BLOCK_BYTES:
            try:
                run(self._asking(), self.connection.execute)
            finally:
                self._be_renewed()
