"""The client's end of the side socket, by which a server hands shared memory over.

The rules are told in shared_memory.proto.
"""

from __future__ import annotations

import os
import select
import socket
from typing import Final, TypeVar

from google.protobuf.message import DecodeError, Message

from backhaul.transport.regions import Segment
from backhaul_proto.errors import BackhaulError, from_wire, make_error
from backhaul_proto.shared import ID_BYTES, MAX_PACKET_BYTES, VERSION
from backhaul_proto.v1 import shared_memory_pb2

TIMEOUT: Final = 2.0
"""Seconds that the server may take for an answer."""

ALLOCATE_TIMEOUT: Final = 20.0
"""The same for a segment: many GB take seconds."""

M = TypeVar("M", bound=Message)


class NotOffered(Exception):
    """There is no side socket."""


class Gone(Exception):
    """The server closed the side socket, as when it ends."""


class SideSocket:
    """A connection to the side socket.

    Attributes:
        max_bytes: most bytes of segments that it may have.

    Args:
        path: of the side socket.
        token: of the client's calls.

    Raises:
        NotOffered: nothing listens there.
        Gone: in this, as in what it is asked for later.
        BackhaulError: what is there is of no use: PERMISSION_DENIED, UNAUTHENTICATED, QUOTA_EXCEEDED,
            VERSION_MISMATCH, or the exchange failed (SHARED_MEMORY_UNAVAILABLE).
    """

    def __init__(self, path: bytes, token: str | None = None) -> None:
        self._socket = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._poll = select.poll()
        try:
            self._socket.settimeout(TIMEOUT)
            self._poll.register(self._socket, select.POLLIN)
            self._connect(path)
            hello = self._hear("hello").hello
            if hello.version != VERSION:
                raise make_error(
                    "VERSION_MISMATCH",
                    f"The server shares memory by version {hello.version} of the protocol, this client by "
                    f"{VERSION}.",
                    expected=VERSION,
                    actual=hello.version,
                )
            if hello.authenticate:
                who = shared_memory_pb2.Authenticate(token=token or "")
                self._say(shared_memory_pb2.SharedMemoryRequest(authenticate=who))
                self._hear("authenticated")
        except BaseException:
            self.close()
            raise
        self.max_bytes: int = hello.max_bytes

    @property
    def is_alive(self) -> bool:
        """Whether the server is at the other end still."""
        # Readable is its end, or something that nobody asked for.
        return not self._poll.poll(0)

    def allocate(self, nbytes: int) -> Segment:
        """A new segment, seen to be the server's.

        Raises:
            BackhaulError: QUOTA_EXCEEDED or MEMORY_LIMIT_EXCEEDED, and all is as before; or the exchange
                failed (SHARED_MEMORY_UNAVAILABLE).
        """
        asked = shared_memory_pb2.AllocateSegment(bytes=nbytes)
        self._say(shared_memory_pb2.SharedMemoryRequest(allocate=asked))
        self._socket.settimeout(ALLOCATE_TIMEOUT)
        packet, descriptors = self._receive()
        self._socket.settimeout(TIMEOUT)
        try:
            made = _read(packet, "segment").segment
            if len(descriptors) != 1 or made.bytes != nbytes or len(made.id) != ID_BYTES:
                raise failed("the answer is no segment as it was asked for")
            if (
                os.fstat(descriptors[0]).st_size < nbytes
            ):  # what lies beyond its end cannot be touched
                raise failed("the segment is smaller than it is said to be")
            segment = Segment(made.id, descriptors[0], nbytes)
        finally:
            for each in descriptors:
                os.close(each)
        if segment.nonce != made.nonce:
            raise failed("the memory is not what the server sees")
        return segment

    def free(self, name: bytes) -> None:
        """Let the server free a segment.

        Raises:
            BackhaulError: SHARED_MEMORY_UNAVAILABLE.
        """
        asked = shared_memory_pb2.FreeSegment(id=name)
        self._say(shared_memory_pb2.SharedMemoryRequest(free=asked))
        self._hear("freed")

    def close(self) -> None:
        """Close it; the server frees its segments."""
        self._socket.close()

    def _connect(self, path: bytes) -> None:
        try:
            self._socket.connect(path)
        except (FileNotFoundError, ConnectionRefusedError):
            raise NotOffered from None
        except OSError as error:
            raise failed(str(error)) from None

    def _say(self, request: shared_memory_pb2.SharedMemoryRequest) -> None:
        try:
            self._socket.send(request.SerializeToString())
        except (BrokenPipeError, ConnectionResetError):
            raise Gone from None
        except OSError as error:
            raise failed(str(error)) from None

    def _hear(self, kind: str) -> shared_memory_pb2.SharedMemoryResponse:
        packet, descriptors = self._receive()
        for each in descriptors:
            os.close(each)
        return _read(packet, kind)

    def _receive(self) -> tuple[bytes, list[int]]:
        try:
            packet, descriptors, _, _ = socket.recv_fds(
                self._socket, MAX_PACKET_BYTES, 1, socket.MSG_CMSG_CLOEXEC
            )
        except ConnectionResetError:
            raise Gone from None
        except OSError as error:
            raise failed(str(error) or "no answer came") from None
        if not packet:
            raise Gone
        return packet, descriptors


def failed(why: str) -> BackhaulError:
    """The error of an exchange that did not go as it has to."""
    return make_error("SHARED_MEMORY_UNAVAILABLE", f"The exchange with the server failed: {why}.")


def _read(packet: bytes, kind: str) -> shared_memory_pb2.SharedMemoryResponse:
    try:
        response = shared_memory_pb2.SharedMemoryResponse.FromString(packet)
    except DecodeError as error:
        raise failed(str(error)) from None
    found = response.WhichOneof("response")
    if found == "error":
        raise from_wire("INTERNAL", response.error.reason, response.error.message, {})
    if found != kind:
        raise failed(f"{found or 'nothing'} came in place of {kind}")
    return response
