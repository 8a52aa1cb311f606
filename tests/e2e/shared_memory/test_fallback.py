"""Where memory cannot be shared, tensors travel by the socket."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import threading
import warnings
from pathlib import Path

import pytest
from tests.e2e.server_process import ServerProcess, serving
from tests.e2e.shared_memory.support import (
    MB,
    in_shared_memory,
    large_square,
    listening,
    memory_of,
    square,
)

import backhaul as bh
from backhaul.transport import side_socket
from backhaul.transport.regions import Segment
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="memfds are Linux's")


def falls_back(target: str, match: str) -> None:
    """Large tensors come through, with one warning that points at the caller."""
    with bh.connect(target, timeout=60) as connection:
        with pytest.warns(RuntimeWarning, match=match) as caught:
            found = [large_square(connection, by) for by in (1.0, 4.0)]
        assert [found[0][0], found[1][-1]] == [2.0, 8.0]
        assert not in_shared_memory(found[1])
        assert [each.filename for each in caught] == [large_square.__code__.co_filename]


def silently_by_socket(target: str) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with bh.connect(target, timeout=60) as connection:
            found = large_square(connection, 4.0)
    assert found[0] == 8.0
    assert not in_shared_memory(found)


def test_memory_that_is_not_what_the_server_sees_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Elsewhere(Segment):
        @property
        def nonce(self) -> bytes:
            return b"of another file."

    monkeypatch.setattr(side_socket, "Segment", Elsewhere)
    with listening(folder / "s", max_message_bytes=64 * MB) as target:
        falls_back(target, "not what the server sees")


def test_another_user_is_refused_and_goes_by_the_socket(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with listening(folder / "s", max_message_bytes=64 * MB) as target:
        monkeypatch.setattr(
            "backhaul_server.service.side_socket.credentials_of",
            lambda _: b"\1\0\0\0" + (os.geteuid() + 1).to_bytes(4, "little") + bytes(4),
        )
        falls_back(target, "PERMISSION_DENIED")


def test_a_server_of_another_version_is_not_used(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("backhaul_server.service.side_socket.VERSION", 2)
    with listening(folder / "s", max_message_bytes=64 * MB) as target:
        falls_back(target, "VERSION_MISMATCH")


def test_beyond_the_limit_tensors_go_by_the_socket(folder: Path) -> None:
    with listening(folder / "s", shared_memory=MB, max_message_bytes=64 * MB) as target:
        falls_back(target, "QUOTA_EXCEEDED")


def test_a_server_that_offers_none_is_no_reason_for_a_warning(folder: Path) -> None:
    with listening(folder / "s", shared_memory=0, max_message_bytes=64 * MB) as target:
        assert os.listdir(folder) == ["s"]
        silently_by_socket(target)
        with (
            bh.connect(target, timeout=60, shared_memory=True) as connection,
            pytest.raises(bh.Unavailable) as error,
        ):
            large_square(connection, 1.0)
        assert error.value.reason == "SHARED_MEMORY_UNAVAILABLE"
        assert "offers none" in error.value.message


def test_a_path_that_is_too_long_for_the_side_socket_goes_by_the_socket(folder: Path) -> None:
    path = folder / ("p" * (105 - len(str(folder))))
    with listening(path, max_message_bytes=64 * MB) as target:
        assert os.listdir(folder) == [path.name]
        silently_by_socket(target)


def test_a_restart_without_shared_memory_removes_the_old_side_socket(folder: Path) -> None:
    server = ServerProcess("--unix", str(folder / "s"))
    server.close()
    assert sorted(os.listdir(folder)) == ["s", "s.shm"]
    with serving("--unix", str(folder / "s"), "--shared-memory", "0"):
        silently_by_socket(f"unix://{folder / 's'}")
        assert os.listdir(folder) == ["s"]


def test_small_tensors_open_nothing(target: str) -> None:
    with bh.connect(target, timeout=60) as connection:
        assert square(connection) == 6.0
        assert memory_of(connection)._side is None


def test_a_target_of_tcp_never_uses_it() -> None:
    server = Server(
        Dispatcher(Engine(), max_message_bytes=64 * MB), ["127.0.0.1:0"], shared_memory=64 * MB
    )
    server.start()
    try:
        silently_by_socket(server.targets[0])
    finally:
        server.stop(None)


@pytest.mark.parametrize("target", ["127.0.0.1:1", "embedded", "grpcs://host:1"])
def test_it_cannot_be_demanded_of_a_target_that_is_no_unix_socket(target: str) -> None:
    with pytest.raises(bh.InvalidArgument) as error:
        bh.connect(target, shared_memory=True)
    assert error.value.reason == "INVALID_VALUE"
    assert "unix://" in error.value.message


def test_what_is_no_yes_or_no_is_refused() -> None:
    with pytest.raises(bh.InvalidArgument):
        bh.connect("unix:///tmp/s", shared_memory="yes")  # type: ignore[arg-type]  # refused


@pytest.mark.parametrize("words", [b"", b"\xff", b"\x22\x00", b"\x0a\x00"], ids=str)
def test_what_is_no_side_socket_is_not_used(folder: Path, words: bytes) -> None:
    with listening(folder / "s", shared_memory=0, max_message_bytes=64 * MB) as target:
        other = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        other.bind(str(folder / "s.shm"))
        other.listen()

        def answer() -> None:
            with contextlib.suppress(OSError):
                while True:
                    connection, _ = other.accept()
                    connection.send(words)
                    connection.close()

        threading.Thread(target=answer, daemon=True).start()
        falls_back(target, "SHARED_MEMORY_UNAVAILABLE|VERSION_MISMATCH|INTERNAL")
        other.shutdown(socket.SHUT_RDWR)  # wakes it
        other.close()
