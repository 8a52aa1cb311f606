"""The side socket with clients of all kinds: other users, garbage, too many, deaf ones."""

from __future__ import annotations

import os
import socket
import stat
import struct
import tempfile
import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

import backhaul as bh
from backhaul.transport import side_socket as clients
from backhaul_proto.v1 import shared_memory_pb2
from backhaul_server.service import side_socket
from backhaul_server.service.shared_memory import Segments
from backhaul_server.service.side_socket import SideSocket, check_user

MB = 1 << 20
Request = shared_memory_pb2.SharedMemoryRequest
Response = shared_memory_pb2.SharedMemoryResponse


class Clock:
    """Seconds that are told."""

    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now


class Listening:
    def __init__(self, path: bytes) -> None:
        self.path = path
        self.segments = Segments(8 * MB)
        self.clock = Clock()
        self.side = SideSocket(path, self.segments, clock=self.clock)
        self.side.start()

    def connect(self) -> socket.socket:
        """A client of our own; its hello is there still."""
        made = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        made.settimeout(20)
        made.connect(self.path)
        return made


@pytest.fixture
def listening() -> Iterator[Listening]:
    with tempfile.TemporaryDirectory() as folder:
        made = Listening(os.fsencode(Path(folder) / "s.shm"))
        yield made
        made.side.close()
        assert os.listdir(folder) == []


def heard(connection: socket.socket) -> shared_memory_pb2.SharedMemoryResponse | None:
    packet = connection.recv(4096)
    return Response.FromString(packet) if packet else None


def still_serves(listening: Listening) -> None:
    client = clients.SideSocket(listening.path)
    segment = client.allocate(MB)
    client.free(segment.id)
    client.close()


def test_it_is_for_the_owner_alone(listening: Listening) -> None:
    assert stat.S_IMODE(os.stat(listening.path).st_mode) == 0o600


def test_another_user_is_refused() -> None:
    mine = struct.pack("iII", 1234, 1000, 1000)
    check_user(mine, 1000)
    for user in (0, 1001):
        with pytest.raises(bh.PermissionDenied) as error:
            check_user(mine, user)
        assert error.value.details == {"expected": str(user), "actual": "1000"}


def test_another_user_gets_the_reason_and_no_hello() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsencode(Path(folder) / "s.shm")
        side = SideSocket(path, Segments(8 * MB), user=os.geteuid() + 1)
        side.start()
        try:
            with pytest.raises(bh.PermissionDenied):
                clients.SideSocket(path)
        finally:
            side.close()


@pytest.mark.parametrize(
    "packet",
    [b"\xff\xff\xff", b"GET / HTTP/1.1", b"\x1a\x00", b"\0" * 60_000],
    ids=["bytes", "text", "unknown", "long"],
)
def test_garbage_gets_an_error_and_the_end(listening: Listening, packet: bytes) -> None:
    with listening.connect() as client:
        heard(client)
        client.send(packet)
        answer = heard(client)
        assert answer is not None
        assert answer.error.reason == "MALFORMED_REQUEST"
        assert heard(client) is None
    still_serves(listening)


def test_descriptors_that_a_client_sends_are_not_kept(listening: Listening) -> None:
    with listening.connect() as client, open(os.devnull) as file:
        heard(client)
        before = len(os.listdir("/proc/self/fd"))
        for _ in range(20):
            request = Request(free=shared_memory_pb2.FreeSegment(id=b"x"))
            socket.send_fds(client, [request.SerializeToString()], [file.fileno()])
            answer = heard(client)
            assert answer is not None
            assert answer.HasField("freed")
        assert len(os.listdir("/proc/self/fd")) == before


def test_a_refused_segment_leaves_the_socket_open(listening: Listening) -> None:
    client = clients.SideSocket(listening.path)
    for nbytes in (1 << 40, 4 * MB + 4096):
        with pytest.raises(bh.QuotaExceeded):
            client.allocate(nbytes)
    assert client.max_bytes == 4 * MB
    assert client.allocate(4 * MB).nbytes == 4 * MB
    assert client.is_alive
    client.close()


def test_a_client_that_takes_no_answers_is_disconnected(listening: Listening) -> None:
    request = Request(free=shared_memory_pb2.FreeSegment(id=b"x")).SerializeToString()
    with listening.connect() as client:

        def send_on() -> None:
            for _ in range(100_000):
                client.send(request)

        with pytest.raises((BrokenPipeError, ConnectionResetError)):
            send_on()
    still_serves(listening)


def test_clients_beyond_the_limit_get_the_reason(
    listening: Listening, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(side_socket, "MAX_CONNECTIONS", 3)
    with ExitStack() as stack:
        for _ in range(3):
            assert heard(stack.enter_context(listening.connect())) is not None
        with pytest.raises(bh.QuotaExceeded):
            clients.SideSocket(listening.path)
    with pytest.MonkeyPatch.context() as patch:  # the three may not have been seen to end yet
        patch.setattr(side_socket, "MAX_CONNECTIONS", 4)
        still_serves(listening)


def test_many_clients_at_once(listening: Listening) -> None:
    failures: list[BaseException] = []

    def work() -> None:
        try:
            for _ in range(20):
                still_serves(listening)
        except BaseException as error:
            failures.append(error)

    # Each has 1 MB at a time, of 8.
    threads = [threading.Thread(target=work) for _ in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert failures == []
    assert listening.segments.nbytes == 0


def test_a_client_without_a_segment_is_let_go_after_a_while(listening: Listening) -> None:
    holder = clients.SideSocket(listening.path)
    holder.allocate(MB)
    with listening.connect() as idle:
        heard(idle)
        listening.clock.now = side_socket.IDLE_SECONDS + 1
        still_serves(listening)  # it looks after each event
        assert heard(idle) is None
    assert holder.is_alive
    holder.close()


def test_a_socket_that_an_earlier_server_left_behind_is_replaced() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsencode(Path(folder) / "s.shm")
        old = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        old.bind(path)
        side = SideSocket(path, Segments(8 * MB))
        side.start()
        client = clients.SideSocket(path)
        side.close()
        assert not client.is_alive
        client.close()
        old.close()


def test_what_is_no_socket_is_left_alone() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "s.shm"
        path.write_text("mine")
        with pytest.raises(OSError, match="in use"):
            SideSocket(os.fsencode(path), Segments(8 * MB))
        assert path.read_text() == "mine"


def test_the_socket_of_a_later_server_is_left_alone() -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = os.fsencode(Path(folder) / "s.shm")
        first = SideSocket(path, Segments(8 * MB))
        second = SideSocket(path, Segments(8 * MB))
        first.close()
        second.start()
        clients.SideSocket(path).close()
        second.close()
        assert os.listdir(folder) == []
