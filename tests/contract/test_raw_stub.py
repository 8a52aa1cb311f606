"""The service as any language sees it: a hand-made stub that skips all that our client checks."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.contract.refusals import refusal

from backhaul_proto import codec, tensors
from backhaul_proto.messages import Block, BlockCall, Call, Execute, PullbackQuestion
from backhaul_proto.v1 import graph_pb2, service_pb2, service_pb2_grpc, tensor_pb2

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def channel(target: str) -> Iterator[grpc.Channel]:
    with grpc.insecure_channel(target.removeprefix("grpc://")) as made:
        yield made


@pytest.fixture(scope="module")
def stub(channel: grpc.Channel) -> Any:
    return service_pb2_grpc.BackhaulServiceStub(channel)


@pytest.fixture
def session(stub: Any) -> Any:
    ref = service_pb2.SessionRef(id=secrets.token_bytes(16))
    ref.epoch = stub.OpenSession(service_pb2.OpenSessionRequest(session=ref)).epoch
    return ref


def tensor(value: Any, dtype: str = "float64") -> tensor_pb2.Tensor:
    message = tensor_pb2.Tensor()
    tensors.fill(message, np.asarray(value, dtype))
    return message


def leaf(stub: Any, session: Any, value: Any, **more: Any) -> int:
    node: int = stub.Leaf(
        service_pb2.LeafRequest(session=session, value=tensor(value), **more)
    ).node.node
    return node


def test_the_plain_path_from_leaf_to_hvp(stub: Any, session: Any) -> None:
    a = leaf(stub, session, np.ones((2, 3)))
    b = stub.Leaf(
        service_pb2.LeafRequest(
            session=session, value=tensor(np.ones((3, 4))), tangent=tensor(np.ones((3, 4)))
        )
    ).node
    assert b.requires_grad
    assert b.has_tangent
    c = stub.Einsum(
        service_pb2.EinsumRequest(session=session, subscripts="ij,jk->ik", operands=[a, b.node])
    ).node
    assert list(c.type.shape) == [2, 4]
    assert c.has_tangent
    labels = [graph_pb2.IntList(values=[7, 900]), graph_pb2.IntList(values=[7, 900])]
    loss = stub.Einsum(
        service_pb2.EinsumRequest(
            session=session,
            labels=labels,
            output=graph_pb2.IntList(),
            operands=[c.node, c.node],
        )
    ).node
    assert list(loss.type.shape) == []
    value = stub.GetValue(service_pb2.GetValueRequest(session=session, node=loss.node)).value
    assert tensors.read(value) == 72.0
    answer = stub.Pullback(service_pb2.PullbackRequest(session=session, loss=loss.node))
    found = {each.node: tensors.read(each.tensor) for each in answer.sets[0].gradients}
    np.testing.assert_array_equal(found[a], np.full((2, 3), 24.0))
    answer = stub.Hvp(service_pb2.HvpRequest(session=session, loss=loss.node))
    found = {each.node: tensors.read(each.tensor) for each in answer.sets[0].hvps}
    np.testing.assert_array_equal(found[b.node], np.full((3, 4), 12.0))
    answer = stub.Pushforward(service_pb2.PushforwardRequest(session=session, output=c.node))
    np.testing.assert_array_equal(tensors.read(answer.tangents[0]), np.full((2, 4), 3.0))
    np.testing.assert_array_equal(tensors.read(answer.value), np.full((2, 4), 3.0))


def test_apply_infer_and_several_results(stub: Any, session: Any) -> None:
    x = leaf(stub, session, [[1.0, 2.0], [3.0, 4.0]])
    axis = graph_pb2.Attribute(name="axis", int_value=1)
    infos = stub.Apply(
        service_pb2.ApplyRequest(session=session, op="unstack", operands=[x], attributes=[axis])
    ).nodes
    assert [list(each.type.shape) for each in infos] == [[2], [2]]
    last = stub.GetValue(service_pb2.GetValueRequest(session=session, node=infos[1].node))
    np.testing.assert_array_equal(tensors.read(last.value), [2.0, 4.0])
    kind = tensor_pb2.TensorType(dtype=tensor_pb2.DATA_TYPE_FLOAT32, shape=[5, 2])
    inferred = stub.Infer(service_pb2.InferRequest(op="sum", operands=[kind], attributes=[axis]))
    assert inferred.results[0] == tensor_pb2.TensorType(
        dtype=tensor_pb2.DATA_TYPE_FLOAT32, shape=[5]
    )


def test_info_and_catalog(stub: Any, session: Any) -> None:
    info = stub.GetServerInfo(service_pb2.GetServerInfoRequest())
    assert (info.protocol, info.backend) == ("backhaul.v1", "numpy")
    assert len(info.ops_digest) == 32
    ops = {each.name: each for each in stub.ListOps(service_pb2.ListOpsRequest()).ops}
    assert ops["einsum"].has_jvp
    assert "solve_factored" not in ops, "helpers of rules are not listed"
    leaf(stub, session, np.ones(1000))
    held = stub.GetSession(service_pb2.GetSessionRequest(session=session))
    assert (held.nodes, held.bytes) == (1, 8000)


def test_release_and_close(stub: Any, session: Any) -> None:
    x = leaf(stub, session, 1.0)
    stub.Release(service_pb2.ReleaseRequest(session=session, nodes=[x]))
    get = service_pb2.GetValueRequest(session=session, node=x)
    assert refusal(lambda: stub.GetValue(get))[:2] == (
        grpc.StatusCode.NOT_FOUND,
        "MISSING_NODE",
    )
    close = service_pb2.CloseSessionRequest(session=session)
    stub.CloseSession(close)
    stub.CloseSession(close)
    assert refusal(lambda: stub.GetValue(get))[:2] == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "SESSION_CLOSED",
    )
    opening = service_pb2.OpenSessionRequest(session=service_pb2.SessionRef(id=session.id))
    assert refusal(lambda: stub.OpenSession(opening))[1] == "SESSION_CLOSED"


# Errors that our client would have raised itself, from a stub that does not look.


def test_checks_of_a_loss_in_order(stub: Any, session: Any) -> None:
    vector = leaf(stub, session, [1.0, 2.0])
    constant = leaf(stub, session, [1.0, 2.0], constant=True)
    complex_leaf = stub.Leaf(
        service_pb2.LeafRequest(session=session, value=tensor(1j, "complex128"))
    ).node.node
    for ask in (_pullback, _hvp):
        assert ask(stub, session, 999)[:2] == (grpc.StatusCode.NOT_FOUND, "MISSING_NODE")
        assert ask(stub, session, constant)[1] == "MISSING_NODE"
        code, reason, facts = ask(stub, session, vector)
        assert (code, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "NON_SCALAR_LOSS")
        assert facts["actual"] == "(2,)"
        assert ask(stub, session, complex_leaf)[1] == "COMPLEX_LOSS"


def _pullback(stub: Any, session: Any, loss: int) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    return refusal(lambda: stub.Pullback(service_pb2.PullbackRequest(session=session, loss=loss)))


def _hvp(stub: Any, session: Any, loss: int) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    return refusal(lambda: stub.Hvp(service_pb2.HvpRequest(session=session, loss=loss)))


def test_a_tangent_must_fit(stub: Any, session: Any) -> None:
    def reason(value: tensor_pb2.Tensor, tangent: tensor_pb2.Tensor) -> str:
        request = service_pb2.LeafRequest(session=session, value=value, tangent=tangent)
        return refusal(lambda: stub.Leaf(request))[1]

    x = tensor(np.ones((2, 3)))
    assert reason(x, tensor(np.ones((3, 2)))) == "TANGENT_SHAPE_MISMATCH"
    assert reason(x, tensor(np.ones((1, 3)))) == "TANGENT_SHAPE_MISMATCH"
    assert reason(x, tensor(np.ones((2, 3)), "float32")) == "TANGENT_DTYPE_MISMATCH"
    assert (
        refusal(
            lambda: stub.Hvp(service_pb2.HvpRequest(session=session, loss=leaf(stub, session, 1.0)))
        )[1]
        == "HVP_WITHOUT_TANGENT"
    )


def test_directions_and_cotangents_must_fit(stub: Any, session: Any) -> None:
    x = leaf(stub, session, 2.0)
    vector = leaf(stub, session, [1.0, 2.0])
    square = stub.Einsum(
        service_pb2.EinsumRequest(session=session, subscripts=",->", operands=[x, x])
    ).node.node

    def hvp(*tangents: tuple[int, Any]) -> str:
        direction = service_pb2.Direction(
            tangents=[
                service_pb2.LeafTangent(leaf=node, tangent=graph_pb2.Operand(tensor=tensor(t)))
                for node, t in tangents
            ]
        )
        request = service_pb2.HvpRequest(session=session, loss=square, directions=[direction])
        return refusal(lambda: stub.Hvp(request))[1]

    assert hvp((x, [1.0])) == "TANGENT_SHAPE_MISMATCH"
    assert hvp((square, 1.0)) == "INVALID_VALUE"
    assert hvp((x, 1.0), (x, 1.0)) == "INVALID_VALUE"
    assert hvp() == "HVP_WITHOUT_TANGENT"
    assert hvp((77, 1.0)) == "MISSING_NODE"
    bad = service_pb2.PullbackRequest(
        session=session, loss=vector, cotangents=[graph_pb2.Operand(tensor=tensor([1.0]))]
    )
    assert refusal(lambda: stub.Pullback(bad))[1] == "COTANGENT_MISMATCH"


@pytest.mark.parametrize(
    ("subscripts", "operands", "reason"),
    [
        ("ij,jk", 1, "EINSUM_OPERAND_COUNT"),
        ("i->", 1, "EINSUM_RANK"),
        ("ij-jk", 1, "EINSUM_SYNTAX"),
        ("ij->ij.", 1, "EINSUM_SYNTAX"),
        ("ii->", 1, "EINSUM_DIMENSION"),
        ("ij->ijk", 1, "EINSUM_OUTPUT"),
    ],
)
def test_einsum_errors(
    stub: Any, session: Any, subscripts: str, operands: int, reason: str
) -> None:
    x = leaf(stub, session, np.ones((2, 3)))
    request = service_pb2.EinsumRequest(
        session=session, subscripts=subscripts, operands=[x] * operands
    )
    assert refusal(lambda: stub.Einsum(request))[:2] == (
        grpc.StatusCode.INVALID_ARGUMENT,
        reason,
    )


def test_unknown_ops_attributes_and_dtypes(stub: Any, session: Any) -> None:
    x = leaf(stub, session, [1.0, 2.0])

    def apply(op: str, *attributes: graph_pb2.Attribute) -> tuple[grpc.StatusCode, str]:
        request = service_pb2.ApplyRequest(
            session=session, op=op, operands=[x], attributes=attributes
        )
        return refusal(lambda: stub.Apply(request))[:2]

    assert apply("summ") == (grpc.StatusCode.UNIMPLEMENTED, "UNKNOWN_OP")
    assert apply("unbroadcast") == (grpc.StatusCode.UNIMPLEMENTED, "UNKNOWN_OP")
    assert apply("multiply")[1] == "OPERAND_COUNT"
    wrong = graph_pb2.Attribute(name="axis", int_value=2)
    assert apply("sum", wrong)[1] == "INVALID_ATTRIBUTE"
    assert apply("sum", graph_pb2.Attribute(name="axis"))[1] == "INVALID_ATTRIBUTE"
    assert apply("sum", graph_pb2.Attribute(name="nope", int_value=2))[1] == "INVALID_ATTRIBUTE"
    right = graph_pb2.Attribute(name="axis", int_value=0)
    assert apply("sum", right, right)[1] == "INVALID_ATTRIBUTE"
    ints = service_pb2.LeafRequest(session=session, value=tensor([1], "int64"))
    assert refusal(lambda: stub.Leaf(ints))[1] == "DTYPE_NOT_SUPPORTED"
    none = service_pb2.LeafRequest(session=session, value=tensor_pb2.Tensor(dtype=99))  # type: ignore[arg-type]  # on purpose
    assert refusal(lambda: stub.Leaf(none))[1] == "DTYPE_NOT_SUPPORTED"


def test_malformed_and_empty_requests(channel: grpc.Channel, stub: Any, session: Any) -> None:
    for method in ("Execute", "Leaf", "GetServerInfo", "Pullback"):
        raw: Any = channel.unary_unary(f"/backhaul.v1.BackhaulService/{method}")
        found = refusal(lambda raw=raw: raw(b"\xff\xff\xff\x07garbage"))  # type: ignore[misc]  # called at once
        assert found[:2] == (grpc.StatusCode.INVALID_ARGUMENT, "MALFORMED_REQUEST")
    for method in ("Execute", "Leaf", "Pullback", "Hvp", "Einsum", "GetSession", "CloseSession"):
        raw = channel.unary_unary(f"/backhaul.v1.BackhaulService/{method}")
        assert refusal(lambda raw=raw: raw(b""))[1] == "MALFORMED_REQUEST"  # type: ignore[misc]  # called at once
    short = tensor_pb2.Tensor(dtype=tensor_pb2.DATA_TYPE_FLOAT64, shape=[3], data=b"1234")
    leaf_request = service_pb2.LeafRequest(session=session, value=short)
    assert refusal(lambda: stub.Leaf(leaf_request))[1] == "MALFORMED_REQUEST"
    negative = tensor_pb2.Tensor(dtype=tensor_pb2.DATA_TYPE_FLOAT64, shape=[-1, -1], data=b"0" * 8)
    leaf_request = service_pb2.LeafRequest(session=session, value=negative)
    assert refusal(lambda: stub.Leaf(leaf_request))[1] == "MALFORMED_REQUEST"
    stranger = service_pb2.SessionRef(id=secrets.token_bytes(16))
    get = service_pb2.GetValueRequest(session=stranger, node=1)
    assert refusal(lambda: stub.GetValue(get))[:2] == (
        grpc.StatusCode.NOT_FOUND,
        "SESSION_NOT_FOUND",
    )
    lost = service_pb2.SessionRef(id=session.id, epoch=b"another life")
    get = service_pb2.GetValueRequest(session=lost, node=1)
    assert refusal(lambda: stub.GetValue(get))[:2] == (grpc.StatusCode.ABORTED, "SESSION_LOST")


# Execute: order, repetition, atomicity.


def execute(stub: Any, request: Execute) -> Any:
    header, arrays = codec.write_execute(request)
    message = service_pb2.ExecuteRequest.FromString(tensors.join(header, arrays))
    return stub.Execute(message)


def block(
    calls: list[Call], steps: list[int], operands: list[int], base: int, inputs: list[int]
) -> BlockCall:
    data = codec.write_block(Block(len(inputs), calls, steps, operands))
    return BlockCall(codec.block_hash(data), data, base, inputs)


def doubling(seq: int, session: bytes, digest: bytes = b"d", base: int = 1) -> Execute:
    """x, then x + x with its gradient; seq 1 opens the session."""
    calls = [Call("leaf"), Call("add", (), 2)]
    return Execute(
        session,
        seq=seq,
        digest=digest,
        block=block(calls, [0, 1], [0, 0], base, []),
        tensors=[np.array(3.0)],
        values=[base + 1],
        question=PullbackQuestion(base + 1),
    )


def test_an_execute_opens_runs_and_answers_and_its_repetition_runs_nothing_again(stub: Any) -> None:
    session = secrets.token_bytes(16)
    first = execute(stub, doubling(1, session))
    again = execute(stub, doubling(1, session))
    assert first == again
    assert tensors.read(first.tensors[first.values[0]]) == 6.0
    assert tensors.read(first.tensors[first.sets[0].gradients[0]]) == 2.0
    ref = service_pb2.SessionRef(id=session)
    held = stub.GetSession(service_pb2.GetSessionRequest(session=ref))
    assert (held.nodes, held.last_seq) == (2, 1)
    assert refusal(lambda: execute(stub, doubling(1, session, b"other")))[:2] == (
        grpc.StatusCode.ALREADY_EXISTS,
        "SEQUENCE_REUSED",
    )
    code, reason, facts = refusal(lambda: execute(stub, doubling(3, session)))
    assert (code, reason) == (grpc.StatusCode.FAILED_PRECONDITION, "SEQUENCE_GAP")
    assert facts["expected"] == "2"
    assert refusal(lambda: execute(stub, doubling(2, session, base=2)))[1] == "NODE_ID_TAKEN"
    execute(stub, doubling(2, session, base=10))


def test_only_the_first_request_opens_a_session(stub: Any) -> None:
    session = secrets.token_bytes(16)
    assert refusal(lambda: execute(stub, doubling(2, session)))[1] == "SESSION_NOT_FOUND"
    assert refusal(lambda: execute(stub, doubling(0, session)))[1] == "SESSION_NOT_FOUND"
    execute(stub, doubling(1, session))
    stub.CloseSession(service_pb2.CloseSessionRequest(session=service_pb2.SessionRef(id=session)))
    for late in (1, 2):
        assert refusal(lambda: execute(stub, doubling(late, session)))[1] == "SESSION_CLOSED"  # noqa: B023  # called at once


def test_a_refused_request_changes_nothing(stub: Any) -> None:
    session = secrets.token_bytes(16)
    good = doubling(1, session)
    assert good.block is not None
    wrong_question = Execute(
        session, seq=1, digest=b"d", block=good.block, tensors=good.tensors, values=[99]
    )
    assert refusal(lambda: execute(stub, wrong_question))[1] == "MISSING_NODE"
    calls = [Call("leaf"), Call("einsum", (("subscripts", "ij->"),), 1)]
    wrong_block = Execute(
        session,
        seq=1,
        digest=b"d",
        block=block(calls, [0, 1], [0], 1, []),
        tensors=[np.array(3.0)],
    )
    _, reason, facts = refusal(lambda: execute(stub, wrong_block))
    assert (reason, facts["op"], facts["step"]) == ("EINSUM_RANK", "einsum", "1")
    ref = service_pb2.SessionRef(id=session)
    assert (
        refusal(lambda: stub.GetSession(service_pb2.GetSessionRequest(session=ref)))[1]
        == "SESSION_NOT_FOUND"
    ), "what was refused opened nothing"
    execute(stub, good)


@pytest.mark.parametrize(
    "bad",
    [
        block([Call("add", (), 2)], [0], [0, 5], 1, []),
        block([Call("add", (), 2)], [0], [0], 1, []),
        block([Call("add", (), 2)], [1], [0, 0], 1, []),
        block([Call("leaf", (), 1)], [0], [0], 1, []),
        block([Call("leaf")], [0, 0], [], 1, []),
        block([Call("leaf"), Call("add", (), 2, 3)], [0, 1], [0, 0], 1, []),
        block([Call("skip"), Call("add", (), 2)], [0, 1], [0, 0], 1, []),
        BlockCall(b"0" * 32, b"not what the hash says", 1, []),
        BlockCall(codec.block_hash(b"\xff\xff"), b"\xff\xff", 1, []),
    ],
)
def test_blocks_that_cannot_be(stub: Any, bad: BlockCall) -> None:
    request = Execute(
        secrets.token_bytes(16), seq=1, digest=b"d", block=bad, tensors=[np.array(1.0)]
    )
    assert refusal(lambda: execute(stub, request))[1] == "MALFORMED_REQUEST"


def test_a_known_block_needs_only_its_hash(stub: Any) -> None:
    session = secrets.token_bytes(16)
    execute(stub, doubling(1, session))
    request = doubling(2, session, base=10)
    assert request.block is not None
    named = BlockCall(request.block.hash, None, 10, [])
    execute(stub, Execute(session, seq=2, digest=b"d", block=named, tensors=request.tensors))
    unknown = BlockCall(codec.block_hash(secrets.token_bytes(8)), None, 20, [])
    asked = Execute(session, seq=3, digest=b"d", block=unknown)
    assert refusal(lambda: execute(stub, asked))[:2] == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "BLOCK_UNKNOWN",
    )


def test_a_step_fails_alone_and_the_answer_says_which(stub: Any) -> None:
    session = secrets.token_bytes(16)
    calls = [Call("leaf"), Call("linalg.cholesky", (), 1), Call("sum", (), 1)]
    request = Execute(
        session,
        seq=1,
        digest=b"d",
        block=block(calls, [0, 1, 2, 2], [0, 1, 0], 1, []),
        tensors=[-np.eye(2)],
        values=[4],
    )
    answer = execute(stub, request)
    assert [(each.node, each.reason, list(each.dependants)) for each in answer.failures] == [
        (2, "NOT_POSITIVE_DEFINITE", [3])
    ]
    assert tensors.read(answer.tensors[answer.values[0]]) == -2.0
    asked = execute(stub, Execute(session, seq=2, digest=b"e", values=[1, 3]))
    assert asked.question_failure.reason == "NOT_POSITIVE_DEFINITE"
    assert asked.question_failure.metadata["op"] == "linalg.cholesky"
    ref = service_pb2.SessionRef(id=session)
    get = service_pb2.GetValueRequest(session=ref, node=3)
    assert refusal(lambda: stub.GetValue(get))[:2] == (
        grpc.StatusCode.INVALID_ARGUMENT,
        "NOT_POSITIVE_DEFINITE",
    )


def test_what_the_stock_writer_writes_is_what_ours_does() -> None:
    arrays = [np.arange(6.0).reshape(2, 3), np.array(2 + 1j), np.zeros((0, 4), np.float32)]
    message = service_pb2.ExecuteRequest(seq=7)
    for array in arrays:
        tensors.fill(message.tensors.add(), array)
    header = service_pb2.ExecuteRequest(seq=7).SerializeToString()
    ours = service_pb2.ExecuteRequest.FromString(tensors.join(header, arrays))
    assert ours == message
    for array, back in zip(arrays, tensors.read_all(ours.tensors), strict=True):
        np.testing.assert_array_equal(array, back)
        assert (array.shape, array.dtype) == (back.shape, back.dtype)
