"""The side socket of a unix socket, by which descriptors of shared memory are handed over.

One thread serves all clients and waits for none of them: packets come and go whole. See
shared_memory.proto.
"""

from __future__ import annotations

import contextlib
import logging
import os
import selectors
import socket
import stat
import struct
import time
from collections.abc import Callable
from threading import Thread
from typing import Final

from google.protobuf.message import DecodeError

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.shared import MAX_PACKET_BYTES, VERSION
from backhaul_proto.v1 import shared_memory_pb2
from backhaul_server.service.shared_memory import SEGMENTS_OF_ONE, Segments

log = logging.getLogger("backhaul.server")

MAX_CONNECTIONS: Final = 128
IDLE_SECONDS: Final = 60.0
"""How long a connection may be there without a segment."""

_BACKLOG: Final = 64
_CREDENTIALS: Final = struct.Struct("iII")  # struct ucred: pid, uid, gid
_OUT_OF_DESCRIPTORS_SECONDS: Final = 0.05

Response = shared_memory_pb2.SharedMemoryResponse


class _Peer:
    """A client at the other end of a connection; the owner of its segments."""

    def __init__(self, connection: socket.socket, now: float) -> None:
        self.connection = connection
        self.last_asked = now
        self.principal: str | None = None


class SideSocket:
    """Listens beside a unix socket until it is closed.

    Args:
        path: of the side socket.
        segments: of the server.
        user: whose processes are served.
        name_of: whose token it is, or Unauthenticated; None: clients need no token.
        clock: seconds, monotonic.

    Raises:
        OSError: the path cannot be listened on.
    """

    def __init__(
        self,
        path: bytes,
        segments: Segments,
        *,
        user: int | None = None,
        name_of: Callable[[str], str] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._path = path
        self._segments = segments
        self._user = os.geteuid() if user is None else user
        self._name_of = name_of
        self._clock = clock
        self._peers: dict[int, _Peer] = {}
        self._listener = _listen(path)
        self._file = os.stat(path)
        self._waker, self._woken = socket.socketpair()
        self._selector = selectors.DefaultSelector()
        self._selector.register(self._listener, selectors.EVENT_READ)
        self._selector.register(self._woken, selectors.EVENT_READ)
        self._thread = Thread(target=self._serve, name="backhaul-shared-memory", daemon=True)

    def start(self) -> None:
        """Serve clients from now on."""
        self._thread.start()

    def close(self) -> None:
        """Disconnect all clients, and free their segments."""
        with contextlib.suppress(OSError):  # a later server's may be there
            if os.path.samestat(os.stat(self._path), self._file):
                os.unlink(self._path)
        self._waker.close()
        if self._thread.ident is not None:
            self._thread.join()
        for peer in list(self._peers.values()):
            self._drop(peer)
        self._selector.close()
        self._listener.close()
        self._woken.close()

    # On the thread

    def _serve(self) -> None:
        while True:
            for key, _ in self._selector.select(IDLE_SECONDS / 4):
                if key.fileobj is self._woken:
                    return
                if key.fileobj is self._listener:
                    self._accept()
                elif (peer := self._peers.get(key.fd)) is not None:
                    self._hear(peer)
            self._drop_idle()

    def _accept(self) -> None:
        try:
            connection, _ = self._listener.accept()
        except BlockingIOError:
            return
        except OSError as error:  # out of descriptors: it would be tried again at once
            log.warning("no connection to shared memory", extra={"error": str(error)})
            time.sleep(_OUT_OF_DESCRIPTORS_SECONDS)
            return
        connection.setblocking(False)
        try:
            check_user(credentials_of(connection), self._user)
            if len(self._peers) >= MAX_CONNECTIONS:
                raise make_error(
                    "QUOTA_EXCEEDED",
                    f"The server has {MAX_CONNECTIONS} connections to its shared memory already.",
                )
        except BackhaulError as error:
            log.warning("refused shared memory", extra={"reason": error.reason})
            _send(connection, _error(error))
            connection.close()
            return
        peer = _Peer(connection, self._clock())
        self._peers[connection.fileno()] = peer
        self._selector.register(connection, selectors.EVENT_READ)
        hello = shared_memory_pb2.SharedMemoryHello(
            version=VERSION,
            max_bytes=self._segments.limit_of_one,
            max_segments=SEGMENTS_OF_ONE,
            authenticate=self._name_of is not None,
        )
        if not _send(connection, Response(hello=hello)):
            self._drop(peer)

    def _hear(self, peer: _Peer) -> None:
        try:
            packet = peer.connection.recv(MAX_PACKET_BYTES + 1)
        except BlockingIOError:
            return
        except OSError:
            packet = b""
        if not packet:  # its end
            self._drop(peer)
            return
        peer.last_asked = self._clock()
        try:
            if not self._answer(peer, packet):
                self._drop(peer)
        except Exception:
            log.exception("internal error", extra={"method": "shared memory"})
            self._drop(peer)

    def _answer(self, peer: _Peer, packet: bytes) -> bool:
        """Answer a packet; whether the connection is to stay."""
        request = _parse(packet)
        kind = request and request.WhichOneof("request")
        if self._name_of is not None and peer.principal is None:
            token = request.authenticate.token if request and kind == "authenticate" else ""
            return self._authenticate(peer, token, self._name_of)
        match kind:
            case "allocate":
                assert request is not None
                return self._allocate(peer, request.allocate.bytes)
            case "free":
                assert request is not None
                self._segments.free(peer, request.free.id)
                return _send(peer.connection, Response(freed=shared_memory_pb2.SegmentFreed()))
        malformed = make_error("MALFORMED_REQUEST", "This packet is no SharedMemoryRequest.")
        _send(peer.connection, _error(malformed))
        return False

    def _authenticate(self, peer: _Peer, token: str, name_of: Callable[[str], str]) -> bool:
        try:
            peer.principal = name_of(token)
        except BackhaulError as error:
            log.info("refused shared memory", extra={"reason": error.reason})
            _send(peer.connection, _error(error))
            return False
        accepted = shared_memory_pb2.Authenticated()
        return _send(peer.connection, Response(authenticated=accepted))

    def _allocate(self, peer: _Peer, nbytes: int) -> bool:
        try:
            segment, nonce, descriptor = self._segments.allocate(peer, nbytes, peer.principal)
        except BackhaulError as error:
            return _send(peer.connection, _error(error))
        made = shared_memory_pb2.Segment(id=segment.id, bytes=segment.nbytes, nonce=nonce)
        try:
            return _send(peer.connection, Response(segment=made), descriptor)
        finally:
            os.close(descriptor)

    def _drop_idle(self) -> None:
        before = self._clock() - IDLE_SECONDS
        for peer in list(self._peers.values()):
            if peer.last_asked < before and not self._segments.count(peer):
                self._drop(peer)

    def _drop(self, peer: _Peer) -> None:
        del self._peers[peer.connection.fileno()]
        self._selector.unregister(peer.connection)
        peer.connection.close()
        self._segments.free_all(peer)


def credentials_of(connection: socket.socket) -> bytes:
    """The peer's process, user and group, as the system knows them."""
    return connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)


def check_user(credentials: bytes, user: int) -> None:
    """Refuse another user.

    Raises:
        PermissionDenied: PERMISSION_DENIED.
    """
    _, theirs, _ = _CREDENTIALS.unpack(credentials)
    if theirs != user:
        raise make_error(
            "PERMISSION_DENIED",
            f"Shared memory is for processes of one user: the server runs as user {user}, the client as "
            f"{theirs}. Run both as the same, or go without.",
            expected=user,
            actual=theirs,
        )


def remove_socket(path: bytes) -> None:
    """Remove a socket that an earlier server left behind. What is no socket stays."""
    with contextlib.suppress(FileNotFoundError):
        if stat.S_ISSOCK(os.lstat(path).st_mode):
            os.unlink(path)


def _listen(path: bytes) -> socket.socket:
    remove_socket(path)
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    try:
        listener.setblocking(False)
        listener.bind(path)
        os.chmod(path, 0o600)  # nobody can connect before it listens
        listener.listen(_BACKLOG)
    except BaseException:
        listener.close()
        raise
    return listener


def _parse(packet: bytes) -> shared_memory_pb2.SharedMemoryRequest | None:
    if len(packet) > MAX_PACKET_BYTES:
        return None
    try:
        return shared_memory_pb2.SharedMemoryRequest.FromString(packet)
    except DecodeError:
        return None


def _error(error: BackhaulError) -> shared_memory_pb2.SharedMemoryResponse:
    sent = shared_memory_pb2.SharedMemoryError(reason=error.reason, message=error.message)
    return Response(error=sent)


def _send(
    connection: socket.socket, message: shared_memory_pb2.SharedMemoryResponse, *descriptors: int
) -> bool:
    """Whether it could be sent: not to a client that is gone, or takes no answers."""
    try:
        socket.send_fds(connection, [message.SerializeToString()], descriptors)
    except OSError:
        return False
    return True
