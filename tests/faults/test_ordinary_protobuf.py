"""What our writer emits is ordinary protobuf, and what any other writer emits is taken."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from itertools import permutations
from typing import Any

import grpc
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.awkward import EXACT, INEXACT, Array, bits, layouts

from backhaul_proto import codec, tensors
from backhaul_proto.messages import (
    Answer,
    Block,
    BlockCall,
    Call,
    Execute,
    GradientSet,
    PullbackQuestion,
)
from backhaul_proto.v1 import service_pb2, tensor_pb2

DTYPES = INEXACT + EXACT


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Any bits, of any supported dtype and shape: large sizes too, whose varints are longer."""
    dtype = np.dtype(draw(st.sampled_from(DTYPES)))
    sizes = st.sampled_from((0, 1, 2, 3, 127, 128, 300))
    shape = draw(st.lists(sizes, max_size=2) | st.lists(st.integers(0, 2), max_size=8))
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nbytes = int(np.prod(shape, dtype=int)) * dtype.itemsize
    raw = seed.integers(0, 2 if dtype.kind == "b" else 256, nbytes, np.uint8)
    return np.asarray(raw.view(dtype).reshape(shape))


headers = st.builds(
    Execute,
    st.binary(min_size=16, max_size=16),
    st.binary(max_size=16),
    seq=st.integers(0, 2**64 - 1),
    digest=st.binary(max_size=16),
    values=st.lists(st.integers(0, 2**64 - 1), max_size=3),
    release=st.lists(st.integers(0, 2**64 - 1), max_size=3),
)


def plain(array: Array) -> tensor_pb2.Tensor:
    """A tensor as any writer of protobuf would make it."""
    number = f"DATA_TYPE_{array.dtype.name.upper()}"
    data = array.astype(array.dtype.newbyteorder("<")).tobytes()
    return tensor_pb2.Tensor(dtype=number, shape=array.shape, data=data)


@given(header=headers, given_=st.lists(arrays(), max_size=6))
@settings(max_examples=150)
def test_a_request_of_ours_is_parsed_by_the_generated_class(
    header: Execute, given_: list[Array]
) -> None:
    head, rest = codec.write_execute(header)
    assert not rest
    data = tensors.join(head, given_)
    message = service_pb2.ExecuteRequest.FromString(data)
    expected = service_pb2.ExecuteRequest.FromString(head)
    expected.tensors.extend(map(plain, given_))
    assert message == expected
    # Byte for byte what the generated class would write, field by field.
    assert len(data) == len(expected.SerializeToString())
    assert [bits(each) for each in tensors.read_all(message.tensors)] == list(map(bits, given_))


@given(given_=st.lists(arrays(), min_size=1, max_size=5))
@settings(max_examples=60)
def test_an_answer_of_ours_is_parsed_by_the_generated_class(given_: list[Array]) -> None:
    first, rest = given_[0], given_[1:]
    answer = Answer(
        epoch=b"e", base_id=7, values=rest, loss_value=first,
        sets=[GradientSet(list(range(len(given_))), given_, given_[::-1])],
    )  # fmt: skip
    head, arrays_ = codec.write_answer(answer)
    message = service_pb2.ExecuteResponse.FromString(tensors.join(head, arrays_))
    assert message.tensors == [plain(each) for each in arrays_]
    read = codec.read_answer(message, tensors.read_all(message.tensors))
    assert [bits(each) for each in read.values] == list(map(bits, rest))
    assert read.loss_value is not None
    assert bits(read.loss_value) == bits(first)
    assert [bits(each) for each in read.sets[0].gradients] == list(map(bits, given_))
    assert [bits(each) for each in read.sets[0].hvps] == list(map(bits, given_[::-1]))


@pytest.mark.parametrize("dtype", DTYPES)
def test_arrays_of_any_memory_are_written_as_their_elements(dtype: str) -> None:
    for name, array in layouts(dtype):
        native = array if array.dtype.isnative else array.astype(dtype)
        message = service_pb2.ExecuteRequest.FromString(tensors.join(b"", [native]))
        assert message.tensors == [plain(array)], name


def test_dtypes_that_are_equal_under_another_name() -> None:
    for code in ("b", "h", "i", "l", "q", "B", "H", "I", "L", "Q", "f", "d", "F", "D", "?"):
        array = np.ones(3, code)
        message = service_pb2.ExecuteRequest.FromString(tensors.join(b"", [array]))
        assert message.tensors == [plain(array)], code


# What others write, over a socket


def field(number: int, data: bytes) -> bytes:
    """A length-delimited field."""
    return varint(number << 3 | 2) + varint(len(data)) + data


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes([*out, value])


UNKNOWN = field(999, b"of a later version") + varint(998 << 3) + varint(2**63)


def tensor_parts(array: Array, *, packed: bool) -> tuple[bytes, bytes, bytes]:
    """The fields of a Tensor, its shape packed or one entry after the other."""
    message = plain(array)
    sizes = list(map(varint, array.shape))
    shape = field(2, b"".join(sizes)) if packed else b"".join(b"\x10" + each for each in sizes)
    return b"\x08" + varint(message.dtype), shape, field(15, message.data)


@pytest.fixture(scope="module")
def execute(targets: Any) -> Iterator[Any]:
    """Execute as a function of bytes, to the answer's message."""
    with grpc.insecure_channel(targets["tcp"].removeprefix("grpc://")) as channel:
        call: Any = channel.unary_unary("/backhaul.v1.BackhaulService/Execute")
        yield lambda data: service_pb2.ExecuteResponse.FromString(call(data))


A, B = np.arange(6.0).reshape(2, 3), np.array([-0.0, np.inf, 5e-324])


def parts_of_a_request(*, reverse: bool, packed: bool) -> list[bytes]:
    """A request's fields one by one: a + b, its value and its gradient for a cotangent."""
    block = Block(0, [Call("leaf"), Call("add", (), 2)], [0, 0, 1], [0, 1])
    data = codec.write_block(block)
    request = Execute(
        secrets.token_bytes(16), b"", seq=1,
        block=BlockCall(codec.block_hash(data), data, 1, []),
        tensors=[A, B], values=[3], question=PullbackQuestion(3, [2 * A], [1, 2]),
    )  # fmt: skip
    header, arrays_ = codec.write_execute(request)
    message = service_pb2.ExecuteRequest.FromString(header)
    fields = []
    for descriptor, _ in message.ListFields():
        one = service_pb2.ExecuteRequest()
        value = getattr(message, descriptor.name)
        if descriptor.name in ("session", "block", "pullback", "options"):
            getattr(one, descriptor.name).CopyFrom(value)
        elif descriptor.name in ("values", "release") and not packed:
            fields += [varint(descriptor.number << 3) + varint(each) for each in value]
            continue
        elif descriptor.name in ("values", "release"):
            getattr(one, descriptor.name).extend(value)
        else:
            setattr(one, descriptor.name, value)
        fields.append(one.SerializeToString())
    tensors_ = []
    for array in arrays_:
        parts = tensor_parts(array, packed=packed)
        tensors_.append(field(15, b"".join(reversed(parts) if reverse else parts)))
    return [b"".join(tensors_), *fields]


@pytest.mark.parametrize("packed", [True, False])
@pytest.mark.parametrize("reverse", [True, False])
@pytest.mark.parametrize("unknown", [True, False])
def test_fields_in_any_order_packed_or_not_with_unknown_ones_between(
    execute: Any, packed: bool, reverse: bool, unknown: bool
) -> None:
    orders = list(permutations(range(len(parts_of_a_request(reverse=reverse, packed=packed)))))
    for order in orders[:: len(orders) // 12]:
        fields = parts_of_a_request(reverse=reverse, packed=packed)
        between = UNKNOWN if unknown else b""
        answer = execute(between + between.join(fields[i] for i in order) + between)
        found = tensors.read_all(answer.tensors)
        assert bits(found[answer.values[0]]) == bits(A + B)
        assert list(answer.sets[0].nodes) == [1, 2]
        gradients = [found[i] for i in answer.sets[0].gradients]
        assert bits(gradients[0]) == bits(2 * A)
        assert bits(gradients[1]) == bits((2 * A).sum(axis=0))


def test_tensors_scattered_between_header_fields_keep_their_order(execute: Any) -> None:
    joined, *fields = parts_of_a_request(reverse=False, packed=True)
    each = service_pb2.ExecuteRequest.FromString(joined).tensors
    apart = [field(15, one.SerializeToString()) for one in each]
    data = b"".join(a + b for a, b in zip(apart, fields, strict=False)) + b"".join(fields[3:])
    answer = execute(data)
    found = tensors.read_all(answer.tensors)
    assert bits(found[answer.values[0]]) == bits(A + B)


def test_a_field_that_comes_twice_counts_as_protobuf_has_it(execute: Any) -> None:
    """Of a scalar the last, and of the elements' too."""
    joined, *fields = parts_of_a_request(reverse=False, packed=True)
    messages = service_pb2.ExecuteRequest.FromString(joined).tensors
    twice = b"".join(field(15, field(15, b"old") + one.SerializeToString()) for one in messages)
    answer = execute(b"\x10\x07" + twice + b"".join(fields))  # seq = 7, then 1
    found = tensors.read_all(answer.tensors)
    assert bits(found[answer.values[0]]) == bits(A + B)


@pytest.mark.parametrize("value", [2, 7, 255])
def test_a_byte_of_a_bool_that_is_neither_0_nor_1_is_true(value: int) -> None:
    message = tensor_pb2.Tensor(dtype=tensor_pb2.DATA_TYPE_BOOL, shape=[2], data=bytes([value, 0]))
    assert tensors.read(message).view("u1").tolist() == [1, 0]
