"""Programs: the steps of a function that was recorded once, to be recorded again without calling it.

A program names what it reads by slots: first the differentiated leaves, then the data, then its constants
by their content, then the results of its steps in their order. What is recorded from it is what the function
itself would record, so the server knows the block by its hash (decision 0001) and is sent the leaves.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from types import CodeType
from typing import Any, Final

import numpy as np

from backhaul.any_tape import AnyTape
from backhaul.constants import Content
from backhaul.functional.goals import Results
from backhaul.functional.pytrees import Tree
from backhaul.functional.tapes import Watched
from backhaul.handle import Handle
from backhaul.signatures import NodeType
from backhaul.tensor import TrackedTensor
from backhaul_proto.messages import CONSTANT, Call

Array = np.ndarray[Any, Any]

_KEPT_AS_THEY_ARE: Final = (bool, int, float, complex, str, bytes, np.generic)


@dataclass(frozen=True, slots=True)
class Slot:
    """A tensor among a program's results."""

    number: int
    type: NodeType


@dataclass(frozen=True, slots=True)
class Program:
    """The steps, and what they give.

    Attributes:
        contents: of its constants.
        calls: the distinct calls.
        steps: the place in ``calls`` of each step's call.
        operands: slots of the operands of all steps, one step after the other.
        tensors: arrays of leaves that the function made itself.
        codes: where in the user's program each result was recorded: the code,
        offsets: and the place in it.
        passing: the slots of results that nobody has a tensor of.
        main, outputs, tree, aux, aux_tree, through: as of `Results`, with slots in place of tensors.
    """

    contents: tuple[Content, ...]
    calls: list[Call]
    steps: list[int]
    operands: list[int]
    tensors: list[Array]
    codes: list[CodeType]
    offsets: list[int]
    passing: list[int]
    main: Slot | None
    outputs: list[Any]
    tree: Tree
    aux: list[Any]
    aux_tree: Tree
    through: list[Any]

    def record(self, tape: AnyTape[Any], given: Sequence[TrackedTensor]) -> Results:
        """Record the steps on a tape.

        Args:
            tape: the tape.
            given: the leaves, then the data.
        """
        held = [*given, *(tape._constant(each) for each in self.contents)]
        ids = [each._id for each in held]
        core, recorder = tape._core, tape._recorder
        core.check_usable()
        if recorder.next_id >= recorder.full_at:
            core.full()
        known = len(ids)
        with recorder.lock:
            first = recorder.next_id
            shift = first - known
            operands = [ids[i] if i < known else i + shift for i in self.operands]
            recorder.steps_again(
                self.calls, self.steps, operands, self.tensors, self.codes, self.offsets
            )
        tape._dropped.extend([i + shift for i in self.passing])
        made: dict[int, TrackedTensor] = dict(enumerate(held))

        def tensor(slot: Any) -> Any:
            if type(slot) is not Slot:
                return slot.copy() if isinstance(slot, np.ndarray) else slot
            found = made.get(slot.number)
            if found is None:
                node = slot.number + shift
                found = made[slot.number] = tape._kind(tape, node, slot.type)
                recorder.types[node] = slot.type
            return found

        return self._results(tensor)

    def _results(self, tensor: Callable[[Any], Any]) -> Results:
        return Results(
            None if self.main is None else tensor(self.main),
            [tensor(each) for each in self.outputs],
            self.tree,
            [tensor(each) for each in self.aux],
            self.aux_tree,
            [tensor(each) for each in self.through],
        )


def program_of(
    tape: Watched[Any], start: int, given: Sequence[TrackedTensor], results: Results
) -> Program | None:
    """The program of what was recorded on a tape.

    Args:
        tape: the tape, which was told to note contents.
        start: the first id that was recorded.
        given: the leaves, then the data.
        results: what the function gave.

    Returns:
        None where another call may not do the same: a value was looked at, or a tensor of another call
        used, or the results hold what may change. And where much was recorded, which was sent already.
    """
    recorder, contents = tape._recorder, tape.contents
    assert contents is not None
    if tape.looked or recorder.columns.base > start:
        return None
    slots = {each._id: i for i, each in enumerate(given)}
    constants = [node for node in contents if node not in slots]
    slots.update((node, len(given) + i) for i, node in enumerate(constants))
    columns = recorder.columns.drop_before(start)
    calls: list[Call] = []
    places: dict[int, int] = {}
    steps: list[int] = []
    operands: list[int] = []
    tensors: list[Array] = []
    nodes: list[int] = []
    for step in columns.walk():
        if step.node in slots:
            continue
        if step.call.op == CONSTANT:  # made in a way that was not noted
            return None
        for each in step.operands:
            if each not in slots:
                return None
            operands.append(slots[each])
        place = places.setdefault(id(step.call), len(calls))
        if place == len(calls):
            calls.append(step.call)
        steps.append(place)
        tensors += step.tensors
        for each in step.results:
            slots[each] = len(slots)
            nodes.append(each)
    given_out = [results.main, *results.outputs, *results.aux, *results.through]
    if not all(_can_be_kept(each, slots) for each in given_out):
        return None
    live = {slots[each._id] for each in given_out if isinstance(each, Handle)}
    sources = recorder.sources
    first = len(given) + len(constants)

    def slot(value: Any) -> Any:
        if isinstance(value, Handle):
            return Slot(slots[value._id], value._node_type)
        return value.copy() if isinstance(value, np.ndarray) else value

    return Program(
        tuple(contents[node] for node in constants),
        calls,
        steps,
        operands,
        tensors,
        [sources.codes[node - sources.first] for node in nodes],
        [sources.offsets[node - sources.first] for node in nodes],
        [i for i in range(first, first + len(nodes)) if i not in live],
        None if results.main is None else slot(results.main),
        [slot(each) for each in results.outputs],
        results.tree,
        [slot(each) for each in results.aux],
        results.aux_tree,
        [slot(each) for each in results.through],
    )


def _can_be_kept(value: Any, slots: Mapping[int, int]) -> bool:
    """Whether a result is a tensor that was recorded, or something that does not change."""
    if isinstance(value, Handle):
        return value._id in slots
    if isinstance(value, np.ndarray):
        return not value.dtype.hasobject
    return value is None or isinstance(value, _KEPT_AS_THEY_ARE)
