"""Tensors in shared memory on the wire, and where they may stand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backhaul as bh
from backhaul_proto import codec, tensors
from backhaul_proto.shared import (
    MAX_SOCKET_PATH,
    Place,
    Placer,
    SharedArray,
    check_places,
    side_socket,
)
from backhaul_proto.v1 import service_pb2, tensor_pb2

SEGMENT = bytes(range(16))


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 300), (1,) * 20])
@pytest.mark.parametrize("dtype", ["bool", "float32", "complex128"])
@pytest.mark.parametrize("offset", [0, 64, 1 << 40])
def test_what_is_joined_is_protobuf_for_every_reader(
    shape: tuple[int, ...], dtype: str, offset: int
) -> None:
    place = Place(SEGMENT, offset, np.dtype(dtype).itemsize * int(np.prod(shape)))
    inline = np.arange(3.0)
    data = tensors.join(b"", [SharedArray(place, np.dtype(dtype), shape), inline])
    first, second = service_pb2.ExecuteRequest.FromString(data).tensors
    expected = tensor_pb2.Tensor(dtype=first.dtype, shape=shape)
    expected.shared.segment, expected.shared.offset = SEGMENT, offset
    assert first == expected
    assert tensors.shared_array(first, "x") == SharedArray(place, np.dtype(dtype), shape)
    np.testing.assert_array_equal(tensors.read(second), inline)


def test_buffers_are_appended_to_a_header() -> None:
    header = service_pb2.ExecuteRequest(seq=7).SerializeToString()
    buffers = [Place(SEGMENT, 64, 100), Place(b"", 0, 1 << 40)]
    message = service_pb2.ExecuteRequest.FromString(header + codec.write_response_buffers(buffers))
    assert message.seq == 7
    assert codec.read_response_buffers(message) == buffers


def test_a_shared_tensor_where_no_memory_is_shared_is_an_unknown_segment() -> None:
    message = tensor_pb2.Tensor(dtype=tensor_pb2.DATA_TYPE_FLOAT64, shape=[2])
    message.shared.segment = SEGMENT
    with pytest.raises(bh.InvalidArgument) as error:
        tensors.read_all([message])
    assert error.value.reason == "SEGMENT_UNKNOWN"
    assert error.value.details == {"operand": "tensor 0", "segment": SEGMENT.hex()}


A, B = b"a", b"b"


@pytest.mark.parametrize(
    "places",
    [
        [Place(A, 8, 8)],  # not aligned
        [Place(A, 960, 65)],  # beyond
        [Place(A, 1024 + 64, 0)],
        [Place(A, 1 << 64, 1)],
        [Place(A, 0, 65), Place(A, 64, 1)],  # overlapping
        [Place(A, 0, 1), Place(A, 0, 1)],
        [Place(A, 128, 64), Place(B, 0, 64), Place(A, 0, 512)],
    ],
    ids=str,
)
def test_places_that_cannot_be_right(places: list[Place]) -> None:
    with pytest.raises(bh.InvalidArgument) as error:
        check_places([(f"tensor {i}", each) for i, each in enumerate(places)], {A: 1024, B: 64})
    assert error.value.reason == "SEGMENT_RANGE"
    assert error.value.details["segment"] in (A.hex(), B.hex())


def test_places_beside_one_another_are_right() -> None:
    places = [
        Place(A, 64, 64),
        Place(B, 0, 64),
        Place(A, 0, 64),
        Place(A, 128, 896),
        Place(A, 0, 0),
    ]
    check_places([("x", each) for each in places], {A: 1024, B: 64})


def test_tensors_are_placed_in_order_where_there_is_room_first() -> None:
    placer = Placer([Place(A, 64, 200), Place(B, 0, 64)])
    assert placer.place(65) == Place(A, 64, 65)
    assert placer.place(73) is None  # the next place in A is at 192, and A ends at 264
    assert placer.place(64) == Place(A, 192, 64)
    assert placer.place(64) == Place(B, 0, 64)
    assert placer.place(1) == Place(A, 256, 1)
    assert Placer([]).place(1) is None


@pytest.mark.parametrize("length", [MAX_SOCKET_PATH - 4, MAX_SOCKET_PATH - 3])
def test_a_path_that_leaves_no_room_for_the_side_sockets_has_none(length: int) -> None:
    path = b"/" + b"p" * (length - 1)
    expected: Any = path + b".shm" if length + 4 <= MAX_SOCKET_PATH else None
    assert side_socket(path) == expected
