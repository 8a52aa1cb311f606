"""What a tape records: ids in order, the open columns, and what is known of each node."""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from typing import Any, Final

import numpy as np

from backhaul.columns import Columns
from backhaul.constants import Constants
from backhaul.signatures import NodeType, Signature
from backhaul.sources import Sources
from backhaul_proto.messages import Call

Array = np.ndarray[Any, Any]

MAX_STEPS: Final = 100_000


class Recorder:
    """Steps of one tape, by ids. It sends nothing and knows no tensors.

    All of it is used under ``lock``.

    Attributes:
        lock: held for each step, and through each call to the server: what is recorded meanwhile waits.
        next_id: the id that the next node will have.
        types: types of the nodes that live.
        columns: what was not sent yet.
        full_at: the id at which the columns are to be sent.
        sources: where nodes were recorded.
        constants: constants by content.
        has_tangent: whether any leaf has a tangent.
    """

    __slots__ = (
        "columns",
        "constants",
        "full_at",
        "has_tangent",
        "lock",
        "next_id",
        "sources",
        "types",
    )

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.next_id = 1
        self.types: dict[int, NodeType] = {}
        self.columns = Columns(1)
        self.full_at = 1 + MAX_STEPS
        self.sources = Sources()
        self.constants = Constants()
        self.has_tangent = False

    def step(self, signature: Signature, operands: list[int]) -> int:
        """Record a step. Returns the id of its first result; further ones count on.

        The frame four calls up is looked at first for the user's: past `recording.append`, the function
        there that calls it, and the public function.
        """
        sources = self.sources
        try:
            frame = sys._getframe(4)
        except ValueError:  # called from C, with no frame of the user's
            frame = sys._getframe()
        code = frame.f_code
        if code.co_filename not in sources.user_files:
            frame = sources.user_frame(frame)
            code = frame.f_code
        results = signature.results
        self.lock.acquire()  # half the cost of a with statement, at each step
        try:
            columns = self.columns
            place = columns.index.get(signature.key)
            if place is None:
                place = columns.place(signature.call)
            columns.steps.append(place)
            columns.operands += operands
            first = self.next_id
            if len(results) == 1:
                self.next_id = first + 1
                self.types[first] = results[0]
                sources.codes.append(code)
                sources.offsets.append(frame.f_lasti)
            else:
                self.next_id += len(results)
                self.types.update(enumerate(results, first))
                sources.codes += [code] * len(results)
                sources.offsets += [frame.f_lasti] * len(results)
        finally:
            self.lock.release()
        return first

    def source(self, call: Call, arrays: Sequence[Array], type_: NodeType) -> int:
        """Record a leaf or constant with its arrays. The lock is held by the caller."""
        frame = self.sources.user_frame(sys._getframe())
        columns = self.columns
        columns.steps.append(columns.place(call))
        columns.tensors += arrays
        columns.nbytes += sum(each.nbytes for each in arrays)
        node = self.next_id
        self.next_id = node + 1
        self.types[node] = type_
        self.sources.codes.append(frame.f_code)
        self.sources.offsets.append(frame.f_lasti)
        self.has_tangent |= type_.has_tangent
        return node

    def sent(self, end: int) -> None:
        """The nodes before this id are the server's now."""
        if end == self.next_id:
            self.columns = Columns(end)
        else:
            self.columns = self.columns.drop_before(end)
        self.full_at = end + MAX_STEPS
        self.sources.trim()

    def leave_out_unneeded(self, released: set[int]) -> None:
        """Leave out of the columns what nothing needs any more.

        Args:
            released: nodes without a handle.
        """
        self.columns = self.columns.without_unneeded(released | self.constants.unheld())
        for each in self.columns.skipped():
            self.constants.forget(each)

    def close(self) -> None:
        """Forget all, and take no more steps."""
        self.columns = Columns(self.next_id)
        self.types.clear()
        self.full_at = 0
