"""The client's end of a session: requests in order, each step exactly once.

A request that is refused has changed nothing: its number is used again. One whose answer did not come
is in doubt: it may have been run or not. The next request then counts on as if it had been, with only
what is new. If it was not, the server answers which number it expects, and what it lacks is sent.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Final

from backhaul.columns import Piece
from backhaul.recorder import Recorder
from backhaul_proto import codec
from backhaul_proto.errors import BackhaulError, InternalError, MessageTooLarge, TransportError
from backhaul_proto.messages import Answer, BlockCall, Execute, Question

if TYPE_CHECKING:
    from backhaul.connection import Connection

_DIGEST_BYTES: Final = 16
_IN_DOUBT: Final = (TransportError, InternalError, MessageTooLarge)
"""After these the request may have been run. (It may have been its answer that was too large.)"""


class Session:
    """A session and its order. Used under the recorder's lock.

    Attributes:
        id: 16 random bytes.
        epoch: the server's, once it is known.
        begun: whether the server may know the session.
    """

    def __init__(self, connection: Connection, recorder: Recorder) -> None:
        self._connection = connection
        self._recorder = recorder
        self.id = os.urandom(16)
        self.epoch = b""
        self.begun = False
        self._committed = 0
        self._doubts: list[int] = []  # of each request in doubt: the first id after it
        self._refused = False

    def execute(
        self, release: set[int], values: Sequence[int] = (), question: Question | None = None
    ) -> Answer:
        """Send the open columns with a question.

        Args:
            release: nodes that have no handle any more.
            values: nodes whose values are asked.
            question: a pullback or hvp.

        Raises:
            BackhaulError: the columns are open still, and what needs nothing will be left out of them.
        """
        recorder = self._recorder
        while True:
            if self._refused:
                recorder.leave_out_unneeded(release)
                self._refused = False
            columns = recorder.columns
            piece = columns.piece(self._doubts[-1] if self._doubts else columns.base)
            end = recorder.next_id
            self.begun = True
            try:
                answer = self._send(piece, sorted(release), values, question)
            except BackhaulError as error:
                if self._doubts and self._settle(error):
                    continue
                if isinstance(error, _IN_DOUBT):
                    self._doubts.append(end)
                else:
                    self._refused = True
                raise
            except BaseException:  # interrupted
                self._doubts.append(end)
                raise
            self._committed += len(self._doubts) + 1
            self._doubts.clear()
            self.epoch = answer.epoch
            recorder.sent(end)
            return answer

    def _send(
        self,
        piece: Piece | None,
        release: Sequence[int],
        values: Sequence[int],
        question: Question | None,
    ) -> Answer:
        block, data = None, b""
        if piece is not None:
            data = codec.write_block(piece.block)
            block = BlockCall(codec.block_hash(data), None, piece.base, piece.inputs)

        def request(digest: bytes, block: BlockCall | None) -> Execute:
            return Execute(
                self.id,
                self.epoch,
                self._committed + len(self._doubts) + 1,
                digest,
                block,
                () if piece is None else piece.tensors,
                values,
                question,
                release,
            )

        header, _ = codec.write_execute(request(b"", block))
        digest = hashlib.blake2b(header, digest_size=_DIGEST_BYTES).digest()
        if block is None:
            return self._connection.execute(request(digest, None))
        known = self._connection.known_blocks
        if block.hash in known:
            try:
                return self._connection.execute(request(digest, block))
            except BackhaulError as error:
                if error.reason != "BLOCK_UNKNOWN":
                    raise
        whole = BlockCall(block.hash, data, block.base_id, block.inputs)
        answer = self._connection.execute(request(digest, whole))
        known.add(block.hash)
        return answer

    def _settle(self, error: BackhaulError) -> bool:
        """Whether this error tells what became of the requests in doubt; then they are no more so."""
        if error.reason == "SEQUENCE_GAP":
            run = int(error.details["expected"]) - 1 - self._committed
        elif error.reason == "SESSION_NOT_FOUND" and not self._committed:
            run = 0
        else:
            return False
        if not 0 <= run <= len(self._doubts):
            return False
        if run:
            self._recorder.sent(self._doubts[run - 1])
        self._committed += run
        self._refused = True
        self._doubts.clear()
        return True
