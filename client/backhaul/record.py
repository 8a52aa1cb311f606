"""What a session's nodes were made of, kept to make them again on a server that lost them.

The record takes over what was sent: blocks, arrays, and the questions whose answers stayed on the server.
It is made smaller now and then, to what the nodes with a handle need, for their values and gradients.
"""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final, NamedTuple

import numpy as np

from backhaul.columns import Columns, Piece
from backhaul_proto.messages import (
    LEAF_WITH_TANGENT,
    SKIP,
    Array,
    Call,
    GradientSet,
    HvpQuestion,
    KeepingQuestion,
    NodeOrArray,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
    asked_node,
)
from backhaul_proto.units import size

RECOVER_BYTES: Final = 256 << 20
"""Bytes that the record of a tape may have, where nothing else is asked for."""

_ENTRY_BYTES: Final = 1024  # an entry's own objects, roughly
_STEP_BYTES: Final = 16  # a number in a list, and its int
_SLACK: Final = 256 << 10  # bytes up to which nothing is gained by looking what is needed

_SKIP: Final = Call(SKIP)
_TANGENT_LEAF: Final = Call(LEAF_WITH_TANGENT)
_NOTHING: Final[Array] = np.zeros(())


class Replayed(NamedTuple):
    """A request of a replay.

    Attributes:
        piece: its steps; None: it has none.
        question: what is asked for the answers that stay; None: nothing.
        kept: the ids that these must have.
        release: nodes that nothing needs after it.
    """

    piece: Piece | None
    question: Question | None
    kept: Sequence[int]
    release: Sequence[int]


@dataclass(frozen=True, slots=True)
class _Entry:
    """One request that was run.

    Attributes:
        base: the first id that it could use.
        piece: its steps.
        question: whose answers stay on the server, with ``wrt`` as it was answered.
        kept: the ids of those.
        nbytes: what it takes here.
    """

    base: int
    piece: Piece | None
    question: KeepingQuestion | None
    kept: Sequence[int]
    nbytes: int


class Record:
    """What was run for one tape, as far as it is needed. Used under the recorder's lock.

    Args:
        limit: bytes that it may take.

    Attributes:
        given_up: why there is no record any more; None: there is one.
        nbytes: bytes that it takes, roughly.
    """

    def __init__(self, limit: int = RECOVER_BYTES) -> None:
        self._limit = limit
        self._entries: list[_Entry] = []
        self._needed = 0  # bytes when it was last made smaller
        self.given_up: str | None = None
        self.nbytes = 0

    def add(
        self,
        base: int,
        piece: Piece | None,
        question: Question | None = None,
        sets: Sequence[GradientSet] = (),
    ) -> Sequence[int]:
        """A request was run: once more where it is known already, after an interrupt.

        Args:
            base: the first id that it could use.
            piece: its steps.
            question: what was asked, if the answers stayed on the server.
            sets: those answers.

        Returns:
            The nodes that they became.
        """
        kept = [node for each in sets for node in (*each.kept, *each.kept_hvps)]
        if self.given_up is not None:
            return kept
        self.cut(base)
        asked = _as_answered(question, sets) if kept else None
        if piece is not None or asked is not None:
            entry = _entry(base, piece, asked, kept)
            self._entries.append(entry)
            self.nbytes += entry.nbytes
        return kept

    def cut(self, base: int) -> None:
        """Forget the requests from this id on."""
        entries = self._entries
        while entries and entries[-1].base >= base:
            self.nbytes -= entries.pop().nbytes

    def fit(self, live: Iterable[int], *others: Iterable[int]) -> None:
        """Make it smaller when it has grown much, and give it up when it is too large all the same.

        Args:
            live: nodes with a handle.
            others: further nodes that may still be used.
        """
        if self.nbytes <= min(2 * self._needed + _SLACK, self._limit) or self.given_up is not None:
            return
        found = _needed(self._entries, {*live}.union(*others))
        self._entries = [each for each, _ in found]
        self._needed = self.nbytes = sum(each.nbytes for each in self._entries)
        if self.nbytes > self._limit:
            self._give_up()

    def replay(self, live: Iterable[int], *others: Iterable[int]) -> list[Replayed]:
        """The requests that make these nodes again, under the same ids."""
        found = _needed(self._entries, {*live}.union(*others))
        return [Replayed(each.piece, each.question, each.kept, free) for each, free in found]

    def close(self) -> None:
        """Forget all."""
        self._entries = []
        self.nbytes = 0

    def _give_up(self) -> None:
        self.given_up = (
            f"what the tape's tensors were made of takes {size(self.nbytes)} here, and "
            f"connect(recover_bytes=...) allows {size(self._limit)}"
        )
        self.close()
        warnings.warn(
            f"The tape cannot be rebuilt any more if the server is restarted: {self.given_up}. Release "
            "tensors that are not needed, start a chain of steps anew from an array "
            "(tape.leaf(tensor.numpy())), or allow more.",
            RuntimeWarning,
            stacklevel=2,
        )


def _entry(
    base: int, piece: Piece | None, question: KeepingQuestion | None, kept: Sequence[int]
) -> _Entry:
    nbytes = _ENTRY_BYTES
    if piece is not None:
        block = piece.block
        numbers = len(block.steps) + len(block.operands) + len(piece.inputs)
        nbytes += _STEP_BYTES * numbers + sum([each.nbytes for each in piece.tensors])
    if question is not None:
        nbytes += sum(each.nbytes for each in _beside(question) if not isinstance(each, int))
    return _Entry(base, piece, question, kept, nbytes)


def _as_answered(question: Question | None, sets: Sequence[GradientSet]) -> KeepingQuestion:
    """The question, for the nodes that it was answered for: which leaves had handles then is forgotten."""
    assert isinstance(question, KeepingQuestion)
    return replace(question, wrt=tuple(sets[0].nodes))


def _beside(question: Question) -> Iterator[NodeOrArray]:
    """What is named beside the loss, or output."""
    if not isinstance(question, PushforwardQuestion):
        yield from question.wrt or ()
    if isinstance(question, HvpQuestion):
        yield from question.linear
    match question:
        case PullbackQuestion(cotangents=cotangents):
            yield from cotangents
        case HvpQuestion(directions=directions) | PushforwardQuestion(directions=directions):
            for direction in directions:
                for leaf, tangent in direction:
                    yield leaf
                    yield tangent


def _needed(entries: Sequence[_Entry], needed: set[int]) -> list[tuple[_Entry, list[int]]]:
    """The entries that these nodes need, without what they do not, and what is free after each.

    Args:
        entries: in their order.
        needed: the nodes. It is added to.
    """
    spare = _first_tangent(entries)
    found: list[tuple[_Entry, list[int]]] = []
    for entry in reversed(entries):
        question, kept, piece = entry.question, entry.kept, entry.piece
        steps = [] if piece is None else [*_steps(piece)]
        beside = [] if question is None else nodes_of(question)
        named = [*kept, *beside, *(() if piece is None else piece.inputs)]
        for step in steps:
            named += step.results
        after = needed.intersection(named)
        used: set[int] = set()
        if needed.isdisjoint(kept):
            question, kept = None, ()
        else:
            used.update(kept, beside)
            needed.update(beside)
        if piece is not None:
            piece = _smaller(piece, steps, needed, used, spare)
        if piece is not None or question is not None:
            is_same = piece is entry.piece and question is entry.question
            smaller = entry if is_same else _entry(entry.base, piece, question, kept)
            found.append((smaller, sorted(used - after)))
    found.reverse()
    return found


class _Step(NamedTuple):
    """A step of a block, by ids."""

    call: Call
    operands: Sequence[int]
    tensors: Sequence[Array]
    results: range


def _steps(piece: Piece) -> Iterator[_Step]:
    block, base, inputs = piece.block, piece.base, piece.inputs
    count = block.input_count
    ids = [inputs[i] if i < count else base + i - count for i in block.operands]
    node, operand, tensor = base, 0, 0
    for i in block.steps:
        call = block.calls[i]
        operands = ids[operand : operand + call.operand_count]
        tensors = piece.tensors[tensor : tensor + call.tensor_count]
        yield _Step(call, operands, tensors, range(node, node + call.result_count))
        operand += call.operand_count
        tensor += call.tensor_count
        node += call.result_count


def _smaller(
    piece: Piece, steps: Sequence[_Step], needed: set[int], used: set[int], spare: int
) -> Piece | None:
    """The piece with the steps that are needed alone; None if there are none.

    Args:
        piece: what is to be made smaller.
        steps: its steps.
        needed: the nodes that are needed; those that the steps need are added.
        used: the nodes that it makes and takes are added.
        spare: the leaf with a tangent that stays, if only as a small one.
    """
    kept: list[_Step] = []
    skipped = 0
    for step in reversed(steps):
        if not needed.isdisjoint(step.results):
            needed.update(step.operands)
            used.update(step.operands, step.results)
        elif step.results.start == spare:
            # The server knows by it that there was a direction v, for losses that do not depend on it.
            used.update(step.results)
            step = _Step(_TANGENT_LEAF, (), (_NOTHING, _NOTHING), step.results)
        elif step.call.op != SKIP:
            skipped += 1
            step = _Step(_SKIP, (), (), step.results)
        kept.append(step)
    if all(step.call.op == SKIP for step in kept):
        return None
    if not skipped and spare not in used:
        return piece
    kept.reverse()
    columns = Columns(piece.base)
    for step in kept:
        count = 1 if step.call.op != SKIP else len(step.results)
        columns.steps += [columns.place(step.call)] * count
        columns.operands += step.operands
        columns.tensors += step.tensors
    return columns.piece(piece.base)


def _first_tangent(entries: Sequence[_Entry]) -> int:
    """The first leaf with a tangent; 0 when there is none."""
    for entry in entries:
        piece = entry.piece
        if piece is not None and any(each.op == LEAF_WITH_TANGENT for each in piece.block.calls):
            for step in _steps(piece):
                if step.call.op == LEAF_WITH_TANGENT:
                    return step.results.start
    return 0


def nodes_of(question: Question | None) -> list[int]:
    """The nodes that a question names."""
    if question is None:
        return []
    return [asked_node(question), *(x for x in _beside(question) if isinstance(x, int))]
