"""A message's tensors in chunks: what ExecuteStream sends and receives, without any sending or receiving.

Both ends write with `Outgoing` and read with `Incoming`; see STREAMS in service.proto for the form. Chunks
are cut from the arrays' own memory and written into the memory of the arrays that are read, so that
neither end holds more than a few chunks beside them. As with `tensors.join`, the messages' few fixed
bytes are written and read here, not by protobuf, which would copy the data several times.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final, Generic, TypeVar

import google_crc32c
import numpy as np

from backhaul_proto import tensors
from backhaul_proto.bounds import MAX_TENSORS, check_count
from backhaul_proto.codec import parse
from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.v1 import service_pb2, tensor_pb2

Array = np.ndarray[Any, Any]
H = TypeVar("H", service_pb2.ExecuteRequest, service_pb2.ExecuteResponse)

CHUNK_BYTES: Final = 1 << 20
"""Data of a chunk that is written: where gRPC for Python is fastest (512 KiB to 2 MiB are alike)."""

MAX_CHUNK_BYTES: Final = 4 << 20
"""Data of a chunk that any reader takes."""

_INLINE_BYTES: Final = 64 << 10
_INLINE_TOTAL: Final = 1 << 20
"""Tensors up to the first travel in the header, until they are the second together."""

_HEADER_FIELD: Final = b"\x0a"  # field 1 of both stream messages, length-delimited: `header`
_CHUNK_FIELD: Final = 0x12  # field 2, length-delimited: `chunk`
_CRC_FIELD: Final = 0x0D  # field 1 of Chunk, 32 bits: `crc32c`
_DATA_FIELD: Final = 0x7A  # field 15 of Chunk, length-delimited: `data`


class Outgoing:
    """The messages of one direction of a stream, header first. Iterate once.

    Args:
        header: the request's or answer's message without its tensors.
        arrays: its tensors, which do not change any more.

    Attributes:
        nbytes: data of all chunks. Each but the last has `CHUNK_BYTES`.
    """

    def __init__(self, header: bytes, arrays: Iterable[Array]) -> None:
        inline = 0
        parts: list[Any] = [header]
        self._chunked: list[Array] = []
        for array in arrays:
            if array.nbytes <= min(_INLINE_BYTES, _INLINE_TOTAL - inline):
                inline += array.nbytes
                parts += tensors.segments(array)
            else:
                parts.append(tensors.chunked_entry(array))
                self._chunked.append(array)
        self.nbytes = sum(each.nbytes for each in self._chunked)
        message = b"".join(parts)
        self._header = _HEADER_FIELD + tensors.varint(len(message)) + message

    def __iter__(self) -> Iterator[bytes]:
        yield self._header
        for piece in _pieces(self._chunked):
            crc = 0
            for part in piece:
                crc = google_crc32c.extend(crc, part)
            parts: list[Any] = [_chunk_prefix(crc, sum(map(len, piece))), *piece]
            yield b"".join(parts)


class Incoming(Generic[H]):
    """The messages of one direction of a stream, as they come.

    First `begin`, then `allocate`, then `feed` for each message, and `finish` at the end.

    Args:
        kind: class of the stream's messages.

    Attributes:
        header: the first message, once it has come.
        declared: data that its chunks are to have.
        received: data that has come in chunks.
    """

    header: H

    def __init__(
        self, kind: type[service_pb2.ExecuteStreamRequest] | type[service_pb2.ExecuteStreamResponse]
    ) -> None:
        self._kind = kind
        self.declared = 0
        self.received = 0
        self._chunks = 0
        self._arrays: list[Array] = []
        self._bytes: list[Array] = []  # those that chunks fill, as bytes
        self._filling = 0  # the first of them that is not full,
        self._at = 0  # and how many of its bytes are there

    def begin(self, data: bytes) -> H:
        """Read the first message.

        Raises:
            InvalidArgument: MALFORMED_REQUEST.
        """
        message = parse(self._kind, data)
        if message.WhichOneof("part") != "header":
            raise _malformed("The first message of a stream is its header; another one came.")
        header: Any = message.header
        check_count("arrays", len(header.tensors), MAX_TENSORS)
        self.header = header
        self.declared = sum(
            _nbytes(each, i) for i, each in enumerate(header.tensors) if each.HasField("chunked")
        )
        return self.header

    def allocate(self) -> None:
        """Make the arrays. Their memory is taken as chunks fill it."""
        for i, each in enumerate(self.header.tensors):
            if not each.HasField("chunked"):
                self._arrays.append(tensors.read(each, f"tensor {i}"))
                continue
            array = np.empty(
                tensors.read_shape(each.shape, f"tensor {i}"), tensors.dtype_of(each.dtype)
            )
            self._arrays.append(array)
            if array.nbytes:
                self._bytes.append(array.reshape(-1).view(np.uint8))

    def feed(self, data: bytes) -> None:
        """Read a further message.

        Raises:
            ChecksumMismatch: CHUNK_CHECKSUM.
            InvalidArgument: MALFORMED_REQUEST: it is no chunk, or has more data than were declared.
        """
        crc, chunk = _read_chunk(self._kind, data)
        if google_crc32c.value(chunk) != crc:
            raise make_error(
                "CHUNK_CHECKSUM",
                f"Chunk {self._chunks} arrived with another CRC-32C than it was sent with. Nothing was "
                "kept of the request; send it again.",
                chunk=self._chunks,
            )
        size = len(chunk)
        if not size or self.received + size > self.declared:
            raise _malformed(
                f"Chunk {self._chunks} has {size} bytes; {self.declared - self.received} of the "
                f"{self.declared} that the header declares are still to come. A chunk has at least one.",
                expected=self.declared,
                actual=self.received + size,
            )
        self._chunks += 1
        self.received += size
        taken = 0
        while taken < size:
            target = self._bytes[self._filling]
            part = min(size - taken, len(target) - self._at)
            target[self._at : self._at + part] = chunk[taken : taken + part]
            taken += part
            self._at += part
            if self._at == len(target):
                self._filling, self._at = self._filling + 1, 0

    def finish(self) -> Sequence[Array]:
        """The tensors, after the last message.

        Raises:
            InvalidArgument: MALFORMED_REQUEST: less data came than were declared.
        """
        if self.received != self.declared:
            raise _malformed(
                f"The stream ended after {self.received} of the {self.declared} bytes that its header "
                "declares in chunks.",
                expected=self.declared,
                actual=self.received,
            )
        self._bytes.clear()
        for each, array in zip(self.header.tensors, self._arrays, strict=True):
            if not each.HasField("chunked"):
                continue
            if (
                array.dtype.kind == "b"
            ):  # any byte but 0 is true, and an array of bools has 1 for it
                np.not_equal(array.view(np.uint8), 0, out=array)
            elif sys.byteorder == "big":
                array.byteswap(inplace=True)
        return self._arrays


def _nbytes(message: tensor_pb2.Tensor, position: int) -> int:
    size = tensors.dtype_of(message.dtype).itemsize
    for n in tensors.read_shape(message.shape, f"tensor {position}"):
        size *= n
    return size


def _pieces(arrays: Iterable[Array]) -> Iterator[list[Array]]:
    """The arrays' bytes in pieces of `CHUNK_BYTES`, each a list of views; the last may be shorter."""
    piece: list[Array] = []
    room = CHUNK_BYTES
    for array in arrays:
        for view in _views(array):
            at = 0
            while at < len(view):
                part = view[at : at + room]
                piece.append(part)
                at += len(part)
                room -= len(part)
                if not room:
                    yield piece
                    piece, room = [], CHUNK_BYTES
    if piece:
        yield piece


def _views(array: Array) -> Iterator[Array]:
    """An array's bytes as they travel: its own memory, or copies of a chunk's size."""
    if array.flags.c_contiguous and sys.byteorder == "little":
        yield array.reshape(-1).view(np.uint8)
        return
    step = CHUNK_BYTES // array.itemsize
    for start in range(0, array.size, step):
        yield tensors.little_endian(array.flat[start : start + step]).view(np.uint8)


def _chunk_prefix(crc: int, size: int) -> bytes:
    """All of a chunk's message but its data."""
    inner = struct.pack("<BIB", _CRC_FIELD, crc, _DATA_FIELD) + tensors.varint(size)
    return bytes((_CHUNK_FIELD,)) + tensors.varint(len(inner) + size) + inner


def _read_chunk(kind: type[Any], data: bytes) -> tuple[int, Array]:
    """Checksum and data of a chunk's message."""
    found = _read_usual_chunk(data)
    if found is not None:
        return found
    message = parse(kind, data)
    if message.WhichOneof("part") != "chunk":
        raise _malformed("After its header a stream has chunks; another message came.")
    return message.chunk.crc32c, np.frombuffer(message.chunk.data, np.uint8)


def _read_usual_chunk(data: bytes) -> tuple[int, Array] | None:
    """The same for the form that nearly every writer gives it: the two fields in order, no more."""
    size, at = _read_varint(data, 1)
    if len(data) < at + 6 or data[0] != _CHUNK_FIELD or size != len(data) - at:
        return None
    if data[at] != _CRC_FIELD or data[at + 5] != _DATA_FIELD:
        return None
    (crc,) = struct.unpack_from("<I", data, at + 1)
    size, at = _read_varint(data, at + 6)
    if size != len(data) - at:
        return None
    return crc, np.frombuffer(data, np.uint8, offset=at) if size else np.empty(0, np.uint8)


def _read_varint(data: bytes, at: int) -> tuple[int, int]:
    """A varint of up to five bytes, and where it ends; -1 for what is none."""
    value = 0
    for i, byte in enumerate(data[at : at + 5]):
        value |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            return value, at + i + 1
    return -1, at


def _malformed(message: str, **details: object) -> BackhaulError:
    return make_error("MALFORMED_REQUEST", message, **details)
