"""The client's end of a session: requests in order, each step exactly once.

A request that is refused has changed nothing: its number is used again. One whose answer did not come
is in doubt: it may have been run or not. The next request then counts on as if it had been, with only
what is new. If it was not, the server answers which number it expects, and what it lacks is sent.

A request is in doubt from before it is sent. How far the requests came is one value that is replaced as a
whole, so an interrupt (Ctrl-C) finds it right wherever it comes; the columns follow it.

A server that was restarted, or ended the session, says so. Then the tape is made again in a new session, by
the record, where there is one; else the session is lost for good. What was in doubt is in the columns still,
and travels with the question that goes on.

What asks is a generator (`backhaul.steps`). While it waits at a yield, the tape may be recorded on and
handles may go: nothing that it holds across a yield says how far that came.
"""

from __future__ import annotations

import itertools
import os
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Final, NamedTuple

from backhaul.answers import large_bytes
from backhaul.columns import Piece
from backhaul.known_blocks import KnownBlocks
from backhaul.record import Record, nodes_of
from backhaul.recorder import Recorder
from backhaul.steps import Steps
from backhaul_proto import codec
from backhaul_proto.errors import (
    AutodiffError,
    BackhaulError,
    InternalError,
    MemoryLimitExceeded,
    MessageTooLarge,
    SessionError,
    TransportError,
    from_wire,
    make_error,
)
from backhaul_proto.messages import (
    Answer,
    Array,
    Block,
    BlockCall,
    Execute,
    Question,
    SightQuestion,
    StepTime,
    keep_from,
)

MAX_RECOVERIES: Final = 8
"""Times that one question has the tape made again: it may be the question that the server breaks down on."""

_DIGEST_BYTES: Final = 8
_ENDED: Final = frozenset({"SESSION_LOST", "SESSION_EXPIRED", "SESSION_NOT_FOUND"})


class _Doubt(NamedTuple):
    """A request of which it is not known whether it was run.

    Attributes:
        seq: its number.
        end: the first id after it.
        digest: its own.
    """

    seq: int
    end: int
    digest: bytes


class _Order(NamedTuple):
    """How far the requests came.

    Attributes:
        committed: number of the last request that is known to have been run.
        sent: the nodes before this id are the server's.
        doubts: the requests in doubt, in their order.
        late: those that had not been run when the server was asked; they may be on their way still.
    """

    committed: int = 0
    sent: int = 1
    doubts: tuple[_Doubt, ...] = ()
    late: tuple[_Doubt, ...] = ()


class Session:
    """A session and its order. Used under the recorder's lock, by one question at a time.

    Attributes:
        id: 16 random bytes.
        epoch: the server's, once it is known.
        begun: whether the server may know the session.
        asked_lease: seconds of its lease as they are asked; 0: what the server allows.
        lease: seconds of its lease; 0: it does not end by itself; None until the server has told.
        measured: is told how long the steps of each request took; None: they are not measured.
    """

    def __init__(
        self,
        known_blocks: KnownBlocks,
        recorder: Recorder,
        memory_limit: int = 0,
        lease: float = 0.0,
        record: Record | None = None,
        device: str = "",
    ) -> None:
        self._known_blocks = known_blocks
        self._record = record
        self._lost: BackhaulError | None = None  # until it is made again
        self._recorder = recorder
        self._memory_limit = memory_limit
        self._device = device
        self.asked_lease = lease
        self.lease: float | None = None
        self.id = os.urandom(16)
        self.epoch = b""
        self.begun = False
        self.refused = False
        self.measured: Callable[[Sequence[StepTime]], None] | None = None
        self._order = _Order()
        self._made = itertools.count(1)  # what tells a request from others under the same number

    @property
    def last_seq(self) -> int:
        """Number of the last request that is known to have been run."""
        return self._order.committed

    @property
    def in_doubt(self) -> bool:
        """Whether it is not known of some requests if they were run."""
        return bool(self._order.doubts)

    @property
    def lost(self) -> bool:
        """Whether the server has ended it, and it was not made again."""
        return self._lost is not None

    def execute(
        self,
        release: set[int],
        values: Sequence[int] = (),
        question: Question | None = None,
        *,
        until: int | None = None,
        spent: Sequence[int] = (),
        sight: bool = False,
    ) -> Steps[Answer]:
        """Send the open columns with a question.

        Args:
            release: nodes that have no handle any more. Those that were released are taken out.
            values: nodes whose values are asked.
            question: what else is asked. The ids that it keeps answers under are not sent as steps.
            until: send the steps before this node, and release nodes before it, only; None: all.
            spent: further nodes to release, which the question may be of: once it is answered nobody asks
                for them.
            sight: whether the tape's nodes are to be told.

        Raises:
            BackhaulError: the columns are open still, and what needs nothing will be left out of them.
        """
        recorder, known = self._recorder, self._known_blocks
        recoveries = 0
        while True:
            if self._lost is not None:
                recoveries += 1
                yield from self._recover(recoveries, values, question)
            order = self._order
            if recorder.columns.base < order.sent:
                recorder.sent(order.sent)
            if self.refused:
                recorder.leave_out_unneeded(release)
                self.refused = False
            start = order.doubts[-1].end if order.doubts else order.sent
            end = max(start, recorder.next_id if until is None else until)
            stop = keep_from(question) or (None if until is None else end)
            piece = recorder.columns.piece(start, stop, end)
            seq = order.committed + len(order.doubts) + 1
            released = sorted(release if until is None else filter(end.__gt__, release))
            leaving = sorted({*released, *spent}) if spent else released
            request, data = self._request(seq, piece, leaving, values, question, sight)
            block = request.block
            if block is not None and block.hash not in known:
                block = replace(block, block=data)
                request = replace(request, block=block)
            self.begun = True
            self._order = order._replace(doubts=(*order.doubts, _Doubt(seq, end, request.digest)))
            try:
                answer = yield request
            except BackhaulError as error:
                if error.reason == "BLOCK_UNKNOWN" and block is not None and block.block is None:
                    known.discard(block.hash)
                    self._order = order
                    continue
                try:
                    if (yield from self._settle(order, seq, error)):
                        continue
                except SessionError as second:
                    if not self._is_lost(second):
                        raise
                    continue
                if self._is_lost(error):
                    continue
                if not _may_have_been_run(error):
                    self._order = order
                    self.refused = True
                raise
            self.epoch = answer.epoch
            if answer.limits is not None:
                self.lease = answer.limits.lease_seconds
            if self.measured is not None and answer.sight is not None:
                self.measured(answer.sight.times)
            kept: Sequence[int] = ()
            if self._record is not None:
                if order.sent < start:
                    self._note_run(start)
                sets = answer.sets if keep_from(question) else ()
                kept = self._record.add(start, piece, question, sets)
            self._order = _Order(seq, end, (), tuple(x for x in order.late if x.seq > seq))
            recorder.sent(end)
            if released:
                release.difference_update(released)
            if block is not None and block.block is not None:
                known.add(block.hash)
            if self._record is not None:  # the answers that stay get their handles from the caller
                self._record.fit(recorder.types, recorder.columns.operands, kept)
            return answer

    def end(self) -> None:
        """Nothing is asked any more."""
        if self._record is not None:
            self._record.close()

    def _request(
        self,
        seq: int,
        piece: Piece | None,
        release: Sequence[int],
        values: Sequence[int],
        question: Question | None,
        sight: bool,
    ) -> tuple[Execute, bytes]:
        """The request with its block's hash alone, as for a server that holds the block; and the block."""
        block, data = None, b""
        tensors: Sequence[Array] = ()
        if piece is not None:
            data, name = self._known_blocks.written.of(piece.block, _written)
            block = BlockCall(name, None, piece.base, piece.inputs)
            tensors = piece.tensors
        request = Execute(
            self.id,
            self.epoch,
            seq,
            next(self._made).to_bytes(_DIGEST_BYTES, "little"),
            block,
            tensors,
            values,
            question,
            release,
            self._memory_limit if seq == 1 else 0,  # the request that opens it
            large_bytes(self._recorder, values, question),
            self.asked_lease if seq == 1 else 0.0,
            self._device if seq == 1 else "",
            SightQuestion(sight, self.measured is not None)
            if sight or self.measured is not None
            else None,
        )
        return request, data

    def _settle(self, order: _Order, seq: int, error: BackhaulError) -> Steps[bool]:
        """Whether this error of a request tells what became of those in doubt; then it is known now."""
        if error.reason == "SEQUENCE_REUSED":  # one of them came late, and before this one
            for found in order.late:
                if found.seq == seq and (yield from self._ran(found)):
                    late = tuple(each for each in order.late if each.seq > seq)
                    self._note_run(found.end)
                    self._order = _Order(seq, max(found.end, order.sent), (), late)
                    return True
            return False
        if error.reason == "SEQUENCE_GAP":
            run = int(error.details["expected"]) - 1 - order.committed
        elif error.reason == "SESSION_NOT_FOUND" and not order.committed:
            run = 0
        else:
            return False
        if not order.doubts or not 0 <= run <= len(order.doubts):
            return False
        sent = order.doubts[run - 1].end if run else order.sent
        late = (*order.late, *order.doubts[run:])
        self._note_run(sent)
        self.refused = True
        self._order = _Order(order.committed + run, sent, (), late)
        return True

    def _ran(self, doubt: _Doubt) -> Steps[bool]:
        """Whether the server's last request is this one: it answers none but that again."""
        try:
            answer = yield Execute(self.id, self.epoch, doubt.seq, doubt.digest)
        except BackhaulError as error:
            if error.reason == "SEQUENCE_REUSED":
                return False
            raise
        if doubt.seq == 1 and doubt.end > 1 and not answer.base_id:
            # Without an epoch a server that was restarted cannot tell, and has opened the session anew.
            raise make_error("SESSION_LOST", "The server was restarted; make a new tape.")
        return True

    # After the server lost it

    def _note_run(self, end: int) -> None:
        """What was in doubt before this id is known to have been run."""
        sent = self._order.sent
        if self._record is not None and end > sent:
            self._record.add(sent, self._recorder.columns.piece(sent, end, end))

    def _is_lost(self, error: BackhaulError) -> bool:
        """Whether this error means that the session is gone. Then each further question begins with that."""
        if error.reason not in _ENDED:
            return False
        if error.reason == "SESSION_NOT_FOUND":
            error = make_error(
                "SESSION_LOST",
                "The server does not know the tape's session any more: it was restarted, or another one "
                "answers at its address. The tape's tensors are gone; make a new tape.",
                **error.details,
            )
        self._lost = error
        return True

    def _recover(self, count: int, values: Sequence[int], question: Question | None) -> Steps[None]:
        """Make the session again under a new id. Until that is done, nothing here says that it was."""
        lost, record = self._lost, self._record
        assert lost is not None
        try:
            if record is None:
                raise from_wire("", lost.reason, lost.message, lost.details)
            if record.given_up is not None:
                raise _not_recovered(lost, f"recovery had been given up, since {record.given_up}")
            if count > MAX_RECOVERIES:
                raise _not_recovered(
                    lost,
                    f"it was made again {MAX_RECOVERIES} times for one question and lost each time",
                )
            yield from self._replay(record, lost, values, question)
        finally:
            del lost  # else an error would refer to itself through this frame

    def _replay(
        self, record: Record, lost: BackhaulError, values: Sequence[int], question: Question | None
    ) -> Steps[None]:
        recorder, sent = self._recorder, self._order.sent
        record.cut(sent)
        asked = [*values, *nodes_of(question)]
        requests = record.replay(recorder.types, recorder.columns.operands, asked)
        session, epoch, seq = os.urandom(16), b"", 0
        try:
            for piece, again, kept, release in requests:
                block = None
                if piece is not None:
                    data, name = self._known_blocks.written.of(piece.block, _written)
                    block = BlockCall(name, data, piece.base, piece.inputs)
                answer = yield Execute(
                    session,
                    epoch,
                    seq + 1,
                    next(self._made).to_bytes(_DIGEST_BYTES, "little"),
                    block,
                    () if piece is None else piece.tensors,
                    (),
                    again,
                    release,
                    0 if seq else self._memory_limit,
                    lease_seconds=0.0 if seq else self.asked_lease,
                    device="" if seq else self._device,
                )
                if answer.limits is not None:
                    self.lease = answer.limits.lease_seconds
                seq, epoch = seq + 1, answer.epoch
                if [x for each in answer.sets for x in (*each.kept, *each.kept_hvps)] != [*kept]:
                    raise make_error(
                        "INTERNAL", "Gradients that stayed on the server got other ids than before."
                    )
        except SessionError as error:
            if error.reason not in _ENDED:
                raise
            self._lost = error  # restarted once more: from the beginning
            return
        except (AutodiffError, InternalError, MemoryLimitExceeded) as error:
            raise _not_recovered(
                lost, f"what made its tensors failed this time: {error}"
            ) from error
        finally:
            del lost
        self.id, self.epoch = session, epoch
        self._order = _Order(seq, sent)
        self._lost = None


def _not_recovered(lost: BackhaulError, why: str) -> BackhaulError:
    return make_error(
        "SESSION_LOST",
        f"The tape's session is gone and could not be made again: {why}. Make a new tape. (The server "
        f"said: {lost.message})",
        recovery=why,
    )


def _may_have_been_run(error: BackhaulError) -> bool:
    """Whether the server may have run the request that this error came for."""
    if isinstance(error, MessageTooLarge):  # it may have been the answer
        return error.details.get("too_large") != "request"
    return isinstance(error, TransportError | InternalError)


def _written(block: Block) -> tuple[bytes, bytes]:
    data = codec.write_block(block)
    return data, codec.block_hash(data)
