"""The look at a tape as it travels, and as the engine tells it."""

from __future__ import annotations

import numpy as np
import pytest
from tests.server.engine.strict import strict_engine

from backhaul_proto import codec
from backhaul_proto.catalog.avals import aval
from backhaul_proto.messages import Answer, Execute, NodeSight, Sight, SightQuestion, StepTime
from backhaul_proto.sight import MAX_NODES
from backhaul_proto.v1 import service_pb2
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.interruption import nothing
from backhaul_server.engine.sight import nodes_of
from backhaul_server.engine.tape import Tape


def test_a_question_comes_as_it_was_asked() -> None:
    for question in (SightQuestion(True, False, 7), SightQuestion(False, True, 5)):
        header, _ = codec.write_execute(Execute(b"s" * 16, sight=question))
        read = codec.read_execute(service_pb2.ExecuteRequest.FromString(header), ())
        assert read.sight == question


@pytest.mark.parametrize("asked", [0, MAX_NODES + 1])
def test_the_number_of_nodes_is_bounded(asked: int) -> None:
    header, _ = codec.write_execute(Execute(b"s" * 16, sight=SightQuestion(True, False, asked)))
    read = codec.read_execute(service_pb2.ExecuteRequest.FromString(header), ())
    assert read.sight is not None
    assert read.sight.max_nodes == MAX_NODES


def test_a_request_without_one_has_none() -> None:
    header, _ = codec.write_execute(Execute(b"s" * 16))
    assert codec.read_execute(service_pb2.ExecuteRequest.FromString(header), ()).sight is None
    header, _ = codec.write_answer(Answer(b"e"))
    assert codec.read_answer(service_pb2.ExecuteResponse.FromString(header), ()).sight is None


def test_an_answer_comes_as_it_was_given() -> None:
    kind = aval((2, 3), np.dtype("complex64"))
    sight = Sight(
        [NodeSight(5, "exp", (1, 2), kind, True, False, True, 3, 4)],
        17,
        [StepTime(5, "exp", 0.5, 0.25, 48)],
    )
    header, _ = codec.write_answer(Answer(b"e", sight=sight))
    assert codec.read_answer(service_pb2.ExecuteResponse.FromString(header), ()).sight == sight


@pytest.mark.parametrize("engine", [Engine(), strict_engine()], ids=["numpy", "array-api-strict"])
def test_elements_that_are_not_finite_are_counted_on_any_library(engine: Engine) -> None:
    tape = Tape(engine)
    value = np.ones((2, 1_200_000))
    value[0, 0], value[1, 7] = np.nan, -np.inf
    nodes = [
        tape.leaf(engine.array(value)),
        tape.leaf(engine.array(np.asarray(np.inf))),
        tape.leaf(engine.array(np.ones((0, 3)))),
        tape.constant(engine.array(np.arange(3))),
    ]
    for number, node in enumerate(nodes, 1):
        node.id = number
    told = nodes_of(engine, {node.id: node for node in nodes}, 10, nothing).nodes
    assert [(each.nan, each.inf) for each in told] == [(1, 1), (0, 1), (0, 0), (0, 0)]


def test_it_can_be_interrupted_between_nodes() -> None:
    def interrupt() -> None:
        raise KeyboardInterrupt

    tape = Tape(Engine())
    node = tape.leaf(np.ones(3))
    with pytest.raises(KeyboardInterrupt):
        nodes_of(tape.engine, {1: node}, 10, interrupt)
