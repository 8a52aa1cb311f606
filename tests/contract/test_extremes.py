"""Input at the edge of what can be, with one body for both transports; and the same from a raw stub."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from typing import Any

import grpc
import numpy as np
import pytest
from tests.contract.refusals import refusal

import backhaul as bh
from backhaul_proto.v1 import service_pb2, service_pb2_grpc, tensor_pb2

FLOAT64 = tensor_pb2.DATA_TYPE_FLOAT64


@pytest.mark.parametrize("path", [[(0, 1)], [(1, 0)], [(0,), (0, 1)]])
def test_a_path_may_name_the_operands_in_any_order(tape: bh.Tape, path: Any) -> None:
    a, b = np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([[0.0, 1.0], [5.0, 6.0]])
    x, y = tape.leaf(a), tape.leaf(b)
    product = bh.einsum("ij,jk->ik", x, y, path=path)
    np.testing.assert_array_equal(product.numpy(), a @ b)
    grads = tape.pullback(bh.sum(product))
    np.testing.assert_array_equal(grads[x], np.ones((2, 2)) @ b.T)


def test_a_repeated_output_label_is_a_diagonal_also_where_input_and_output_agree(
    tape: bh.Tape,
) -> None:
    a = np.array([[1.0, 2.0], [3.0, 4.0]])
    x = tape.leaf_with_tangent(a, np.ones((2, 2)))
    y = bh.einsum("ii->ii", x)
    np.testing.assert_array_equal(y.numpy(), np.diag(np.diag(a)))
    result = tape.hvp(bh.sum(y * y))
    np.testing.assert_array_equal(result.gradients[x], 2 * np.diag(np.diag(a)))
    np.testing.assert_array_equal(result.hvp[x], 2 * np.eye(2))


def test_shapes_that_no_array_has_are_refused_at_the_line(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(100))
    impossible: list[Callable[[], object]] = [
        lambda: bh.broadcast_to(tape.leaf(1.0), (2**40, 2**40)),
        lambda: bh.broadcast_to(tape.leaf(1.0), (2**62,)),
        lambda: bh.broadcast_to(tape.leaf(1.0), (2**62, 2**62, 0)),
        lambda: bh.reshape(x, (1,) * 64 + (100,)),
        lambda: bh.einsum("->k", tape.leaf(1.0), sizes={"k": 2**62}),
        lambda: bh.einsum("i->" + "i" * 10, x),
    ]
    for use in impossible:
        with pytest.raises(bh.BackhaulError) as refused:
            use()
        assert not isinstance(refused.value, bh.InternalError)
    np.testing.assert_array_equal(tape.pullback(bh.sum(x))[x], np.ones(100))


def test_more_memory_than_there_is_is_a_typed_error_and_the_tape_lives_on(tape: bh.Tape) -> None:
    x = tape.leaf(1.0)
    huge = bh.broadcast_to(x, (2**43,))
    with pytest.raises(bh.MemoryLimitExceeded):
        huge.numpy()
    del huge
    assert tape.pullback(x * x)[x] == 2.0


def test_far_diagonals(tape: bh.Tape) -> None:
    a = np.arange(6.0).reshape(2, 3)
    x = tape.leaf(a)
    for k in (-(2**63), -2, 0, 2, 2**62):
        np.testing.assert_array_equal(bh.tril(x, k=k).numpy(), np.tril(a, max(-2, min(k, 3))))


@pytest.mark.filterwarnings("ignore:the matrix subclass:PendingDeprecationWarning")
def test_dtypes_and_arrays_with_another_meaning_are_refused(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    for dtype in ("f2", "O", "U3", "M8[s]", "V4", np.longdouble):
        with pytest.raises(bh.InvalidArgument) as refused:
            bh.astype(x, dtype)
        assert refused.value.reason == "DTYPE_NOT_SUPPORTED"
    for value in (np.ma.masked_array([1.0, 2.0], [True, False]), np.matrix([[1.0, 2.0]])):
        with pytest.raises(bh.InvalidArgument):
            tape.leaf(value)
    assert tape.pullback(bh.sum(x))[x].tolist() == [1.0, 1.0]


# From a raw stub


@pytest.fixture(scope="module")
def stub(target: str) -> Any:
    channel = grpc.insecure_channel(target.removeprefix("grpc://"))
    yield service_pb2_grpc.BackhaulServiceStub(channel)
    channel.close()


@pytest.fixture
def session(stub: Any) -> Any:
    ref = service_pb2.SessionRef(id=secrets.token_bytes(16))
    stub.OpenSession(service_pb2.OpenSessionRequest(session=ref))
    return ref


def reason(call: Callable[[], object]) -> str:
    return refusal(call)[1]


@pytest.mark.parametrize("shape", [(2**62, 4, 0), (0, 2**61), (2**62, 2**62, 0), (1,) * 65])
def test_a_tensor_of_an_impossible_shape(stub: Any, session: Any, shape: tuple[int, ...]) -> None:
    tensor = tensor_pb2.Tensor(dtype=FLOAT64, shape=shape)
    leaf = service_pb2.LeafRequest(session=session, value=tensor)
    assert reason(lambda: stub.Leaf(leaf)) == "MALFORMED_REQUEST"
    execute = service_pb2.ExecuteRequest(session=session, tensors=[tensor])
    assert reason(lambda: stub.Execute(execute)) == "MALFORMED_REQUEST"


def test_requests_at_the_edge(stub: Any, session: Any) -> None:
    empty = tensor_pb2.Tensor(dtype=FLOAT64, shape=[0, 3])
    node = stub.Leaf(service_pb2.LeafRequest(session=session, value=empty)).node.node
    unstack = service_pb2.ApplyRequest(session=session, op="unstack", operands=[node])
    assert reason(lambda: stub.Apply(unstack)) == "SHAPE_MISMATCH"
    digest = service_pb2.ExecuteRequest(session=session, seq=1, digest=bytes(65))
    assert reason(lambda: stub.Execute(digest)) == "MALFORMED_REQUEST"


def test_a_plain_call_that_fails_leaves_no_node(stub: Any, session: Any) -> None:
    tensor = tensor_pb2.Tensor(dtype=FLOAT64, shape=[1, 1], data=np.array(-1.0).tobytes())
    node = stub.Leaf(service_pb2.LeafRequest(session=session, value=tensor)).node.node
    cholesky = service_pb2.ApplyRequest(session=session, op="linalg.cholesky", operands=[node])
    assert reason(lambda: stub.Apply(cholesky)) == "NOT_POSITIVE_DEFINITE"
    held = stub.GetSession(service_pb2.GetSessionRequest(session=session))
    assert held.nodes == 1


def test_a_direction_without_leaves_says_so(stub: Any, session: Any) -> None:
    tensor = tensor_pb2.Tensor(dtype=FLOAT64, data=np.array(1.0).tobytes())
    leaf = service_pb2.LeafRequest(session=session, value=tensor, tangent=tensor)
    node = stub.Leaf(leaf).node.node
    hvp = service_pb2.HvpRequest(session=session, loss=node, directions=[service_pb2.Direction()])
    assert reason(lambda: stub.Hvp(hvp)) == "HVP_WITHOUT_TANGENT"
