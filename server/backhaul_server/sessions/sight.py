"""A look at a session's tape, where a request asks for one."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from backhaul_proto.messages import Execute, Sight, SightQuestion, asked_node
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.sight import nodes_of, times_of
from backhaul_server.engine.stopwatch import Stopwatch


def stopwatch_of(question: SightQuestion | None) -> Stopwatch | None:
    """What measures the steps of a request; None: nothing does."""
    return Stopwatch() if question is not None and question.times else None


def look(
    request: Execute,
    engine: Engine,
    nodes: Mapping[int, Node],
    stopwatch: Stopwatch | None,
    interrupt: Callable[[], None],
) -> Sight:
    """What the request asks of the tape.

    Args:
        request: asks it.
        engine: whose arrays the nodes have.
        nodes: those that the client may name, by their ids.
        stopwatch: measured the request's steps.
        interrupt: may raise, to stop it.
    """
    question = request.sight
    assert question is not None
    told = nodes_of(engine, nodes, question.max_nodes, interrupt) if question.nodes else Sight()
    if stopwatch is None:
        return told
    asked = [] if request.question is None else [nodes.get(asked_node(request.question))]
    return Sight(told.nodes, told.left_out, times_of(stopwatch, filter(None, asked)))
