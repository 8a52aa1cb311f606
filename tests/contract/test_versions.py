"""Clients and servers of different versions: each passes over what it does not know."""

from __future__ import annotations

import hashlib
import secrets
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.contract import versions
from tests.contract.refusals import refusal
from tests.contract.relay import Relay, relaying
from tests.contract.versions import Protocol

import backhaul as bh
from backhaul_proto.messages import SERVICE
from backhaul_proto.v1 import service_pb2
from backhaul_server.service.dispatch import DEFAULT_MAX_MESSAGE_BYTES

Array = np.ndarray[Any, Any]
FLOAT64 = 11

VERSIONS = {
    "of the baseline": versions.committed,
    "of the first version": versions.first,
    "of a later version": versions.later,
}


@pytest.fixture(scope="module", params=VERSIONS)
def files(request: pytest.FixtureRequest) -> versions.Files:
    return VERSIONS[request.param]()


@pytest.fixture(scope="module")
def protocol(files: versions.Files) -> Protocol:
    return versions.made_of(files)


# Their client, today's server


class Client:
    """Calls by name, of messages made from descriptors. It keeps what it sent and was answered."""

    def __init__(self, channel: grpc.Channel, protocol: Protocol) -> None:
        self._channel = channel
        self.protocol = protocol
        self.sent: list[bytes] = []
        self.answered: list[Any] = []

    def __call__(self, name: str, **fields: Any) -> Any:
        method = self.protocol.methods[name]
        request = self.protocol.make(method.input_type.name, **fields)
        stub: Any = self._channel.unary_unary(
            f"/{SERVICE}/{name}",
            request_serializer=type(request).SerializeToString,
            response_deserializer=self.protocol.classes[method.output_type.name].FromString,
        )
        self.sent.append(request.SerializeToString())
        self.answered.append(stub(request, timeout=120))
        return self.answered[-1]

    def array(self, value: Array) -> Any:
        return self.protocol.make(
            "Tensor", dtype=FLOAT64, shape=value.shape, data=value.astype("<f8").tobytes()
        )


@pytest.fixture
def client(target: str, protocol: Protocol) -> Iterator[Client]:
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        yield Client(channel, protocol)


def elements(tensor: Any) -> Array:
    assert tensor.dtype == FLOAT64
    return np.frombuffer(tensor.data, "<f8").reshape(tuple(tensor.shape))


def network(client: Client) -> dict[str, Any]:
    """a, b with a tangent, c = a b, and loss = sum of c²: the nodes 1 to 4."""

    def einsum(subscripts: str) -> dict[str, Any]:
        attribute = {"name": "subscripts", "string_value": subscripts}
        return {"op": "einsum", "operand_count": 2, "attributes": [attribute]}

    calls = [
        {"op": "leaf"},
        {"op": "leaf_with_tangent"},
        einsum("ij,jk->ik"),
        einsum("ij,ij->"),
    ]
    block = client.protocol.make(
        "Block", calls=calls, steps=[0, 1, 2, 3], operands=[0, 1, 2, 2]
    ).SerializeToString()
    return {"hash": hashlib.sha256(block).digest(), "block": block, "base_id": 1}


def test_another_client_gets_the_right_answers_of_todays_server(client: Client) -> None:
    a, b, tangent = np.ones((2, 3)), np.full((3, 4), 2.0), np.ones((3, 4))
    ref = {"id": secrets.token_bytes(16)}
    opened = client("OpenSession", session=ref)
    ref["epoch"] = opened.epoch
    assert opened.limits.max_message_bytes == DEFAULT_MAX_MESSAGE_BYTES
    answer = client(
        "Execute",
        session=ref,
        seq=1,
        digest=b"first",
        block=network(client),
        values=[3],
        pullback={"loss": 4, "wrt": {"nodes": [1, 2]}},
        tensors=[client.array(each) for each in (a, b, tangent)],
    )
    arrays = [elements(each) for each in answer.tensors]
    (gradients,) = answer.sets
    assert arrays[answer.loss_value] == 288.0
    np.testing.assert_array_equal(arrays[answer.values[0]], np.full((2, 4), 6.0))
    assert list(gradients.nodes) == [1, 2]
    np.testing.assert_array_equal(arrays[gradients.gradients[0]], np.full((2, 3), 96.0))
    np.testing.assert_array_equal(arrays[gradients.gradients[1]], np.full((3, 4), 24.0))

    answer = client("Execute", session=ref, seq=2, digest=b"second", hvp={"loss": 4})
    (products,) = answer.sets
    arrays = [elements(each) for each in answer.tensors]
    found = dict(zip(products.nodes, products.hvps, strict=True))
    # Along the tangent c moves by 3 everywhere, and dL/db by 2 aᵀ of that.
    np.testing.assert_array_equal(arrays[found[2]], np.full((3, 4), 12.0))

    value = client("GetValue", session=ref, node=3).value
    np.testing.assert_array_equal(elements(value), np.full((2, 4), 6.0))
    assert client("GetSession", session=ref).nodes == 4
    client("Release", session=ref, nodes=[3, 4])
    assert client("GetSession", session=ref).nodes == 2
    client("CloseSession", session=ref)
    assert refusal(lambda: client("GetValue", session=ref, node=1))[:2] == (
        grpc.StatusCode.FAILED_PRECONDITION,
        "SESSION_CLOSED",
    )


def test_single_calls_and_the_catalog(client: Client) -> None:
    ref = {"id": secrets.token_bytes(16)}
    client("OpenSession", session=ref)
    x = client("Leaf", session=ref, value=client.array(np.array([1.0, 2.0, 3.0]))).node.node
    total = client("Einsum", session=ref, subscripts="i,i,i->", operands=[x, x, x]).node.node
    answer = client("Pullback", session=ref, loss=total)
    assert elements(answer.value) == 36.0
    np.testing.assert_array_equal(elements(answer.sets[0].gradients[0].tensor), [3.0, 12.0, 27.0])
    axis = {"name": "axis", "int_value": 0}
    inferred = client(
        "Infer", op="sum", operands=[{"dtype": FLOAT64, "shape": [5, 2]}], attributes=[axis]
    )
    assert list(inferred.results[0].shape) == [2]
    assert "einsum" in [each.name for each in client("ListOps").ops]
    client("CloseSession", session=ref)


def test_what_the_other_side_does_not_know_did_travel(
    client: Client, files: versions.Files
) -> None:
    """Without this the tests above could pass on equal versions."""
    client("OpenSession", session={"id": secrets.token_bytes(16)})
    server_side = service_pb2.OpenSessionRequest.FromString(client.sent[0])
    is_later = versions.LATER in client.protocol.classes["Tensor"].DESCRIPTOR.fields_by_name
    assert (versions.unknown_bytes([server_side]) > 0) == is_later
    lacking = client.protocol.classes["Limits"].DESCRIPTOR.fields_by_name.keys()
    assert (versions.unknown_bytes(client.answered) > 0) == ("session_memory" not in lacking)


# Today's client, their server


@pytest.fixture
def other(target: str, protocol: Protocol) -> Iterator[tuple[bh.Connection, Relay]]:
    with relaying(target, protocol) as (where, relay), bh.connect(where, timeout=120) as connection:
        yield connection, relay


def test_todays_client_gets_the_right_answers_of_another_server(
    other: tuple[bh.Connection, Relay],
) -> None:
    connection, relay = other
    with bh.Tape(connection) as tape:
        a = tape.leaf(np.ones((2, 3)))
        b = tape.leaf_with_tangent(np.full((3, 4), 2.0), np.ones((3, 4)))
        c = bh.einsum("ij,jk->ik", a, b)
        loss = bh.einsum("ij,ij->", c, c)
        answer = tape.pullback(loss)
        assert float(answer.value) == 288.0
        np.testing.assert_array_equal(answer[a], np.full((2, 3), 96.0))
        np.testing.assert_array_equal(answer[b], np.full((3, 4), 24.0))
        np.testing.assert_array_equal(tape.hvp(loss).hvp[b], np.full((3, 4), 12.0))
        np.testing.assert_array_equal(c.numpy(), np.full((2, 4), 6.0))
        connection.renew_leases()
        del c
        assert float(tape.pullback(loss + 1.0).value) == 289.0
    assert {"Execute", "CloseSession"} <= set(relay.called)


def pushed(tape: bh.Tape) -> float:
    x = tape.leaf([1.0, 2.0])
    return float(tape.pushforward(bh.sum(x * x), tangents={x: [1.0, 1.0]}).tangent)


def kept_gradient(tape: bh.Tape) -> float:
    x = tape.leaf([1.0, 2.0])
    return float(bh.sum(tape.pullback(bh.sum(x * x), fetch=False)[x]).numpy())


def kept_product(tape: bh.Tape) -> float:
    x = tape.leaf_with_tangent([1.0, 2.0], [1.0, 2.0])
    return float(bh.sum(tape.hvp(bh.sum(x * x), fetch=False).hvp[x]).numpy())


def streamed(tape: bh.Tape) -> float:
    return float(bh.sum(tape.leaf(np.full(1_000_000, 6e-6))).numpy())


NEWER: dict[Callable[[bh.Tape], float], str] = {
    pushed: "ExecuteRequest.pushforward",
    kept_gradient: "PullbackQuestion.keep_from",
    kept_product: "HvpQuestion.keep_from",
    streamed: "BackhaulService.ExecuteStream",
}


@pytest.mark.parametrize("asked", NEWER)
def test_what_the_other_server_does_not_have_is_told(
    other: tuple[bh.Connection, Relay], protocol: Protocol, asked: Callable[[bh.Tape], float]
) -> None:
    holder, _, part = NEWER[asked].partition(".")
    if holder == "BackhaulService":
        known = part in protocol.methods
    else:
        known = part in protocol.classes[holder].DESCRIPTOR.fields_by_name
    connection, _ = other
    with bh.Tape(connection) as tape:
        if known:
            assert asked(tape) == pytest.approx(6.0)
        else:
            with pytest.raises(bh.VersionMismatch):
                asked(tape)
        x = tape.leaf(3.0)
        assert tape.pullback(x * x)[x] == 6.0, "the tape goes on"


def test_failed_steps_fail_alone(
    other: tuple[bh.Connection, Relay],
) -> None:
    connection, _ = other
    with bh.Tape(connection) as tape:
        inverse = bh.linalg.inv(tape.leaf(np.zeros((2, 2))))
        with pytest.raises(bh.LinearAlgebraError) as caught:
            inverse.numpy()
        assert caught.value.reason == "SINGULAR_MATRIX"
        assert tape.leaf(3.0).numpy() == 3.0
