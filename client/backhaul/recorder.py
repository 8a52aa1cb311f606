"""What a tape records: ids in order, the open columns, and what is known of each node."""

from __future__ import annotations

import sys
import threading
from collections.abc import Container, Sequence
from types import CodeType
from typing import Any, Final

import numpy as np

from backhaul.columns import Columns
from backhaul.constants import Constants
from backhaul.history import History
from backhaul.signatures import NodeType, Signature
from backhaul.sources import MIN_TRIMMED, Sources
from backhaul_proto.messages import Call
from backhaul_proto.shared import MIN_BYTES

Array = np.ndarray[Any, Any]

MAX_STEPS: Final = 100_000


class Recorder:
    """Steps of one tape, by ids. It sends nothing and knows no tensors.

    All of it is used under ``lock``. An interrupt (Ctrl-C) may come between any two instructions. So a
    record begins with its entry in ``sources.codes`` and ends with the store of ``next_id``: what lies
    beyond ``next_id`` was never recorded, and `mend` takes it back before anything else is done.

    Attributes:
        lock: held for each step. A question that waits holds it through its calls: what is recorded meanwhile
            waits too. One that is awaited holds it between them.
        next_id: the id that the next node will have.
        types: types of the nodes that live.
        columns: what was not sent yet.
        full_at: the id at which the columns are to be sent.
        sources: where nodes were recorded.
        history: what was sent, as far back as sources are known.
        constants: constants by content.
        has_tangent: whether any leaf has a tangent.
    """

    __slots__ = (
        "_large",
        "columns",
        "constants",
        "full_at",
        "has_tangent",
        "history",
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
        self.history = History()
        self.constants = Constants()
        self.has_tangent = False
        self._large: set[int] = set()

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
        with self.lock:  # not acquire() and try: an interrupt between them would leave it locked
            first = self.next_id
            codes = sources.codes
            if len(codes) + sources.first != first:
                self.mend()
            codes.append(code)
            columns = self.columns
            place = columns.index.get(signature.key)
            if place is None:
                place = columns.place(signature.call)
            columns.steps.append(place)
            columns.operands += operands
            if len(results) == 1:
                self.types[first] = results[0]
                sources.offsets.append(frame.f_lasti)
                self.next_id = first + 1
            else:
                codes += [code] * (len(results) - 1)
                self.types.update(enumerate(results, first))
                sources.offsets += [frame.f_lasti] * len(results)
                self.next_id = first + len(results)
        return first

    def steps_again(
        self,
        calls: Sequence[Call],
        steps: Sequence[int],
        operands: Sequence[int],
        tensors: Sequence[Array],
        codes: Sequence[CodeType],
        offsets: Sequence[int],
    ) -> None:
        """Record steps that were recorded before, on this tape or another. The lock is held by the caller.

        Args:
            calls: the distinct calls.
            steps: the place in ``calls`` of each step's call.
            operands: ids of the operands of all steps; of results of these, as they will have them.
            tensors: the arrays that the steps take.
            codes: the code that recorded each result,
            offsets: and where in it.
        """
        sources = self.sources
        if len(sources.codes) + sources.first != self.next_id:
            self.mend()
        sources.codes += codes
        columns = self.columns
        places = [columns.place(each) for each in calls]
        columns.steps += [places[i] for i in steps]
        columns.operands += operands
        columns.tensors += tensors
        columns.nbytes += sum(each.nbytes for each in tensors)
        sources.offsets += offsets
        self.next_id += len(codes)

    def source(
        self, call: Call, arrays: Sequence[Array], type_: NodeType, operands: Sequence[int] = ()
    ) -> int:
        """Record a leaf or constant with its arrays, or operands. The lock is held by the caller."""
        frame = self.sources.user_frame(sys._getframe())
        node = self.next_id
        sources = self.sources
        if len(sources.codes) + sources.first != node:
            self.mend()
        sources.codes.append(frame.f_code)
        columns = self.columns
        columns.steps.append(columns.place(call))
        columns.operands += operands
        columns.tensors += arrays
        columns.nbytes += sum(each.nbytes for each in arrays)
        self.types[node] = type_
        if type_.is_leaf and type_.aval.nbytes >= MIN_BYTES:
            self._large.add(node)
        sources.offsets.append(frame.f_lasti)
        self.has_tangent |= type_.has_tangent
        self.next_id = node + 1
        return node

    def reserve(self, count: int) -> int:
        """Leave ids to what the server makes. Returns the first. The lock is held by the caller."""
        frame = self.sources.user_frame(sys._getframe())
        first, sources = self.next_id, self.sources
        if len(sources.codes) + sources.first != first:
            self.mend()
        sources.codes += [frame.f_code] * count
        self.columns.reserve(first, count)
        sources.offsets += [frame.f_lasti] * count
        self.next_id = first + count
        return first

    def large_leaves(self) -> set[int]:
        """The leaves that live and are large enough to count in an answer."""
        types = self.types
        self._large = {n for n in self._large if (found := types.get(n)) and found.is_leaf}
        return self._large

    def mend(self) -> None:
        """Take back what an interrupted record left behind. Costs nothing when there is nothing."""
        end, sources = self.next_id, self.sources
        if len(sources.codes) + sources.first == end:
            return
        self.columns = self.columns.until(end)
        while (last := next(reversed(self.types), 0)) >= end:
            del self.types[last]
        sources.cut(end)  # last, since it is what the need is known by

    def sent(self, end: int) -> None:
        """The nodes before this id are the server's now."""
        known = self.columns.base
        sent = self.columns
        if end == self.next_id:
            self.columns = Columns(end)
        else:
            self.columns = sent.drop_before(end)
            sent = sent.until(end)
        self.history.add(
            sent
        )  # last: after an interrupt before this it lacks some steps, and no more
        self.full_at = end + MAX_STEPS
        if len(self.sources.codes) > MIN_TRIMMED:  # nodes sent now may be found to have failed
            self.sources.trim(min(known, next(iter(self.types), end)))
            self.history.trim(self.sources.first)

    def leave_out_unneeded(self, released: set[int]) -> None:
        """Leave out of the columns what nothing needs any more.

        Args:
            released: nodes without a handle.
        """
        kept = self.columns.without_unneeded(released | self.constants.unheld())
        for each in kept.skipped():
            self.constants.forget(each)
        self.columns = kept

    def leave_out(self, nodes: Container[int]) -> None:
        """Leave the steps that result in these nodes out of the columns."""
        kept = self.columns.without(nodes)
        for each in kept.skipped():
            self.constants.forget(each)
        self.columns = kept

    def close(self) -> None:
        """Forget all, and take no more steps."""
        self.columns = Columns(self.next_id)
        self.types.clear()
        self.history = History()
        self.full_at = 0
