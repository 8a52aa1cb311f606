"""Which op made each node, from which nodes: what `Columns` knew, kept when they are sent.

The server keeps what gradients need. Why a tensor has none is told by what it does not keep: so ops and
operands of all nodes are kept here, packed, as far back as their source lines are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

import numpy as np

from backhaul.columns import Columns
from backhaul_proto.messages import Call

PACKED_AT: Final = 1024
"""Steps after which what was kept as it came is packed: to 4 bytes a step and 8 an operand."""


class Made(NamedTuple):
    """How a node was made.

    Attributes:
        op: an op, or one of `messages.SOURCES`.
        operands: the nodes that it took.
        output: which of several results it is; 0 for the only one.
    """

    op: str
    operands: Sequence[int]
    output: int


@dataclass(frozen=True, slots=True)
class _Run:
    """Steps whose results have consecutive ids.

    Attributes:
        base: the first id.
        end: the first id after them.
        calls: the distinct calls.
        steps: the place of each step's call.
        operands: ids, step after step.
    """

    base: int
    end: int
    calls: Sequence[Call]
    steps: Sequence[int] | np.ndarray[Any, Any]
    operands: Sequence[int] | np.ndarray[Any, Any]


class History:
    """Ops and operands of the nodes that were sent. Used under the recorder's lock."""

    __slots__ = ("_loose", "_packed", "_steps")

    def __init__(self) -> None:
        self._packed: list[_Run] = []
        self._loose: list[Columns] = []
        self._steps = 0

    def add(self, columns: Columns) -> None:
        """These columns were sent. Nobody appends to them any more."""
        if columns.steps:
            columns.tensors = []
            self._loose.append(columns)
            self._steps += len(columns.steps)
            if self._steps >= PACKED_AT:
                self._packed += _packed(self._loose)
                self._loose = []
                self._steps = 0

    def trim(self, first: int) -> None:
        """Forget the nodes before this id, where that frees anything."""
        gone = 0
        for each in self._packed:
            if each.end > first:
                break
            gone += 1
        del self._packed[:gone]

    def read(self, open_columns: Columns) -> dict[int, Made]:
        """How nodes were made, by id, in the order of recording; of those not sent yet too."""
        found: dict[int, Made] = {}
        loose = [_run(each) for each in (*self._loose, open_columns)]
        for each in (*self._packed, *loose):
            found.update(_made(each))
        return found


def _run(columns: Columns) -> _Run:
    calls = columns.calls
    end = columns.base + sum(calls[i].result_count for i in columns.steps)
    return _Run(columns.base, end, calls, columns.steps, columns.operands)


def _packed(loose: Sequence[Columns]) -> list[_Run]:
    """The columns as few runs: where ids do not follow one another, a new one begins."""
    runs: list[_Run] = []
    group: list[_Run] = []
    for each in map(_run, loose):
        if group and group[-1].end != each.base:
            runs.append(_joined(group))
            group = []
        group.append(each)
    return [*runs, _joined(group)]


def _joined(group: Sequence[_Run]) -> _Run:
    calls: list[Call] = []
    places: dict[int, int] = {}
    steps: list[int] = []
    operands: list[int] = []
    for each in group:
        here = []
        for call in each.calls:
            place = places.setdefault(id(call), len(calls))
            if place == len(calls):
                calls.append(call)
            here.append(place)
        steps += [here[i] for i in each.steps]
        operands += each.operands
    return _Run(
        group[0].base,
        group[-1].end,
        calls,
        np.array(steps, np.uint32),
        np.array(operands, np.int64),
    )


def _made(run: _Run) -> Iterator[tuple[int, Made]]:
    node, at = run.base, 0
    operands = [int(each) for each in run.operands]
    for i in run.steps:
        call = run.calls[i]
        taken = tuple(operands[at : at + call.operand_count])
        at += call.operand_count
        for output in range(call.result_count):
            yield node, Made(call.op, taken, output)
            node += 1
