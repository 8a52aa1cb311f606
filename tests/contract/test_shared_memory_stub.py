"""Shared memory as any language sees it: a socket, a mapping, and what shared_memory.proto says."""

from __future__ import annotations

import mmap
import os
import secrets
import socket
import sys
import tempfile
from collections.abc import Iterator
from typing import Any

import grpc
import numpy as np
import pytest
from tests.contract.refusals import refusal

from backhaul_proto import codec, tensors
from backhaul_proto.messages import Block, BlockCall, Call, Execute, PullbackQuestion
from backhaul_proto.shared import Place, SharedArray
from backhaul_proto.v1 import service_pb2, service_pb2_grpc, shared_memory_pb2, tensor_pb2
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds are Linux's")

MB = 1 << 20
SHAPE = (100, 100)  # 80 kB
VALUE = np.random.default_rng(0).standard_normal(SHAPE)


class Client:
    """A stub, a side socket, and one segment."""

    def __init__(self, path: str) -> None:
        self.channel = grpc.insecure_channel(f"unix:{path}")
        self.stub: Any = service_pb2_grpc.BackhaulServiceStub(self.channel)
        self.side = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self.side.connect(path + ".shm")
        hello = self.heard()[0].hello
        assert (hello.version, hello.max_bytes) == (1, 8 * MB)
        made, descriptor = self.ask(allocate=shared_memory_pb2.AllocateSegment(bytes=MB))
        self.id = made.segment.id
        self.memory = mmap.mmap(descriptor[0], MB)
        os.close(descriptor[0])
        assert self.memory[:16] == made.segment.nonce
        assert (made.segment.bytes, len(self.id)) == (MB, 16)

    def close(self) -> None:
        self.side.close()
        self.channel.close()

    def ask(self, **request: Any) -> tuple[Any, list[int]]:
        self.side.send(shared_memory_pb2.SharedMemoryRequest(**request).SerializeToString())
        return self.heard()

    def heard(self) -> tuple[Any, list[int]]:
        packet, descriptors, _, _ = socket.recv_fds(self.side, 4096, 4)
        return shared_memory_pb2.SharedMemoryResponse.FromString(packet), descriptors

    def array(self, offset: int) -> Any:
        return np.frombuffer(self.memory, "<f8", VALUE.size, offset).reshape(SHAPE)

    def squared(
        self, session: bytes, offset: int, *buffers: Place, segment: bytes | None = None
    ) -> Any:
        """The sum of squares of a leaf at this offset, with its gradient."""
        calls = [
            Call("leaf"),
            Call("einsum", (("subscripts", "ij,ij->"),), 2),
        ]
        data = codec.write_block(Block(0, calls, [0, 1], [0, 0]))
        request = Execute(
            session,
            seq=1,
            block=BlockCall(codec.block_hash(data), data, 1),
            question=PullbackQuestion(2),
        )
        place = Place(self.id if segment is None else segment, offset, VALUE.nbytes)
        header = codec.write_execute(request)[0] + codec.write_response_buffers(buffers)
        message = tensors.join(header, [SharedArray(place, VALUE.dtype, SHAPE)])
        return self.stub.Execute(service_pb2.ExecuteRequest.FromString(message))


@pytest.fixture
def client() -> Iterator[Client]:
    with tempfile.TemporaryDirectory(prefix="bh") as folder:
        server = Server(Dispatcher(Engine()), [f"unix:{folder}/s"], shared_memory=16 * MB)
        server.start()
        made = Client(f"{folder}/s")
        yield made
        made.close()
        server.stop(None)


def test_a_leaf_and_its_gradient_by_shared_memory(client: Client) -> None:
    client.array(64)[:] = VALUE
    answer = client.squared(secrets.token_bytes(16), 64, Place(client.id, MB // 2, MB // 2))
    found = answer.tensors[answer.sets[0].gradients[0]]
    assert found.WhichOneof("content") == "shared"
    assert (found.shared.segment, found.shared.offset) == (client.id, MB // 2)
    np.testing.assert_array_equal(client.array(MB // 2), 2 * VALUE)
    loss = answer.tensors[answer.loss_value]
    assert loss.WhichOneof("content") == "data"
    np.testing.assert_allclose(tensors.read(loss), np.sum(VALUE**2))


def test_what_finds_no_room_comes_with_the_message(client: Client) -> None:
    client.array(0)[:] = VALUE
    answer = client.squared(secrets.token_bytes(16), 0, Place(client.id, MB // 2, VALUE.nbytes - 1))
    found = answer.tensors[answer.sets[0].gradients[0]]
    np.testing.assert_array_equal(tensors.read(found), 2 * VALUE)


def test_a_leaf_is_the_servers_own_once_the_answer_is_there(client: Client) -> None:
    client.array(0)[:] = VALUE
    session = secrets.token_bytes(16)
    epoch = client.squared(session, 0).epoch
    client.array(0)[:] = np.nan
    reference = service_pb2.SessionRef(id=session, epoch=epoch)
    value = client.stub.GetValue(service_pb2.GetValueRequest(session=reference, node=1)).value
    np.testing.assert_array_equal(tensors.read(value), VALUE)


@pytest.mark.parametrize(
    ("offset", "buffers", "operand"),
    [
        (8, [], "tensor 0"),
        (MB - 64, [], "tensor 0"),
        (1 << 63, [], "tensor 0"),
        (0, [(MB, 64)], "response buffer 0"),
        (0, [(MB // 2, 64), (64, 64)], "response buffer 1"),
        (0, [(MB // 2, 65), (MB // 2 + 64, 64)], "response buffer 1"),
    ],
)
def test_places_that_cannot_be_right_are_refused_and_nothing_has_changed(
    client: Client, offset: int, buffers: list[tuple[int, int]], operand: str
) -> None:
    session = secrets.token_bytes(16)
    places = [Place(client.id, *each) for each in buffers]
    status, reason, facts = refusal(lambda: client.squared(session, offset, *places))
    assert (status, reason) == (grpc.StatusCode.INVALID_ARGUMENT, "SEGMENT_RANGE")
    assert facts == {"operand": operand, "segment": client.id.hex()}
    client.array(0)[:] = VALUE
    assert client.squared(session, 0).sets  # seq 1 still: the session was not opened


def test_a_segment_that_is_not_there_any_more_is_unknown(client: Client) -> None:
    session = secrets.token_bytes(16)
    unknown = (grpc.StatusCode.FAILED_PRECONDITION, "SEGMENT_UNKNOWN")
    for name in (bytes(16), b"", b"x" * 10_000):
        found = refusal(lambda name=name: client.squared(session, 0, segment=name))  # type: ignore[misc]
        assert found[:2] == unknown
    assert client.ask(free=shared_memory_pb2.FreeSegment(id=client.id))[0].HasField("freed")
    status, reason, facts = refusal(lambda: client.squared(session, 0))
    assert (status, reason) == unknown
    assert facts == {"operand": "tensor 0", "segment": client.id.hex()}


def test_plain_calls_take_no_shared_tensors(client: Client) -> None:
    session = secrets.token_bytes(16)
    client.stub.OpenSession(
        service_pb2.OpenSessionRequest(session=service_pb2.SessionRef(id=session))
    )
    value = tensor_pb2.Tensor(dtype=tensor_pb2.DATA_TYPE_FLOAT64, shape=SHAPE)
    value.shared.segment = client.id
    request = service_pb2.LeafRequest(session=service_pb2.SessionRef(id=session), value=value)
    assert refusal(lambda: client.stub.Leaf(request))[1] == "SEGMENT_UNKNOWN"
