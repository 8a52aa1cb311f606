"""A tape as it stands: what the server tells of its nodes, with what only the client knows of them."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import make_error
from backhaul_proto.messages import CONSTANT, LEAVES, SKIP, NodeSight
from backhaul_proto.units import size

if TYPE_CHECKING:
    from backhaul.core import Core
    from backhaul_proto.messages import Answer

_SOURCES: Final = frozenset({*LEAVES, CONSTANT})


@dataclass(frozen=True, slots=True)
class Step:
    """A node of a tape, and what made it.

    Attributes:
        node: its id.
        op: the op that made it, or "leaf", "leaf_with_tangent", "constant"; "answer" for a gradient that
            stayed on the server.
        inputs: ids of its operands.
        shape: sizes of its axes; None when the server does not hold it any more.
        dtype: name of its element type; None likewise.
        nbytes: bytes of its value; 0 when it is not held.
        source: ``file:line`` of the program that recorded it; None when that is not known any more.
        requires_grad: whether a leaf is reached from it.
        named: whether there is a tensor of it still; else it lives for the gradients of others.
        failed: whether it has an error in place of a value.
        nan: elements that are NaN.
        inf: elements that are infinite.
        seconds: how long it was computed for, where that was measured (`Tape.profile`).
        derivative_seconds: the same of its derivatives.
    """

    node: int
    op: str
    inputs: tuple[int, ...] = ()
    shape: tuple[int, ...] | None = None
    dtype: str | None = None
    nbytes: int = 0
    source: str | None = None
    requires_grad: bool = False
    named: bool = False
    failed: bool = False
    nan: int = 0
    inf: int = 0
    seconds: float = 0.0
    derivative_seconds: float = 0.0

    @property
    def is_held(self) -> bool:
        """Whether the server has it."""
        return self.shape is not None

    @property
    def is_leaf(self) -> bool:
        """Whether gradients are taken for it."""
        return self.op in LEAVES

    @property
    def type(self) -> str:
        """Its element type and shape, such as ``float64[2,3]``."""
        if self.shape is None:
            return "not held"
        return f"{self.dtype}[{','.join(map(str, self.shape))}]"

    @property
    def where(self) -> str:
        """The line that recorded it, as short as people need it."""
        return short(self.source)

    @property
    def trouble(self) -> str:
        """What is wrong with its value, such as ``3 NaN``; empty: nothing."""
        if self.failed:
            return "failed"
        found = [f"{n} {what}" for n, what in ((self.nan, "NaN"), (self.inf, "Inf")) if n]
        return ", ".join(found)

    def __str__(self) -> str:
        at = f" at {self.where}" if self.source else ""
        return f"node {self.node} ({self.op}, {self.type}{at})"


class Graph(Mapping[int, Step]):
    """The nodes of a tape by id, in the order in which they were recorded.

    Attributes:
        left_out: how many early nodes the server did not tell of, as they were too many.
    """

    def __init__(self, steps: Iterable[Step], left_out: int = 0) -> None:
        self._steps = {each.node: each for each in steps}
        self.left_out = left_out

    def __getitem__(self, node: int) -> Step:
        return self._steps[node]

    def __iter__(self) -> Iterator[int]:
        return iter(self._steps)

    def __len__(self) -> int:
        return len(self._steps)

    def ancestors(self, node: int, *, differentiable: bool = False) -> set[int]:
        """A node and all that it was computed from.

        Args:
            node: its id.
            differentiable: whether only what a gradient of it flows to counts.
        """
        found = {node} if node in self else set()
        stack = list(found)
        while stack:
            step = self[stack.pop()]
            if differentiable and step.is_leaf:
                continue  # made of a tensor's numbers, and of nothing else of it
            for each in step.inputs:
                if each in found or each not in self:
                    continue
                if differentiable and not self[each].requires_grad:
                    continue
                found.add(each)
                stack.append(each)
        return found


def graph_of(core: Core, answer: Answer) -> Graph:
    """The graph, once the server has told of its nodes.

    Raises:
        VersionMismatch: the server is of a version that does not tell.
    """
    sight = answer.sight
    if sight is None:
        raise make_error(
            "VERSION_MISMATCH",
            "The server does not tell what its tapes look like: it is of an earlier version. Use one of this "
            "version, or record the same on bh.Tape(bh.connect('embedded')).",
        )
    recorder = core.recorder
    with recorder.lock:
        made = recorder.history.read(recorder.columns)
        held = {each.node: each for each in sight.nodes if each.node}
        steps = []
        for node in sorted({*held, *made}):
            how = made.get(node)
            found = held.get(node)
            op = found.op if found is not None else CONSTANT
            inputs: Sequence[int] = () if found is None else found.inputs
            if how is not None and how.op == SKIP:
                if found is None:
                    continue
                op = "answer"
            elif how is not None:
                op, inputs = how.op, how.operands
            seconds, derivative = core.times.get(node, (0.0, 0.0))
            steps.append(
                _step(node, op, inputs, found, recorder.sources.find(node), seconds, derivative)
            )
    return Graph(steps, sight.left_out)


def _step(
    node: int,
    op: str,
    inputs: Sequence[int],
    found: NodeSight | None,
    source: str | None,
    seconds: float,
    derivative: float,
) -> Step:
    if found is None:
        return Step(node, op, tuple(inputs), source=source, seconds=seconds)
    aval: Aval = found.aval
    return Step(
        node,
        op,
        tuple(inputs),
        aval.shape,
        str(aval.dtype),
        aval.nbytes,
        source,
        found.requires_grad,
        found.named,
        found.failed,
        found.nan,
        found.inf,
        seconds,
        derivative,
    )


def short(source: str | None) -> str:
    """A source line as people read it: from the current directory on, else with the last two parts.

    >>> short(None), short("/a/b/c/train.py:12")
    ('', 'c/train.py:12')
    """
    if source is None:
        return ""
    path, _, line = source.rpartition(":")
    here = os.path.join(os.getcwd(), "")
    if path.startswith(here):
        return f"{path.removeprefix(here)}:{line}"
    return f"{os.sep.join(path.split(os.sep)[-2:])}:{line}"


COLUMNS: Final = ("node", "op", "from", "type", "bytes", "value", "where")
NUMBERS: Final = 0b10001


def cells(step: Step) -> list[str]:
    """A step as a row of a table."""
    return [
        str(step.node),
        step.op,
        " ".join(map(str, step.inputs)),
        step.type,
        size(step.nbytes) if step.is_held else "",
        step.trouble,
        step.where,
    ]
