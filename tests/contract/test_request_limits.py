"""Limits of a request, each hit from a raw stub: a typed error with numbers, and others compute on."""

from __future__ import annotations

import gc
import secrets
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import grpc
import numpy as np
import pytest
from tests.chaos.processes import resident
from tests.contract.refusals import refusal

from backhaul_proto import bounds, codec, tensors
from backhaul_proto.messages import Block, Call
from backhaul_proto.v1 import graph_pb2, service_pb2, service_pb2_grpc, tensor_pb2

FLOAT64 = tensor_pb2.DATA_TYPE_FLOAT64
INVALID = grpc.StatusCode.INVALID_ARGUMENT
EXHAUSTED = grpc.StatusCode.RESOURCE_EXHAUSTED
Ask = Callable[[Any, Any], Any]


@pytest.fixture(scope="module")
def stub(target: str) -> Iterator[Any]:
    large = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(target.removeprefix("grpc://"), large) as channel:
        yield service_pb2_grpc.BackhaulServiceStub(channel)


@pytest.fixture
def session(stub: Any) -> Any:
    return opened(stub)


def opened(stub: Any) -> Any:
    ref = service_pb2.SessionRef(id=secrets.token_bytes(16))
    ref.epoch = stub.OpenSession(service_pb2.OpenSessionRequest(session=ref)).epoch
    return ref


def leaf(stub: Any, session: Any, value: Any) -> int:
    message = tensor_pb2.Tensor()
    tensors.fill(message, np.asarray(value, float))
    node: int = stub.Leaf(service_pb2.LeafRequest(session=session, value=message)).node.node
    return node


def executed(stub: Any, session: Any, **fields: Any) -> Any:
    return stub.Execute(service_pb2.ExecuteRequest(session=session, **fields))


def block(stub: Any, session: Any, data: bytes, **more: Any) -> Any:
    call = graph_pb2.BlockCall(hash=codec.block_hash(data), block=data, **more)
    return executed(stub, session, block=call)


def a_call(stub: Any, session: Any, **of: Any) -> Any:
    call = graph_pb2.Call(**{"op": "sum", **of})
    return block(stub, session, graph_pb2.Block(calls=[call]).SerializeToString())


def infer(stub: Any, op: str, count: int = 1, shape: Any = (2,), **attributes: Any) -> Any:
    operand = tensor_pb2.TensorType(dtype=FLOAT64, shape=shape)
    given = [codec.attribute_message(name, value) for name, value in attributes.items()]
    request = service_pb2.InferRequest(op=op, operands=[operand] * count, attributes=given)
    return stub.Infer(request)


def nodes(count: int) -> list[int]:
    return [1] * count


def many_attributes(stub: Any, session: Any) -> Any:
    given = [codec.attribute_message("axis", (0,) * (bounds.MAX_ATTRIBUTE_BYTES + 1))]
    return a_call(stub, session, attributes=given)


REQUEST: dict[str, tuple[Ask, int]] = {
    "steps": (
        lambda stub, session: block(
            stub, session, graph_pb2.Block(steps=[0] * (bounds.MAX_STEPS + 1)).SerializeToString()
        ),
        bounds.MAX_STEPS,
    ),
    "operands of a block": (
        lambda stub, session: block(
            stub,
            session,
            graph_pb2.Block(operands=[0] * (bounds.MAX_BLOCK_OPERANDS + 1)).SerializeToString(),
        ),
        bounds.MAX_BLOCK_OPERANDS,
    ),
    "operands of a step": (
        lambda stub, session: a_call(stub, session, operand_count=bounds.MAX_OPERANDS + 1),
        bounds.MAX_OPERANDS,
    ),
    "results of a step": (
        lambda stub, session: a_call(stub, session, result_count=bounds.MAX_RESULTS + 1),
        bounds.MAX_RESULTS,
    ),
    "inputs": (
        lambda stub, session: block(
            stub, session, graph_pb2.Block(input_count=bounds.MAX_NAMED + 1).SerializeToString()
        ),
        bounds.MAX_NAMED,
    ),
    "attributes of a step": (many_attributes, bounds.MAX_ATTRIBUTE_BYTES),
    "name of an attribute": (
        lambda stub, session: infer(stub, "sum", **{"x" * (bounds.MAX_NAME_BYTES + 1): 1}),
        bounds.MAX_NAME_BYTES,
    ),
    "name of an op": (
        lambda stub, session: infer(stub, "x" * (bounds.MAX_NAME_BYTES + 1)),
        bounds.MAX_NAME_BYTES,
    ),
    "values": (
        lambda stub, session: executed(stub, session, values=nodes(bounds.MAX_NAMED + 1)),
        bounds.MAX_NAMED,
    ),
    "release": (
        lambda stub, session: executed(stub, session, release=nodes(bounds.MAX_NAMED + 1)),
        bounds.MAX_NAMED,
    ),
    "release at once": (
        lambda stub, session: stub.Release(
            service_pb2.ReleaseRequest(session=session, nodes=nodes(bounds.MAX_NAMED + 1))
        ),
        bounds.MAX_NAMED,
    ),
    "wrt": (
        lambda stub, session: stub.Pullback(
            service_pb2.PullbackRequest(
                session=session, loss=1, wrt=service_pb2.Wrt(nodes=nodes(bounds.MAX_NAMED + 1))
            )
        ),
        bounds.MAX_NAMED,
    ),
    "linear": (
        lambda stub, session: stub.Hvp(
            service_pb2.HvpRequest(session=session, loss=1, linear=nodes(bounds.MAX_NAMED + 1))
        ),
        bounds.MAX_NAMED,
    ),
    "cotangents": (
        lambda stub, session: stub.Pullback(
            service_pb2.PullbackRequest(
                session=session,
                loss=1,
                cotangents=[graph_pb2.Operand(node=1)] * (bounds.MAX_SETS + 1),
            )
        ),
        bounds.MAX_SETS,
    ),
    "directions": (
        lambda stub, session: stub.Hvp(
            service_pb2.HvpRequest(
                session=session,
                loss=1,
                directions=[service_pb2.Direction()] * (bounds.MAX_SETS + 1),
            )
        ),
        bounds.MAX_SETS,
    ),
    "arrays": (
        lambda stub, session: executed(
            stub, session, tensors=[tensor_pb2.Tensor()] * (bounds.MAX_TENSORS + 1)
        ),
        bounds.MAX_TENSORS,
    ),
    "operands without a session": (
        lambda stub, session: infer(stub, "concat", bounds.MAX_OPERANDS + 1),
        bounds.MAX_OPERANDS,
    ),
    "results that nobody counted": (
        lambda stub, session: infer(stub, "unstack", shape=(10**9, 0)),
        bounds.MAX_RESULTS,
    ),
    "memory of fields": (
        lambda stub, session: executed(stub, session, values=nodes(40_000_000)),
        bounds.MAX_FIELD_BYTES,
    ),
}
"""What is beyond a limit, and the limit."""


@pytest.mark.parametrize("what", REQUEST)
def test_what_is_beyond_a_limit_is_refused_with_the_numbers(
    stub: Any, session: Any, what: str
) -> None:
    other = opened(stub)
    x = leaf(stub, other, 3.0)
    ask, limit = REQUEST[what]
    code, reason, facts = refusal(lambda: ask(stub, session))
    assert (code, reason) == (INVALID, "REQUEST_LIMIT")
    assert int(facts["limit"]) == limit
    assert int(facts["actual"]) > limit
    # Nothing of it was run, and another session computes on.
    held = stub.GetSession(service_pb2.GetSessionRequest(session=session))
    assert (held.nodes, held.bytes) == (0, 0)
    got = stub.GetValue(service_pb2.GetValueRequest(session=other, node=x))
    assert tensors.read(got.value) == 3.0


SHAPES = {
    "65 axes": ((1,) * 65, "MALFORMED_REQUEST"),
    "a million axes": ((1,) * 10**6, "MALFORMED_REQUEST"),
    "a negative size": ((2, -1), "MALFORMED_REQUEST"),
    "an overflow": ((2**32, 2**32), "MALFORMED_REQUEST"),
    "an overflow to zero": ((2**62, 2**62, 0), "MALFORMED_REQUEST"),
    "bytes that overflow": ((2**61,), "MALFORMED_REQUEST"),
}


@pytest.mark.parametrize("what", SHAPES)
def test_shapes_that_no_array_has(stub: Any, session: Any, what: str) -> None:
    shape, reason = SHAPES[what]
    array = tensor_pb2.Tensor(dtype=FLOAT64, shape=shape, data=b"")
    request = service_pb2.LeafRequest(session=session, value=array)
    assert refusal(lambda: stub.Leaf(request))[:2] == (INVALID, reason)
    assert refusal(lambda: infer(stub, "sum", shape=shape))[:2] == (INVALID, reason)


def test_nodes_of_a_session(
    stub: Any, session: Any, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> None:
    if request.config.getoption("--target"):
        pytest.skip("the limit is another in this process alone, and the server is elsewhere")
    monkeypatch.setattr(bounds, "MAX_NODES", 100)
    x = leaf(stub, session, 1.0)
    calls = [Call("sin", operand_count=1)]
    chain = codec.write_block(Block(1, calls, [0] * 99, list(range(99))))
    done = block(stub, session, chain, inputs=[x])
    with_one_more = service_pb2.EinsumRequest(session=session, subscripts="->", operands=[x])
    code, reason, facts = refusal(lambda: stub.Einsum(with_one_more))
    assert (code, reason) == (EXHAUSTED, "QUOTA_EXCEEDED")
    assert (facts["limit"], facts["actual"]) == ("100", "101")
    # Nodes that a gradient needs count although nobody can name them.
    names = [done.base_id + i for i in range(98)]
    stub.Release(service_pb2.ReleaseRequest(session=session, nodes=names))
    assert refusal(lambda: stub.Einsum(with_one_more))[1] == "QUOTA_EXCEEDED"
    stub.Release(service_pb2.ReleaseRequest(session=session, nodes=[done.base_id + 98]))
    assert stub.Einsum(with_one_more).node.node > 0
    assert leaf(stub, opened(stub), 1.0) == 1


def test_refusals_leave_no_memory_behind(stub: Any, session: Any) -> None:
    given = [codec.attribute_message("axis", (0,) * (bounds.MAX_ATTRIBUTE_BYTES + 1))]
    data = graph_pb2.Block(calls=[graph_pb2.Call(op="sum", attributes=given)]).SerializeToString()

    def refused() -> None:
        with pytest.raises(grpc.RpcError):
            block(stub, session, data)

    for _ in range(20):
        refused()
    gc.collect()
    before = resident()
    for _ in range(100):  # each has a megabyte and more
        refused()
    gc.collect()  # pytest's records of what was raised
    assert resident() - before < 48 << 20


NETWORK = [(i, i + 1) for i in range(1000)] + [(i, (i * 37) % 1000 + 1) for i in range(1000)]


@pytest.mark.parametrize("optimize", ["auto", "auto-hq", "random-greedy-128"])
def test_a_search_for_an_order_stops_at_the_deadline(stub: Any, optimize: str) -> None:
    operand = tensor_pb2.TensorType(dtype=FLOAT64, shape=(2, 2))
    given: dict[str, Any] = {"labels": tuple(NETWORK), "output": (), "optimize": optimize}
    attributes = [codec.attribute_message(name, value) for name, value in given.items()]
    request = service_pb2.ContractPathRequest(
        operands=[operand] * len(NETWORK), attributes=attributes
    )
    with pytest.raises(grpc.RpcError) as late:
        stub.ContractPath(request, timeout=0.2)
    error: Any = late.value
    assert error.code() == grpc.StatusCode.DEADLINE_EXCEEDED
    # It has stopped on the server too: what comes after it need not wait for it.
    trace = [codec.attribute_message("subscripts", "ii->")]
    small = service_pb2.ContractPathRequest(operands=[operand], attributes=trace)
    assert stub.ContractPath(small, timeout=60).largest_intermediate == 1


def test_messages_in_messages_are_read_to_a_depth(target: str, session: Any) -> None:
    data = service_pb2.GetSessionRequest(session=session).SerializeToString()
    data += b"\x9b\x06" * 1000 + b"\x9c\x06" * 1000  # groups, which nest without lengths
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        raw: Any = channel.unary_unary("/backhaul.v1.BackhaulService/GetSession")
        assert refusal(lambda: raw(data))[:2] == (INVALID, "MALFORMED_REQUEST")


def test_dtypes_as_text_are_names_and_nothing_else(stub: Any) -> None:
    for text in ("(" * 10_000, "(2,3)f8", "f8,f4", "{'a': 1}", "float64 ", "x" * 30):
        code, reason, _ = refusal(partial(infer, stub, "astype", dtype=text))
        assert (code, reason) == (INVALID, "DTYPE_NOT_SUPPORTED")
