"""Chunks: what is written is read bit for bit, and what is not as declared is refused."""

from __future__ import annotations

import itertools
import tracemalloc
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import pytest

from backhaul_proto import tensors
from backhaul_proto.chunks import CHUNK_BYTES, MAX_CHUNK_BYTES, Incoming, Outgoing
from backhaul_proto.errors import ChecksumMismatch, InvalidArgument
from backhaul_proto.v1 import service_pb2

Array = np.ndarray[Any, Any]
Stream = service_pb2.ExecuteStreamRequest
HEADER = service_pb2.ExecuteRequest(seq=7, digest=b"d").SerializeToString()
DTYPES = (
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64"),
    *("float32", "float64", "complex64", "complex128"),
)


def random_bits(count: int, dtype: str = "float64", seed: int = 0) -> Array:
    """An array whose elements have any bits, NaN payloads among them."""
    size = np.dtype(dtype).itemsize
    data = np.random.default_rng(seed).integers(0, 256, count * size, np.uint8)
    return data > 127 if dtype == "bool" else data.view(dtype)


def read(messages: Iterable[bytes]) -> tuple[service_pb2.ExecuteRequest, Sequence[Array]]:
    incoming: Incoming[service_pb2.ExecuteRequest] = Incoming(Stream)
    for i, each in enumerate(messages):
        if i:
            incoming.feed(each)
        else:
            incoming.begin(each)
            incoming.allocate()
    return incoming.header, incoming.finish()


def crc32c(data: bytes) -> int:
    """RFC 3720's CRC, bit by bit."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = crc >> 1 ^ 0x82F63B78 * (crc & 1)
    return crc ^ 0xFFFFFFFF


def message_of(data: bytes, crc: int | None = None) -> bytes:
    """A chunk as a generated class writes it."""
    chunk = service_pb2.Chunk(crc32c=crc32c(data) if crc is None else crc, data=data)
    return Stream(chunk=chunk).SerializeToString()


def header_of(*shapes: tuple[int, ...], dtype: str = "uint8") -> bytes:
    message = Stream(header=service_pb2.ExecuteRequest(seq=1))
    for shape in shapes:
        each = message.header.tensors.add(
            dtype=tensors.number_of(np.dtype(dtype)),
            shape=shape,
        )
        each.chunked.SetInParent()
    return message.SerializeToString()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("extra", [-1, 0, 1])
def test_any_bits_of_any_dtype_come_as_they_were(dtype: str, extra: int) -> None:
    count = 2 * CHUNK_BYTES // np.dtype(dtype).itemsize + extra
    array = random_bits(count, dtype)
    header, (found,) = read(Outgoing(HEADER, [array]))
    assert (header.seq, header.digest) == (7, b"d")
    assert found.dtype == array.dtype
    assert found.tobytes() == array.tobytes()


def test_tensors_of_all_sizes_together() -> None:
    arrays: list[Array] = [
        np.array(3.0),
        random_bits(200_000),
        np.empty((0, 5)),
        random_bits(1_000_006, "uint8").reshape(7, -1),
        *(random_bits(20_000, seed=i) for i in range(12)),
    ]
    _, found = read(Outgoing(HEADER, arrays))
    assert [each.shape for each in found] == [each.shape for each in arrays]
    assert [each.tobytes() for each in found] == [each.tobytes() for each in arrays]


@pytest.mark.parametrize(
    "array",
    [
        random_bits(300_000).reshape(500, 600).T,
        random_bits(600_000)[::2],
        np.broadcast_to(random_bits(500), (400, 500)),
    ],
)
def test_views_travel_in_c_order(array: Array) -> None:
    _, (found,) = read(Outgoing(HEADER, [array]))
    assert found.shape == array.shape
    assert found.tobytes() == array.tobytes()


def test_small_tensors_stand_in_the_header_and_so_does_all_that_is_small_together() -> None:
    few = Outgoing(HEADER, [random_bits(8192) for _ in range(16)])  # 64 kiB each
    assert few.nbytes == 0
    assert len(list(few)) == 1
    assert Outgoing(HEADER, [random_bits(8192) for _ in range(17)]).nbytes == 8192 * 8
    assert Outgoing(HEADER, [random_bits(8193)]).nbytes == 8193 * 8


def test_generated_classes_read_what_is_written() -> None:
    array = random_bits(300_001)
    first, *rest = [Stream.FromString(each) for each in Outgoing(HEADER, [array])]
    assert first.header.seq == 7
    assert first.header.tensors[0].WhichOneof("content") == "chunked"
    assert list(first.header.tensors[0].shape) == [300_001]
    assert [len(each.chunk.data) for each in rest] == [
        *[CHUNK_BYTES] * 2,
        array.nbytes - 2 * CHUNK_BYTES,
    ]
    assert b"".join(each.chunk.data for each in rest) == array.tobytes()
    assert rest[-1].chunk.crc32c == crc32c(rest[-1].chunk.data)


def test_the_checksum_is_the_one_that_the_protocol_names() -> None:
    assert crc32c(b"123456789") == 0xE3069283
    _, (found,) = read([header_of((9,)), message_of(b"123456789", 0xE3069283)])
    assert found.tobytes() == b"123456789"


def test_chunks_may_be_cut_anywhere() -> None:
    arrays = [random_bits(50, "int16"), random_bits(7, "int16"), random_bits(90, "int16")]
    data = b"".join(each.tobytes() for each in arrays)
    cuts = [0, 1, 3, 99, 130, 131, len(data)]
    pieces = [data[a:b] for a, b in itertools.pairwise(cuts)]
    header = header_of((50,), (7, 1), (0,), (90,), dtype="int16")
    _, found = read([header, *map(message_of, pieces)])
    assert [each.tobytes() for each in (found[0], found[1], found[3])] == [
        each.tobytes() for each in arrays
    ]
    assert found[2].shape == (0,)


def test_fields_may_come_in_any_order() -> None:
    crc = b"\x0d" + crc32c(b"abc").to_bytes(4, "little")
    turned = b"\x7a\x03abc" + crc
    _, (found,) = read([header_of((3,)), b"\x12" + bytes((len(turned),)) + turned])
    assert found.tobytes() == b"abc"


def test_any_byte_but_zero_is_true() -> None:
    _, (found,) = read([header_of((4,), dtype="bool"), message_of(b"\x00\x01\x02\xff")])
    assert found.view(np.uint8).tolist() == [0, 1, 1, 1]


def test_a_large_chunk_is_taken() -> None:
    array = random_bits(MAX_CHUNK_BYTES, "uint8")
    incoming: Incoming[service_pb2.ExecuteRequest] = Incoming(Stream)
    incoming.begin(header_of(array.shape))
    incoming.allocate()
    incoming.feed(b"".join(_as_one_chunk(array)))
    (found,) = incoming.finish()
    assert found.tobytes() == array.tobytes()


def _as_one_chunk(array: Array) -> Iterable[bytes]:
    import google_crc32c

    crc = google_crc32c.value(array.tobytes())
    yield message_of(array.tobytes(), crc)


BAD: list[tuple[str, list[bytes], str]] = [
    ("no header first", [message_of(b"abc")], "header"),
    ("nothing in the first message", [b""], "header"),
    ("two headers", [header_of((3,)), header_of((3,))], "chunks"),
    ("an empty message", [header_of((3,)), b""], "chunks"),
    ("an empty chunk", [header_of((3,)), message_of(b"")], "at least one"),
    ("too few", [header_of((3,)), message_of(b"ab")], "2 of the 3"),
    ("none", [header_of((3,))], "0 of the 3"),
    ("too many", [header_of((3,)), message_of(b"abcd")], "3 of the 3"),
    ("too many in two", [header_of((3,)), message_of(b"abc"), message_of(b"d")], "0 of the 3"),
    ("more than none", [header_of((0,)), message_of(b"d")], "0 of the 0"),
    ("no message at all", [header_of((3,)), b"\x12\xff"], "no backhaul"),
    ("a negative size", [header_of((-3,))], "negative"),
]


@pytest.mark.parametrize(
    ("messages", "words"), [(m, w) for _, m, w in BAD], ids=[b[0] for b in BAD]
)
def test_what_is_not_as_declared_is_refused(messages: list[bytes], words: str) -> None:
    with pytest.raises(InvalidArgument, match=words) as error:
        read(messages)
    assert error.value.reason == "MALFORMED_REQUEST"


def test_every_flipped_bit_is_found() -> None:
    sent = message_of(b"abc")
    for bit in range(3 * 8):
        flipped = bytearray(sent)
        flipped[-3 + bit // 8] ^= 1 << bit % 8
        with pytest.raises(ChecksumMismatch) as error:
            read([header_of((3,)), bytes(flipped)])
        assert error.value.reason == "CHUNK_CHECKSUM"
        assert error.value.details == {"chunk": "0"}


@pytest.mark.parametrize("turned", [False, True])
def test_neither_end_holds_more_than_a_few_chunks_beside_the_array(turned: bool) -> None:
    array = random_bits(4_000_000).reshape(2000, 2000)
    given = array.T if turned else array
    incoming: Incoming[service_pb2.ExecuteRequest] = Incoming(Stream)
    tracemalloc.start()
    try:
        for i, each in enumerate(Outgoing(HEADER, [given])):
            if i:
                incoming.feed(each)
            else:
                incoming.begin(each)
                incoming.allocate()
        (found,) = incoming.finish()
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found.tobytes() == given.tobytes()
    assert peak < array.nbytes + 4 * CHUNK_BYTES
