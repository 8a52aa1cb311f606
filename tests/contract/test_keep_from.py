"""Gradients that stay and leaves of nodes, as any language sees them: every misuse is refused, typed."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest
from tests.contract.refusals import refusal

from backhaul_proto import codec, tensors
from backhaul_proto.messages import (
    Block,
    BlockCall,
    Call,
    Execute,
    HvpQuestion,
    PullbackQuestion,
    Question,
)
from backhaul_proto.v1 import service_pb2, service_pb2_grpc

X = np.array([1.0, 2.0])


@pytest.fixture(scope="module")
def stub(target: str) -> Iterator[Any]:
    with grpc.insecure_channel(target.removeprefix("grpc://")) as made:
        yield service_pb2_grpc.BackhaulServiceStub(made)


@pytest.fixture
def session(stub: Any) -> bytes:
    """A session with the leaves x (node 1) and y (2), x*x (3) and its sum (4)."""
    made = secrets.token_bytes(16)
    calls = [Call("leaf"), Call("multiply", (), 2), Call("sum", (), 1)]
    steps = block(calls, [0, 0, 1, 2], [0, 0, 2], 1, [])
    execute(stub, Execute(made, seq=1, digest=b"1", block=steps, tensors=[X, X]))
    return made


def execute(stub: Any, request: Execute) -> Any:
    header, arrays = codec.write_execute(request)
    return stub.Execute(service_pb2.ExecuteRequest.FromString(tensors.join(header, arrays)))


def block(
    calls: list[Call], steps: list[int], operands: list[int], base: int, inputs: list[int]
) -> BlockCall:
    data = codec.write_block(Block(len(inputs), calls, steps, operands))
    return BlockCall(codec.block_hash(data), data, base, inputs)


def asking(session: bytes, question: Question, seq: int = 2, **more: Any) -> Execute:
    return Execute(session, seq=seq, digest=b"%d" % seq, question=question, **more)


def held(stub: Any, session: bytes) -> tuple[int, int, int]:
    reference = service_pb2.SessionRef(id=session)
    found = stub.GetSession(service_pb2.GetSessionRequest(session=reference))
    return found.nodes, found.bytes, found.last_seq


def value(stub: Any, session: bytes, node: int) -> Any:
    reference = service_pb2.SessionRef(id=session)
    request = service_pb2.GetValueRequest(session=reference, node=node)
    return tensors.read(stub.GetValue(request).value).tolist()


def test_gradients_become_nodes_with_ids_in_order(stub: Any, session: bytes) -> None:
    question = PullbackQuestion(3, [X, np.ones(2)], [1, 2], keep_from=10)
    answer = execute(stub, asking(session, question))
    assert [list(each.nodes) for each in answer.sets] == [[1, 2], [1, 2]]
    assert [list(each.kept) for each in answer.sets] == [[10, 11], [12, 13]]
    assert not any(each.gradients or each.hvps or each.kept_hvps for each in answer.sets)
    assert answer.no_loss_value
    assert len(answer.tensors) == 0
    found = [value(stub, session, node) for node in (10, 11, 12, 13)]
    assert found == [[2.0, 8.0], [0.0, 0.0], [2.0, 4.0], [0.0, 0.0]]
    assert held(stub, session)[0] == 8


def test_hvps_follow_the_gradients_of_their_set(stub: Any, session: bytes) -> None:
    question = HvpQuestion(4, [[(1, np.ones(2))], [(1, X)]], keep_from=5)
    answer = execute(stub, asking(session, question, values=[1]))
    assert [list(each.nodes) for each in answer.sets] == [[1], [1]]
    assert [(list(e.kept), list(e.kept_hvps)) for e in answer.sets] == [([5], [6]), ([7], [8])]
    assert tensors.read(answer.tensors[answer.loss_value]) == 5.0
    assert tensors.read(answer.tensors[answer.values[0]]).tolist() == [1.0, 2.0]
    found = [value(stub, session, node) for node in (5, 6, 7, 8)]
    assert found == [[2.0, 4.0], [2.0, 2.0], [2.0, 4.0], [2.0, 4.0]]


def test_a_repeated_request_answers_the_same_nodes_and_makes_none(
    stub: Any, session: bytes
) -> None:
    steps = block([Call("sum", (), 1)], [0], [0], 20, [3])
    request = asking(session, PullbackQuestion(20, keep_from=21), block=steps, values=[20])
    first = execute(stub, request)
    before = held(stub, session)
    assert execute(stub, request) == first
    assert held(stub, session) == before
    assert list(first.sets[0].kept) == [21]
    others: list[Question] = [
        PullbackQuestion(20, keep_from=22),
        PullbackQuestion(4, keep_from=21),
        HvpQuestion(20, [[(1, X)]], keep_from=21),
    ]
    for other in others:
        again = replace(request, question=other)
        code, reason, _ = refusal(partial(execute, stub, again))
        assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "SEQUENCE_REUSED")
    assert held(stub, session) == before
    sent = execute(stub, replace(request, question=PullbackQuestion(20)))
    assert tensors.read(sent.tensors[sent.sets[0].gradients[0]]).tolist() == [2.0, 4.0]


def test_a_repetition_cannot_begin_to_keep(stub: Any, session: bytes) -> None:
    request = asking(session, PullbackQuestion(4))
    execute(stub, request)
    again = replace(request, question=PullbackQuestion(4, keep_from=9))
    assert refusal(lambda: execute(stub, again))[1] == "SEQUENCE_REUSED"


@pytest.mark.parametrize("first", [1, 4, 6, 2**63 - 1, 2**63, 2**64 - 1])
def test_ids_that_are_taken_or_that_there_are_not(stub: Any, session: bytes, first: int) -> None:
    before = held(stub, session)
    steps = block([Call("skip"), Call("sum", (), 1)], [1, 0], [0], 5, [3])
    questions: list[Question] = [
        PullbackQuestion(5, keep_from=first),
        PullbackQuestion(5, [], [1, 2], keep_from=first),
        HvpQuestion(5, [[(1, X)]], keep_from=first),
    ]
    for question in questions:
        request = asking(session, question, block=steps)
        code, reason, facts = refusal(partial(execute, stub, request))
        assert (code, reason) == (grpc.StatusCode.ALREADY_EXISTS, "NODE_ID_TAKEN")
        assert (facts["expected"], facts["actual"]) == ("7", str(first))
    assert held(stub, session) == before
    execute(stub, asking(session, PullbackQuestion(5, keep_from=7), block=steps))
    later = asking(session, PullbackQuestion(4, keep_from=7), seq=3)
    assert refusal(lambda: execute(stub, later))[1] == "NODE_ID_TAKEN"
    on_top = block([Call("sum", (), 1)], [0], [0], 7, [3])
    taken = Execute(session, seq=3, digest=b"3", block=on_top)
    assert refusal(lambda: execute(stub, taken))[1] == "NODE_ID_TAKEN"


def test_without_order_a_retry_finds_its_ids_taken(stub: Any, session: bytes) -> None:
    request = asking(session, PullbackQuestion(4, keep_from=5), seq=0)
    assert list(execute(stub, request).sets[0].kept) == [5]
    assert refusal(lambda: execute(stub, request))[1] == "NODE_ID_TAKEN"


def test_what_is_refused_for_another_reason_keeps_nothing(stub: Any, session: bytes) -> None:
    before = held(stub, session)
    refused: list[tuple[Question, str]] = [
        (PullbackQuestion(3, keep_from=9), "NON_SCALAR_LOSS"),
        (PullbackQuestion(77, keep_from=9), "MISSING_NODE"),
        (PullbackQuestion(3, [np.ones(3)], keep_from=9), "COTANGENT_MISMATCH"),
        (PullbackQuestion(4, [], [77], keep_from=9), "MISSING_NODE"),
        (HvpQuestion(4, keep_from=9), "HVP_WITHOUT_TANGENT"),
        (HvpQuestion(4, [[(1, np.ones(3))]], keep_from=9), "TANGENT_SHAPE_MISMATCH"),
        (HvpQuestion(4, [[(3, X)]], keep_from=9), "INVALID_VALUE"),
    ]
    for question, reason in refused:
        request = asking(session, question)
        assert refusal(partial(execute, stub, request))[1] == reason
    assert held(stub, session) == before


def test_a_failed_loss_keeps_nothing_and_fails_again_when_repeated(
    stub: Any, session: bytes
) -> None:
    calls = [Call("leaf"), Call("linalg.cholesky", (), 1), Call("sum", (), 1)]
    steps = block(calls, [0, 1, 2], [0, 1], 5, [])
    request = asking(session, PullbackQuestion(7, keep_from=8), block=steps, tensors=[-np.eye(2)])
    first = execute(stub, request)
    assert first.question_failure.reason == "NOT_POSITIVE_DEFINITE"
    assert len(first.sets) == 0
    assert execute(stub, request) == first
    assert held(stub, session)[0] == 7


def test_leaves_of_nodes(stub: Any, session: bytes) -> None:
    calls = [
        Call("leaf", (), 1),
        Call("leaf_with_tangent", (), 2),
        Call("leaf"),
        Call("multiply", (), 2),
        Call("sum", (), 1),
    ]
    # a leaf of x*x, a leaf of that along y, a leaf of the request; the sum of their product
    steps = [0, 1, 2, 3, 3, 4]
    operands = [0, 2, 1, 2, 3, 5, 4, 6]
    request = asking(
        session,
        HvpQuestion(10, keep_from=11),
        block=block(calls, steps, operands, 5, [3, 2]),
        tensors=[np.array([5.0, 7.0])],
    )
    answer = execute(stub, request)
    assert list(answer.sets[0].nodes) == [7, 6, 5]
    kept = dict(zip(answer.sets[0].nodes, answer.sets[0].kept, strict=True))
    moved = dict(zip(answer.sets[0].nodes, answer.sets[0].kept_hvps, strict=True))
    assert value(stub, session, kept[7]) == [1.0, 16.0]
    assert value(stub, session, kept[6]) == [5.0, 28.0]
    assert value(stub, session, moved[6]) == [0.0, 0.0]
    assert value(stub, session, moved[5]) == [5.0, 14.0]


BAD_BLOCKS = {
    "a leaf of two": ([Call("leaf", (), 2)], [0], [0, 0], "MALFORMED_REQUEST"),
    "a leaf with a tangent of one": (
        [Call("leaf_with_tangent", (), 1)],
        [0],
        [0],
        "MALFORMED_REQUEST",
    ),
    "a constant of one": ([Call("constant", (), 1)], [0], [0], "MALFORMED_REQUEST"),
    "a skip of one": ([Call("skip", (), 1)], [0], [0], "MALFORMED_REQUEST"),
    "two results": ([Call("leaf", (), 1, 2)], [0], [0], "MALFORMED_REQUEST"),
    "an attribute": ([Call("leaf", (("axis", 1),), 1)], [0], [0], "MALFORMED_REQUEST"),
    "no operand": ([Call("leaf", (), 1)], [0], [], "MALFORMED_REQUEST"),
    "of itself": ([Call("leaf", (), 1)], [0], [2], "MALFORMED_REQUEST"),
    "of a skipped id": ([Call("skip"), Call("leaf", (), 1)], [0, 1], [2], "MALFORMED_REQUEST"),
    "of booleans": (
        [Call("greater", (), 2), Call("leaf", (), 1)],
        [0, 1],
        [0, 0, 2],
        "DTYPE_NOT_SUPPORTED",
    ),
    "a tangent of another shape": (
        [Call("leaf_with_tangent", (), 2)],
        [0],
        [0, 1],
        "TANGENT_SHAPE_MISMATCH",
    ),
    "a tangent of another dtype": (
        [Call("astype", (("dtype", np.dtype("f4")),), 1), Call("leaf_with_tangent", (), 2)],
        [0, 1],
        [0, 0, 2],
        "TANGENT_DTYPE_MISMATCH",
    ),
}


@pytest.mark.parametrize("name", BAD_BLOCKS)
def test_leaves_that_cannot_be(stub: Any, session: bytes, name: str) -> None:
    calls, steps, operands, reason = BAD_BLOCKS[name]
    before = held(stub, session)
    bad = block(calls, steps, operands, 5, [1, 4])
    request = Execute(session, seq=2, digest=b"2", block=bad)
    assert refusal(lambda: execute(stub, request))[1] == reason
    assert held(stub, session) == before
