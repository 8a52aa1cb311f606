"""ExecuteStream as any language sees it: generated classes, written and read by hand."""

from __future__ import annotations

import queue
import secrets
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import google_crc32c
import grpc
import numpy as np
import pytest
from tests.client.proxy import Proxy
from tests.client.waiting import wait_until
from tests.contract.refusals import refusal

from backhaul_proto import codec, tensors
from backhaul_proto.messages import Block, Call
from backhaul_proto.v1 import service_pb2, service_pb2_grpc
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

Array = np.ndarray[Any, Any]
Message = service_pb2.ExecuteStreamRequest
MEMORY = 200_000_000
ARRAY = np.random.default_rng(0).normal(size=100_000)


class Service(NamedTuple):
    server: Server
    stub: Any
    dispatcher: Dispatcher

    @property
    def held(self) -> int:
        return self.dispatcher.pool.used


@pytest.fixture(scope="module")
def service() -> Iterator[Service]:
    dispatcher = Dispatcher(Engine(), memory=MEMORY, session_memory=MEMORY)
    server = Server(dispatcher, ["127.0.0.1:0"], streams=2)
    server.start()
    with grpc.insecure_channel(server.targets[0].removeprefix("grpc://")) as channel:
        yield Service(server, service_pb2_grpc.BackhaulServiceStub(channel), dispatcher)
    server.stop(None)


def header(*arrays: Array, seq: int = 1, **more: Any) -> service_pb2.ExecuteRequest:
    """Leaves of these arrays, in chunks, and the first one's value."""
    block = codec.write_block(Block(0, [Call("leaf")], [0] * len(arrays), []))
    message = service_pb2.ExecuteRequest(seq=seq, digest=b"d", values=[1], **more)
    message.session.id = secrets.token_bytes(16)
    message.block.hash, message.block.block = codec.block_hash(block), block
    message.block.base_id = 1
    for each in arrays:
        tensor = message.tensors.add(dtype=tensors.number_of(each.dtype), shape=each.shape)
        tensor.chunked.SetInParent()
    return message


def chunks(data: bytes, size: int = 300_000) -> list[Message]:
    pieces = [data[at : at + size] for at in range(0, len(data), size)]
    return [
        Message(chunk=service_pb2.Chunk(crc32c=google_crc32c.value(each), data=each))
        for each in pieces
    ]


def told(service: Service, messages: Any) -> tuple[grpc.StatusCode, str, dict[str, str]]:
    """The error of a stream of these messages: status, reason and facts."""
    return refusal(lambda: list(service.stub.ExecuteStream(iter(messages), timeout=120)))


def read(messages: list[Any]) -> tuple[service_pb2.ExecuteResponse, bytes]:
    first, *rest = messages
    assert first.WhichOneof("part") == "header"
    for each in rest:
        assert google_crc32c.value(each.chunk.data) == each.chunk.crc32c
    return first.header, b"".join(each.chunk.data for each in rest)


def test_leaves_go_up_and_a_value_comes_down(service: Service) -> None:
    request = header(ARRAY, ARRAY[:10])
    sent = [Message(header=request), *chunks(ARRAY.tobytes() + ARRAY[:10].tobytes())]
    answer, data = read(list(service.stub.ExecuteStream(iter(sent), timeout=120)))
    assert data == ARRAY.tobytes()
    assert answer.tensors[answer.values[0]].WhichOneof("content") == "chunked"
    assert list(answer.tensors[answer.values[0]].shape) == [100_000]
    assert answer.limits.session_memory == MEMORY
    again, data = read(list(service.stub.ExecuteStream(iter(sent), timeout=120)))
    assert data == ARRAY.tobytes()
    assert again.base_id == answer.base_id
    info = service.stub.GetSession(service_pb2.GetSessionRequest(session=request.session))
    assert (info.nodes, info.last_seq) == (2, 1)
    service.stub.CloseSession(service_pb2.CloseSessionRequest(session=request.session))
    assert service.held == 0


def test_a_small_request_needs_no_chunks(service: Service) -> None:
    request = header()
    request.block.Clear()
    request.ClearField("block")
    request.ClearField("values")
    answers = list(service.stub.ExecuteStream(iter([Message(header=request)]), timeout=120))
    assert read(answers)[1] == b""
    service.stub.CloseSession(service_pb2.CloseSessionRequest(session=request.session))


DATA = ARRAY.tobytes()
CHUNKS = chunks(DATA)
WRONG = Message(chunk=service_pb2.Chunk(crc32c=1, data=DATA[:300_000]))
EMPTY = Message(chunk=service_pb2.Chunk())


BAD = [
    ("nothing", [], "MALFORMED_REQUEST"),
    ("no header", CHUNKS, "MALFORMED_REQUEST"),
    ("empty message", [Message()], "MALFORMED_REQUEST"),
    ("too few", [header(ARRAY), *CHUNKS[:-1]], "MALFORMED_REQUEST"),
    ("none", [header(ARRAY)], "MALFORMED_REQUEST"),
    ("too many", [header(ARRAY), *CHUNKS, CHUNKS[0]], "MALFORMED_REQUEST"),
    ("two headers", [header(ARRAY), CHUNKS[0], header(ARRAY)], "MALFORMED_REQUEST"),
    ("empty chunk", [header(ARRAY), CHUNKS[0], EMPTY], "MALFORMED_REQUEST"),
    ("wrong checksum", [header(ARRAY), WRONG, *CHUNKS[1:]], "CHUNK_CHECKSUM"),
]


@pytest.mark.parametrize(
    ("messages", "reason"), [(m, r) for _, m, r in BAD], ids=[b[0] for b in BAD]
)
def test_what_is_wrong_is_refused_and_leaves_nothing(
    service: Service, messages: list[Any], reason: str
) -> None:
    sent = [each if isinstance(each, Message) else Message(header=each) for each in messages]
    status, found, _ = told(service, sent)
    assert found == reason
    data_loss = status is grpc.StatusCode.DATA_LOSS
    assert data_loss if reason == "CHUNK_CHECKSUM" else status is grpc.StatusCode.INVALID_ARGUMENT
    wait_until(lambda: service.server._stream._free._value == 2)
    assert service.held == 0
    assert len(service.dispatcher._sessions) == 0


@contextmanager
def unending(first: service_pb2.ExecuteRequest) -> Iterator[Iterator[Message]]:
    """A header, and after it nothing, but no end either."""
    waiting: queue.SimpleQueue[Message | None] = queue.SimpleQueue()
    waiting.put(Message(header=first))
    try:
        yield iter(waiting.get, None)
    finally:
        waiting.put(None)


def test_what_never_fits_is_refused_before_any_chunk(service: Service) -> None:
    large = np.broadcast_to(np.float64(0.0), (MEMORY // 8 + 1,))
    with unending(header(large)) as messages:
        assert told(service, messages) == (
            grpc.StatusCode.RESOURCE_EXHAUSTED,
            "MEMORY_LIMIT_EXCEEDED",
            {"needed": str(large.nbytes), "limit": str(MEMORY)},
        )
    assert service.held == 0


def test_what_is_of_no_session_is_refused_before_any_chunk(service: Service) -> None:
    with unending(header(ARRAY, seq=2)) as messages:
        assert told(service, messages)[1] == "SESSION_NOT_FOUND"


def test_an_unknown_block_is_told_before_any_chunk(service: Service) -> None:
    request = header(ARRAY)
    request.block.block = b""
    request.block.hash = secrets.token_bytes(32)
    with unending(request) as messages:
        assert told(service, messages)[1] == "BLOCK_UNKNOWN"


def test_what_is_declared_is_set_aside_until_the_stream_ends(service: Service) -> None:
    array = np.zeros(MEMORY // 8 * 3 // 5)
    with unending(header(array)) as messages:
        call = service.stub.ExecuteStream(messages, timeout=120)
        wait_until(lambda: service.held == array.nbytes)
        with unending(header(array)) as later:  # waits for the memory, in which it would have room
            second = service.stub.ExecuteStream(later, timeout=120)
            wait_until(lambda: service.dispatcher.pool.waiting == 1)
            assert service.held == array.nbytes
            call.cancel()
            wait_until(lambda: service.dispatcher.pool.waiting == 0)
            assert service.held == array.nbytes
            second.cancel()
            wait_until(lambda: service.held == 0)


def test_streams_are_limited_and_other_calls_are_not_kept_waiting(service: Service) -> None:
    with unending(header(ARRAY)) as one, unending(header(ARRAY)) as two:
        calls = [service.stub.ExecuteStream(each, timeout=120) for each in (one, two)]
        wait_until(lambda: service.held == 2 * ARRAY.nbytes)
        _, reason, facts = told(service, [Message(header=header(ARRAY))])
        assert reason == "SERVER_BUSY"
        assert facts.pop("retry_after")  # seconds
        assert facts == {"streams": "2"}
        assert service.stub.GetServerInfo(service_pb2.GetServerInfoRequest(), timeout=120).version
        for call in calls:
            call.cancel()
        wait_until(lambda: service.held == 0)


def test_a_slow_reader_does_not_make_the_server_send_ahead(service: Service) -> None:
    array = np.zeros(MEMORY // 8 // 2)
    sent = [Message(header=header(array)), *chunks(array.tobytes(), 1 << 20)]
    proxy = Proxy(service.server.targets[0])
    with grpc.insecure_channel(proxy.target.removeprefix("grpc://")) as channel:
        stub = service_pb2_grpc.BackhaulServiceStub(channel)
        call = stub.ExecuteStream(iter(sent), timeout=60)
        assert next(call).WhichOneof("part") == "header"
        assert settled(lambda: proxy.down) < array.nbytes // 4
        assert sum(len(each.chunk.data) for each in call) == array.nbytes
    proxy.close()


def settled(count: Callable[[], int]) -> int:
    """The number, when it does not grow any more."""
    before, now = -1, count()
    while now != before:
        threading.Event().wait(0.2)
        before, now = now, count()
    return now


def test_chunked_tensors_are_for_streams_only(service: Service) -> None:
    _, reason, facts = refusal(lambda: service.stub.Execute(header(ARRAY), timeout=120))
    assert (reason, facts["operand"]) == ("MALFORMED_REQUEST", "tensor 0")


def test_an_answer_above_what_the_caller_takes_is_refused_and_can_be_had(service: Service) -> None:
    request = header(ARRAY, max_response_bytes=800_000)
    del request.tensors[:]
    tensors.fill(request.tensors.add(), ARRAY)
    _, reason, facts = refusal(lambda: service.stub.Execute(request, timeout=120))
    assert (reason, facts["too_large"], facts["limit"]) == ("MESSAGE_TOO_LARGE", "answer", "800000")
    needed = int(facts["needed"])
    assert 800_000 < needed < 801_000
    info = service.stub.GetSession(service_pb2.GetSessionRequest(session=request.session))
    assert (info.nodes, info.last_seq) == (1, 1)
    answer, data = read(
        list(service.stub.ExecuteStream(iter([Message(header=request)]), timeout=120))
    )
    assert data == ARRAY.tobytes()
    request.max_response_bytes = needed
    unary = service.stub.Execute(request, timeout=120)
    assert unary.ByteSize() == needed
    assert unary.tensors[0].data == ARRAY.tobytes()
    assert unary.base_id == answer.base_id
    service.stub.CloseSession(service_pb2.CloseSessionRequest(session=request.session))
