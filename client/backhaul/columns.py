"""The steps that were recorded and not yet sent, in columns, and their translation into a block.

While steps are recorded, operands are named by the ids that they have on the tape. A block knows no ids:
it numbers its inputs (nodes made before it) and then its own results. So equal work has equal bytes.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any, Final, NamedTuple

import numpy as np

from backhaul_proto.messages import SKIP, Block, Call

Array = np.ndarray[Any, Any]

_FEW: Final = 64  # operands up to which a loop is faster than NumPy


class Piece(NamedTuple):
    """A block ready to be sent, with the nodes and arrays that it is applied to."""

    block: Block
    base: int
    inputs: Sequence[int]
    tensors: Sequence[Array]


class Columns:
    """Steps in the order of recording.

    Attributes:
        base: id of the first result.
        calls: the distinct calls, in the order of their first use.
        index: place of each call in ``calls``, by its identity.
        steps: the place in ``calls`` of each step's call.
        operands: ids of the operands of all steps, one step after the other.
        tensors: arrays of leaves and constants.
        nbytes: bytes of ``tensors``.
    """

    __slots__ = ("_marked", "base", "calls", "index", "nbytes", "operands", "steps", "tensors")

    def __init__(self, base: int) -> None:
        self.base = base
        self.calls: list[Call] = []
        self.index: dict[int, int] = {}
        self.steps: list[int] = []
        self.operands: list[int] = []
        self.tensors: list[Array] = []
        self.nbytes = 0
        self._marked = (base, _START)

    def place(self, call: Call) -> int:
        """The place of a call, which is added when it is new."""
        found = self.index.get(id(call))
        if found is None:
            found = len(self.calls)
            self.calls.append(call)
            self.index[id(call)] = found
        return found

    def piece(self, first: int, end: int | None = None, next_id: int | None = None) -> Piece | None:
        """The steps from the node ``first`` on, and before ``end``, as a block; None if there are none.

        With the ``next_id`` of the recorder, the end of the steps is found without a walk later.
        """
        at = self._place_of(first)
        to = _Place(len(self.steps), len(self.operands), len(self.tensors))
        if end is not None:
            to = self._place_of(end)
        elif next_id is not None:
            self._marked = (next_id, to)
        steps = self.steps[at.steps : to.steps]
        if not steps:
            return None
        calls = self.calls
        if at.steps or end is not None:
            calls, steps = _renumbered(calls, steps)
        numbers, inputs = translated(self.operands[at.operands : to.operands], first)
        tensors = self.tensors[at.tensors : to.tensors]
        return Piece(Block(len(inputs), calls, steps, numbers), first, inputs, tensors)

    def reserve(self, next_id: int, count: int) -> None:
        """Leave so many ids unused, from the next one on: where they begin is found without a walk."""
        if count:
            place = _Place(len(self.steps), len(self.operands), len(self.tensors))
            self.steps += [self.place(_SKIP)] * count
            self._marked = (next_id, place)

    def until(self, end: int) -> Columns:
        """The steps before this node. What follows them need not be whole."""
        at = self._place_of(end)
        first = Columns(self.base)
        first.steps = [first.place(self.calls[i]) for i in self.steps[: at.steps]]
        first.operands = self.operands[: at.operands]
        first.tensors = self.tensors[: at.tensors]
        first.nbytes = sum(each.nbytes for each in first.tensors)
        return first

    def drop_before(self, node: int) -> Columns:
        """The steps from this node on."""
        at = self._place_of(node)
        rest = Columns(node)
        rest.steps = [rest.place(self.calls[i]) for i in self.steps[at.steps :]]
        rest.operands = self.operands[at.operands :]
        rest.tensors = self.tensors[at.tensors :]
        rest.nbytes = sum(each.nbytes for each in rest.tensors)
        return rest

    def without_unneeded(self, released: Container[int]) -> Columns:
        """The same steps, those left out that nothing needs: no handle, no step that is kept.

        Ids stay as they are: what is left out is a "skip".
        """
        walk = list(self.walk())
        needed: set[int] = set()
        for step in reversed(walk):
            if any(each in needed or each not in released for each in step.results):
                needed.update(step.results, step.operands)
        return self._of(walk, needed)

    def without(self, nodes: Container[int]) -> Columns:
        """The same steps, those left out that result in these nodes; as `without_unneeded`."""
        walk = list(self.walk())
        return self._of(walk, {step.node for step in walk if step.node not in nodes})

    def live_steps(self, end: int) -> list[range]:
        """The results of each step before this node that was not left out."""
        return [step.results for step in self.walk() if step.call.op != SKIP and step.node < end]

    def _of(self, walk: Iterable[Step], kept_nodes: Container[int]) -> Columns:
        kept = Columns(self.base)
        for step in walk:
            if step.call.op != SKIP and step.node in kept_nodes:
                kept.steps.append(kept.place(step.call))
                kept.operands += step.operands
                kept.tensors += step.tensors
            else:
                kept.steps += [kept.place(_SKIP)] * step.call.result_count
        kept.nbytes = sum(each.nbytes for each in kept.tensors)
        return kept

    def skipped(self) -> set[int]:
        """Ids that stay unused."""
        return {step.node for step in self.walk() if step.call.op == SKIP}

    def dependants(self, failed: Container[int]) -> dict[int, int]:
        """The results that depend on failed nodes, each with one of these."""
        found: dict[int, int] = {}
        for step in self.walk():
            for each in step.operands:
                cause = each if each in failed else found.get(each)
                if cause is not None:
                    found.update(dict.fromkeys(step.results, cause))
                    break
        return found

    def walk(self) -> Iterator[Step]:
        """The steps, one by one."""
        at = _START
        node = self.base
        for i in self.steps:
            call = self.calls[i]
            after = _Place(
                at.steps + 1,
                at.operands + call.operand_count,
                at.tensors + call.tensor_count,
            )
            operands = self.operands[at.operands : after.operands]
            yield Step(call, node, operands, self.tensors[at.tensors : after.tensors], after)
            node += call.result_count
            at = after

    def _place_of(self, node: int) -> _Place:
        """Where the step of this node begins, which is the first result of a step or the next id."""
        marked, at = self._marked
        if node == marked:
            return at
        at = _START
        if node > self.base:
            for step in self.walk():
                if step.node >= node:
                    break
                at = step.after
        return at


class _Place(NamedTuple):
    """A place between two steps: how much of each column stands before it."""

    steps: int
    operands: int
    tensors: int


_START: Final = _Place(0, 0, 0)


class Step(NamedTuple):
    """One step out of the columns. ``node`` is its first result, ``after`` where the next step begins."""

    call: Call
    node: int
    operands: Sequence[int]
    tensors: Sequence[Array]
    after: _Place

    @property
    def results(self) -> range:
        """The ids of its results."""
        return range(self.node, self.node + self.call.result_count)


_SKIP: Final = Call(SKIP)


def translated(operands: Sequence[int], base: int) -> tuple[list[int], list[int]]:
    """Operands as a block numbers them, and the ids of the inputs, in the order of their first use."""
    slots: dict[int, int] = {}
    if len(operands) <= _FEW:
        for each in operands:
            if each < base and each not in slots:
                slots[each] = len(slots)
        shift = len(slots) - base
        return [slots[i] if i < base else i + shift for i in operands], list(slots)
    ids = np.asarray(operands)
    early = ids < base
    inputs = [slots.setdefault(each, len(slots)) for each in ids[early].tolist()]
    ids += len(slots) - base
    ids[early] = inputs
    return ids.tolist(), list(slots)


def _renumbered(calls: Sequence[Call], steps: Sequence[int]) -> tuple[list[Call], list[int]]:
    """The calls that these steps use, in the order of their first use, and the steps' places."""
    order = dict.fromkeys(steps)
    places = {old: new for new, old in enumerate(order)}
    return [calls[i] for i in order], [places[i] for i in steps]
