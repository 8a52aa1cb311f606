"""Shared memory where calls need a token: whose it is, and who gets none."""

from __future__ import annotations

import socket
import sys
import tempfile
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.access.authority import serving

import backhaul as bh
from backhaul.transport import side_socket as clients
from backhaul_proto.shared import MIN_BYTES, Place, SharedArray
from backhaul_proto.tokens import line_of
from backhaul_proto.v1 import shared_memory_pb2
from backhaul_server.service.server import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds are Linux's")

MB = 1 << 20
LARGE = np.arange(2 * MIN_BYTES // 8, dtype=float)
Request = shared_memory_pb2.SharedMemoryRequest


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    tokens = tmp_path / "tokens"
    tokens.write_text(f"{line_of('alice', 'a')}\n{line_of('bob', 'b')}")
    with (
        tempfile.TemporaryDirectory(prefix="bh") as folder,
        serving(f"unix:{folder}/s", tokens=tokens, shared_memory=16 * MB) as running,
    ):
        yield running


def path_of(server: Server) -> bytes:
    return server.targets[0].removeprefix("unix://").encode() + b".shm"


def raw(server: Server, *requests: Any) -> list[Any]:
    """The responses to these requests, until the server ends the socket."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET) as made:
        made.settimeout(20)
        made.connect(path_of(server))
        heard = [made.recv(4096)]
        for each in requests:
            made.send(each.SerializeToString())
            heard.append(made.recv(4096))
        return [shared_memory_pb2.SharedMemoryResponse.FromString(each) for each in heard if each]


def test_a_client_with_a_token_has_shared_memory(server: Server) -> None:
    with bh.connect(server.targets[0], token="a", shared_memory=True, timeout=120) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(LARGE)
        np.testing.assert_array_equal((x * 2.0).numpy(), 2 * LARGE)
        owners = {each.principal for each in server._segments._segments.values()}
        assert owners == {"alice"}


@pytest.mark.parametrize(
    "first",
    [
        Request(allocate=shared_memory_pb2.AllocateSegment(bytes=MB)),
        Request(free=shared_memory_pb2.FreeSegment(id=bytes(16))),
        Request(authenticate=shared_memory_pb2.Authenticate(token="c")),
        Request(authenticate=shared_memory_pb2.Authenticate()),
    ],
)
def test_who_is_not_known_gets_none(server: Server, first: Any) -> None:
    hello, error, *rest = raw(server, first)
    assert hello.hello.authenticate
    assert error.error.reason == "UNAUTHENTICATED"
    assert rest == []
    assert server._segments.nbytes == 0
    with pytest.raises(bh.Unauthenticated):
        clients.SideSocket(path_of(server))
    with pytest.raises(bh.Unauthenticated):
        clients.SideSocket(path_of(server), "c")


@pytest.mark.parametrize("demanded", [True, None])
def test_a_wrong_token_is_told_as_one(server: Server, demanded: bool | None) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        given = bh.connect(server.targets[0], token="c", shared_memory=demanded, timeout=120)
        with given as connection, pytest.raises(bh.Unauthenticated):
            bh.Tape(connection).leaf(LARGE).numpy()


def test_a_segment_is_its_allocators_also_before_it_was_named(server: Server) -> None:
    alice = clients.SideSocket(path_of(server), "a")
    segment = alice.allocate(MB)
    named = [("x", SharedArray(Place(segment.id, 0, 4096), np.dtype("f8"), (512,)))]
    with (
        pytest.raises(bh.InvalidArgument) as theirs,
        server._segments.request("bob", named, []),
    ):
        pass
    absent = [("x", SharedArray(Place(bytes(16), 0, 4096), np.dtype("f8"), (512,)))]
    with (
        pytest.raises(bh.InvalidArgument) as none,
        server._segments.request("bob", absent, []),
    ):
        pass
    assert theirs.value.reason == none.value.reason == "SEGMENT_UNKNOWN"
    assert theirs.value.message.replace(segment.id.hex(), "ID") == none.value.message.replace(
        bytes(16).hex(), "ID"
    )
    with server._segments.request("alice", named, []) as lent:
        assert lent.read(named[0][1], "x").shape == (512,)
    bob = clients.SideSocket(path_of(server), "b")
    bob.free(segment.id)
    assert server._segments.nbytes == MB
    bob.close()
    alice.close()


def test_authentication_comes_once(server: Server) -> None:
    who = Request(authenticate=shared_memory_pb2.Authenticate(token="a"))
    _, accepted, again = raw(server, who, who)
    assert accepted.HasField("authenticated")
    assert again.error.reason == "MALFORMED_REQUEST"


def test_a_wrong_token_is_what_the_call_fails_with(server: Server) -> None:
    with (
        bh.connect(server.targets[0], token="c", timeout=120) as connection,
        warnings.catch_warnings(),
    ):
        warnings.simplefilter("ignore", RuntimeWarning)
        x = bh.Tape(connection).leaf(LARGE)
        with pytest.raises(bh.Unauthenticated):
            x.numpy()
