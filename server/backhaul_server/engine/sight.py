"""What can be told of a tape by looking at it: its nodes, and which of their values are not finite."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from heapq import nlargest
from operator import attrgetter
from typing import Any, Final

import numpy as np

from backhaul_proto.messages import NodeSight, Sight, StepTime
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.stopwatch import Stopwatch
from backhaul_server.engine.tape_memory import reached

_PIECE: Final = 1 << 20
"""Elements that are looked at together: what a look takes beside the array is small."""

_INT64: Final = np.dtype("int64")

_serial = attrgetter("serial")


def nodes_of(
    engine: Engine, named: Mapping[int, Node], at_most: int, interrupt: Callable[[], None]
) -> Sight:
    """The nodes that have names, and those that they keep alive; see NodeSight in service.proto.

    Args:
        engine: whose arrays they have.
        named: nodes by the ids that the client may use.
        at_most: so many nodes, those made last.
        interrupt: may raise, between two nodes.
    """
    found = [node for node in reached(named.values()) if not _is_whole(node)]
    latest = nlargest(at_most, found, key=_serial)
    sights = []
    for node in reversed(latest):
        interrupt()
        nan, inf = (0, 0) if node.error is not None else not_finite(engine, node.value)
        sights.append(
            NodeSight(
                node.id,
                op_of(node),
                tuple(each.id for each in _made_from(node)),
                node.aval,
                node.requires_grad,
                named.get(node.id) is node,
                node.error is not None,
                nan,
                inf,
            )
        )
    return Sight(sights, len(found) - len(latest))


def times_of(stopwatch: Stopwatch, asked: Iterable[Node]) -> list[StepTime]:
    """What was measured of steps and derivatives.

    Args:
        stopwatch: measured it.
        asked: the nodes that questions were of.
    """
    results: dict[Node, Node] = {}
    if any(map(_is_whole, stopwatch.derivatives)):
        results = _results((*asked, *stopwatch.steps))
    derivatives = {results.get(node, node): s for node, s in stopwatch.derivatives.items()}
    rows = []
    for node in dict.fromkeys((*stopwatch.steps, *derivatives)):
        rows.append(
            StepTime(
                node.id,
                stopwatch.ops.get(node) or op_of(node),
                stopwatch.steps.get(node, 0.0),
                derivatives.get(node, 0.0),
                sum(each.nbytes for each in _avals(node)),
            )
        )
    return rows


def op_of(node: Node) -> str:
    """What made a node: an op, a leaf, or a constant, which no gradient flows to."""
    made_by = node.inputs[0] if node.output is not None else node
    if made_by.call is not None:
        return made_by.call.name
    return "leaf" if node.requires_grad and node.error is None else "constant"


def not_finite(engine: Engine, array: Any) -> tuple[int, int]:
    """How many elements are NaN, and how many are infinite and not NaN. None of integers and bools."""
    if engine.aval(array).dtype.kind not in "fc":
        return 0, 0
    xp = engine.xp
    nan = inf = 0
    stack = [array]
    while stack:
        part = stack.pop()
        size = part.size
        if not size:
            continue
        if size > _PIECE and part.ndim:
            rows = max(1, _PIECE * part.shape[0] // size)
            pieces = (
                part[i : min(i + rows, part.shape[0]), ...] for i in range(0, part.shape[0], rows)
            )
            stack += [each[0, ...] for each in pieces] if rows == 1 else pieces
        elif not _is_true(engine, xp.all(xp.isfinite(part))):
            is_nan = xp.isnan(part)
            nans = _count(engine, is_nan)
            nan += nans
            inf += size - nans - _count(engine, xp.isfinite(part))
    return nan, inf


def _count(engine: Engine, mask: Any) -> int:
    return int(engine.host(engine.xp.sum(engine.cast(mask, _INT64))))


def _is_true(engine: Engine, mask: Any) -> bool:
    return bool(engine.host(mask))


def _is_whole(node: Node) -> bool:
    """Whether it is the node of several results, which nobody can name."""
    return isinstance(node.value, tuple)


def _made_from(node: Node) -> tuple[Node, ...]:
    return node.inputs[0].inputs if node.output is not None else node.inputs


def _results(asked: Iterable[Node]) -> dict[Node, Node]:
    """A result of each node of several: the first that is reached."""
    found: dict[Node, Node] = {}
    for node in sorted(reached(asked), key=_serial, reverse=True):
        if node.output is not None:
            found[node.inputs[0]] = node
    return found


def _avals(node: Node) -> Iterable[Any]:
    whole = node.inputs[0] if node.output is not None else None
    return (node.aval,) if whole is None or whole.call is None else whole.call.results
