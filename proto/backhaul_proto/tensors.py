"""Arrays to the wire and back.

Python's protobuf writes large bytes fields slowly (it copies them several times), so the writer here
emits the length-prefixed segments itself, around the arrays' own memory, to be joined once. What comes
out is ordinary protobuf. The reader is the stock parser and one copy into aligned memory.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from functools import lru_cache
from typing import Any, Final

import numpy as np

from backhaul_proto.bounds import MAX_TENSORS, check_count
from backhaul_proto.catalog.avals import MAX_RANK, Aval, aval, is_array_shape
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.shared import Place, SharedArray
from backhaul_proto.v1 import tensor_pb2

Array = np.ndarray[Any, Any]
ReadShared = Callable[[SharedArray, str], Array]
"""Gives the array of a tensor in shared memory, called by the second argument in errors."""

_LARGEST_ITEM: Final = 16
_DTYPES: Final = {
    number: np.dtype(name.removeprefix("DATA_TYPE_").lower())
    for name, number in tensor_pb2.DataType.items()
    if number
}
_NUMBERS: Final[dict[np.dtype, Any]] = {dtype: number for number, dtype in _DTYPES.items()}

_TENSORS_FIELD: Final = b"\x7a"  # field 15, length-delimited: `tensors` of requests and answers
_DATA_FIELD: Final = b"\x7a"  # field 15, length-delimited: Tensor.data
_CHUNKED: Final = b"\x1a\x00"  # field 3, an empty message: Tensor.chunked
_SHARED_FIELD: Final = b"\x22"  # field 4, length-delimited: Tensor.shared


def number_of(dtype: np.dtype) -> Any:
    """The wire's number of a supported dtype."""
    return _NUMBERS[dtype]


def dtype_of(number: int) -> np.dtype:
    """The dtype of a wire number.

    Raises:
        InvalidArgument: DTYPE_NOT_SUPPORTED.
    """
    dtype = _DTYPES.get(number)
    if dtype is None:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"There is no data type number {number} in {tensor_pb2.DataType.keys()[1:]}.",
            actual=number,
        )
    return dtype


def little_endian(array: Array) -> Array:
    """The array as its bytes travel: C order, little endian; itself where it is so already."""
    if not array.flags.c_contiguous:
        array = np.ascontiguousarray(array).reshape(array.shape)
    if sys.byteorder == "big":
        array = array.astype(array.dtype.newbyteorder("<"))
    return array


def join(header: bytes, tensors: Iterable[Array | SharedArray]) -> bytes:
    """A message's bytes: its other fields, then its field 15, ``repeated Tensor tensors``."""
    parts: list[Any] = [header]
    for tensor in tensors:
        parts += segments(tensor)
    return b"".join(parts)


def length(header: bytes, tensors: Iterable[Array | SharedArray]) -> int:
    """How many bytes `join` gives."""
    return len(header) + sum(
        len(_shared(each))
        if isinstance(each, SharedArray)
        else len(_prefix(each.dtype.newbyteorder("="), each.shape)) + each.nbytes
        for each in tensors
    )


def segments(tensor: Array | SharedArray) -> tuple[Any, ...]:
    """An entry of field 15 in parts, its elements last where they travel with it."""
    if isinstance(tensor, SharedArray):
        return (_shared(tensor),)
    array = little_endian(tensor)
    return _prefix(array.dtype.newbyteorder("="), array.shape), array


def chunked_entry(array: Array) -> bytes:
    """An entry of field 15 whose elements follow in chunks."""
    head = _type_fields(array.dtype.newbyteorder("="), array.shape) + _CHUNKED
    return _TENSORS_FIELD + varint(len(head)) + head


def fill(message: tensor_pb2.Tensor, array: Array) -> None:
    """Write an array into a Tensor message: for calls whose tensors do not stand at the end."""
    message.dtype = number_of(array.dtype)
    message.shape.extend(array.shape)
    message.data = little_endian(array).tobytes()


def read(
    message: tensor_pb2.Tensor, what: str = "tensor", shared: ReadShared | None = None
) -> Array:
    """The array of a Tensor message, in memory of its own.

    Args:
        message: what came.
        what: its name in errors.
        shared: reads tensors in shared memory; None: there is none.

    Raises:
        InvalidArgument: DTYPE_NOT_SUPPORTED, MALFORMED_REQUEST when shape and data do not agree, or
            SEGMENT_UNKNOWN.
    """
    data = message.data
    if not data and message.HasField("shared"):
        found = shared_array(message, what)
        if shared is None:
            raise segment_unknown(found.place.segment, what)
        return shared(found, what)
    dtype = dtype_of(message.dtype)
    shape = read_shape(message.shape, what)
    if not data and message.HasField("chunked"):
        raise make_error(
            "MALFORMED_REQUEST",
            f"{what}: its elements are said to follow in chunks. They do only for the `tensors` of the "
            "header of an ExecuteStream; elsewhere they stand in `data`.",
            operand=what,
        )
    nbytes = _nbytes(dtype, shape)
    if nbytes != len(data):
        raise make_error(
            "MALFORMED_REQUEST",
            f"{what}: {dtype} of shape {shape} has {nbytes} bytes, "
            f"but {len(data)} came. Elements travel in C order without padding.",
            operand=what,
            expected=nbytes,
            actual=len(data),
        )
    return copied(data, dtype, shape)


def read_all(
    messages: Sequence[tensor_pb2.Tensor], shared: ReadShared | None = None
) -> list[Array]:
    """The arrays of all these messages."""
    if len(messages) > MAX_TENSORS:
        check_count("arrays", len(messages), MAX_TENSORS)
    return [read(message, name_of(i), shared) for i, message in enumerate(messages)]


def name_of(index: int) -> str:
    """What the tensor of a message is called in errors."""
    return f"tensor {index}"


def copied(data: Any, dtype: np.dtype, shape: tuple[int, ...]) -> Array:
    """The array of these bytes, as they travel, in memory of its own."""
    if dtype.kind == "b":
        return np.frombuffer(data, np.uint8).astype(dtype).reshape(shape)
    flat = np.frombuffer(data, dtype.newbyteorder("<"))
    return flat.astype(dtype, copy=True).reshape(shape)


def write_into(data: Any, array: Array) -> None:
    """Write an array as its bytes travel into memory of its size."""
    dtype = array.dtype.newbyteorder("<")
    np.copyto(np.frombuffer(data, dtype).reshape(array.shape), array)


def shared_arrays(messages: Sequence[tensor_pb2.Tensor]) -> list[tuple[str, SharedArray]]:
    """Those of these tensors that are in shared memory, with their names in errors."""
    return [
        (name_of(i), shared_array(message, name_of(i)))
        for i, message in enumerate(messages)
        if message.HasField("shared")
    ]


def shared_array(message: tensor_pb2.Tensor, what: str) -> SharedArray:
    """A tensor with the content ``shared``."""
    dtype = dtype_of(message.dtype)
    shape = read_shape(message.shape, what)
    content = message.shared
    place = Place(content.segment, content.offset, _nbytes(dtype, shape))
    return SharedArray(place, dtype, shape)


def segment_unknown(segment: bytes, what: str) -> BackhaulError:
    """The error of a segment that is not there for this caller."""
    return make_error(
        "SEGMENT_UNKNOWN",
        f"{what}: there is no such segment of shared memory here. It was freed, or its side socket was "
        "closed, as by a restart of the server. Send the elements with the message.",
        operand=what,
        segment=segment[:64].hex(),
    )


def read_shape(sizes: Sequence[int], what: str) -> tuple[int, ...]:
    """A shape that an array may have."""
    shape = tuple(sizes[: MAX_RANK + 1])
    if not is_array_shape(shape, _LARGEST_ITEM):
        raise make_error(
            "MALFORMED_REQUEST",
            f"{what}: the shape {shape!s:.200} has a negative size, more than {MAX_RANK} axes, or more "
            "elements than an array can have.",
            operand=what,
        )
    return shape


def type_message(each: Aval) -> tensor_pb2.TensorType:
    """An aval as it travels."""
    return tensor_pb2.TensorType(dtype=number_of(each.dtype), shape=each.shape)


def read_type(message: tensor_pb2.TensorType, what: str) -> Aval:
    """The aval of a TensorType."""
    return aval(read_shape(message.shape, what), dtype_of(message.dtype))


def _nbytes(dtype: np.dtype, shape: tuple[int, ...]) -> int:
    nbytes = dtype.itemsize
    for n in shape:
        nbytes *= n
    return nbytes


@lru_cache(maxsize=4096)
def _prefix(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    """All of a `tensors` entry but its elements."""
    nbytes = _nbytes(dtype, shape)
    head = _type_fields(dtype, shape) + _DATA_FIELD + varint(nbytes)
    return _TENSORS_FIELD + varint(len(head) + nbytes) + head


def _shared(tensor: SharedArray) -> bytes:
    """A `tensors` entry whose elements are in shared memory."""
    place = tensor.place
    content = b"\x0a" + varint(len(place.segment)) + place.segment
    content += b"\x10" + varint(place.offset)
    head = _type_fields(tensor.dtype, tensor.shape) + _SHARED_FIELD + varint(len(content)) + content
    return _TENSORS_FIELD + varint(len(head)) + head


def _type_fields(dtype: np.dtype, shape: tuple[int, ...]) -> bytes:
    sizes = b"".join(map(varint, shape))
    head = b"\x08" + varint(number_of(dtype))
    return head + b"\x12" + varint(len(sizes)) + sizes if sizes else head


def varint(value: int) -> bytes:
    """A number as protobuf writes lengths."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)
