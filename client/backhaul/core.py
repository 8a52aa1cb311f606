"""A tape by node ids: what is recorded, what was sent, what failed, what may be released."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from backhaul.connection import Connection
from backhaul.constants import Content
from backhaul.failures import Failures
from backhaul.kept import Kept
from backhaul.parts import may_be_of_a_step, send_in_parts
from backhaul.recorder import Recorder
from backhaul.signatures import NodeType
from backhaul.unusable import forked, tape_closed
from backhaul_proto.errors import AutodiffError, BackhaulError, MemoryLimitExceeded, ServerBusy
from backhaul_proto.messages import CONSTANT, Answer, Call, Question

Array = np.ndarray[Any, Any]

_CONSTANT: Final = Call(CONSTANT)


class Core:
    """What stands behind a `Tape`. It knows nodes, not tensors.

    Attributes:
        connection: where the server is.
        recorder: steps not sent yet, and what is known of the nodes.
        failures: nodes that have an error in place of a value.
        dropped: ids of handles that are gone. Finalizers append; requests take them along.
        closed: whether the tape was closed.
        memory_limit: bytes that the session may use; 0: what the server allows.
    """

    def __init__(self, connection: Connection, memory_limit: int = 0) -> None:
        self.connection = connection
        self.memory_limit = memory_limit
        self.recorder = Recorder()
        self.failures = Failures(self.recorder.sources)
        self.dropped: deque[int] = deque()
        self.closed = False
        self._process = os.getpid()
        self._session = connection.session(self.recorder, memory_limit)
        self._to_release: set[int] = set()

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

    def constant(self, content: Content) -> tuple[int, Array]:
        """The node of a constant with this content, recorded if it is new, and an array of it."""
        self.check_usable()
        recorder = self.recorder
        with recorder.lock:
            node = recorder.constants.find(content.key)
            if node is not None:
                return node, content.array
            array = content.held()
            node = self._source(_CONSTANT, [array], content.type)
            self.dropped += recorder.constants.keep(content.key, node, array.nbytes)
        return node, array

    def take_dropped(self) -> None:
        """Forget the nodes whose handles are gone."""
        self.check_usable()
        with self.recorder.lock:
            self._take_dropped()

    def flush(self) -> None:
        """Send what was recorded."""
        self.ask()

    def ask(
        self,
        values: Sequence[int] = (),
        question: Question | None = None,
        kept: Kept | None = None,
    ) -> Answer:
        """Send what was recorded, with a question; ``kept`` is for answers that stay on the server.

        Raises:
            BackhaulError: the question was refused or failed, the server is out of reach. The tape goes on.
        """
        self.check_usable()
        with self.recorder.lock:
            return self._ask(values, question, kept)

    def close(self) -> None:
        """End the session."""
        if self.closed or os.getpid() != self._process:
            return
        with self.recorder.lock:
            self.closed = True
            self.recorder.close()
        if self._session.begun:
            try:
                self.connection.close_session(self._session.id, self._session.epoch)
            except BaseException:  # interrupted: the next call does it
                self.connection.forget(self._session.id, self._session.epoch)
                raise

    def forget(self) -> None:
        """End the session at the next call of the connection. For finalizers: takes no lock."""
        if self._session.begun and not self.closed:
            self.connection.forget(self._session.id, self._session.epoch)

    # Under the recorder's lock

    def _source(
        self, call: Call, arrays: Sequence[Array], type_: NodeType, operands: Sequence[int] = ()
    ) -> int:
        waiting = self.recorder.columns.nbytes
        if waiting and waiting + sum(x.nbytes for x in arrays) > self.connection.block_bytes:
            self._ask()
        return self.recorder.source(call, arrays, type_, operands)

    def _ask(
        self,
        values: Sequence[int] = (),
        question: Question | None = None,
        kept: Kept | None = None,
    ) -> Answer:
        failures = self.failures
        self._take_dropped()
        failures.check(values, question)
        if kept is not None:
            question = kept.reserve(self.recorder, question)
        try:
            answer = self._execute(values, question)
        except (AutodiffError, MemoryLimitExceeded) as error:
            failures.locate(error)
            raise
        self._to_release.clear()
        failures.note(answer.failures)
        if answer.question_failure is not None:
            raise failures.error(answer.question_failure)
        if kept is not None:
            kept.note(self.recorder, answer)
        return answer

    def _execute(self, values: Sequence[int], question: Question | None) -> Answer:
        session, recorder = self._session, self.recorder
        refused_before = session.refused
        try:
            try:
                return session.execute(self._to_release, values, question)
            except (MemoryLimitExceeded, ServerBusy) as error:
                for_memory = "held" in error.details  # else the server is busy with other things
                if not for_memory or not self._release_first():
                    raise
                return session.execute(self._to_release, values, question)
        except BackhaulError as error:
            open_steps = recorder.next_id > recorder.columns.base
            if not open_steps or not may_be_of_a_step(error, refused_before=refused_before):
                raise
        send_in_parts(session, recorder, self.failures, self._to_release)
        self.failures.check(values, question)
        return session.execute(self._to_release, values, question)

    def _release_first(self) -> bool:
        """Release what has no handle by a request of its own; whether there was anything.

        What a refused request released is held still, and a release takes effect with the next request.
        Constants that are only kept to be found again go too.
        """
        recorder = self.recorder
        for node in recorder.constants.unheld():
            recorder.constants.forget(node)
            self.dropped.append(node)
        self._take_dropped()
        sent = {node for node in self._to_release if node < recorder.columns.base}
        if sent:
            recorder.leave_out_unneeded(self._to_release)
            self._session.execute(sent, until=0)
            self._to_release -= sent
        return bool(sent)

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
