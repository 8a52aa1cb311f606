"""How a target is read, and what is said of one that cannot be."""

from __future__ import annotations

from pathlib import Path

import pytest

import backhaul as bh
from backhaul.targets import default_target, parse_target

READ = [
    ("embedded", "embedded", "", True),
    ("localhost:50051", "plain", "localhost:50051", True),
    ("127.0.0.1:1", "plain", "127.0.0.1:1", True),
    ("127.8.9.1:1", "plain", "127.8.9.1:1", True),
    ("[::1]:50051", "plain", "[::1]:50051", True),
    ("grpc://example.org:443", "plain", "example.org:443", False),
    ("grpc://[2001:db8::1]:443", "plain", "[2001:db8::1]:443", False),
    ("grpcs://example.org:443", "tls", "example.org:443", False),
    ("10.0.0.1:65535", "plain", "10.0.0.1:65535", False),
    ("unix:///run/a.sock", "unix", "unix:/run/a.sock", True),
    ("unix:///run/a b%.sock", "unix", "unix:/run/a%20b%25.sock", True),
]


@pytest.mark.parametrize(("text", "kind", "address", "local"), READ)
def test_targets_that_can_be_read(text: str, kind: str, address: str, local: bool) -> None:
    target = parse_target(text)
    assert (target.kind, target.address, target.local) == (kind, address, local)
    assert str(target) == text


@pytest.mark.parametrize(
    "text",
    [
        "",
        "localhost",
        "localhost:",
        ":50051",
        "localhost:port",
        "localhost:0",
        "localhost:65536",
        "localhost:-1",
        "localhost:٣",
        "::1:50051",
        "[localhost]:50051",
        "http://localhost:50051",
        "grpc://",
        "grpc://user@host:1",
        "grpc://host:1/path",
        "unix:/run/a.sock",
        "unix://relative.sock",
        "unix:///run/a\0.sock",
        "Embedded",
    ],
)
def test_targets_that_cannot_be_read(text: str) -> None:
    with pytest.raises(bh.InvalidArgument, match="host:port") as error:
        bh.connect(text)
    assert error.value.reason == "INVALID_TARGET"


def test_a_socket_path_that_is_too_long_says_how_long_it_may_be() -> None:
    longest = "/" + "x" * 106
    assert parse_target(f"unix://{longest}").kind == "unix"
    with pytest.raises(bh.InvalidArgument, match="107") as error:
        bh.connect(f"unix://{longest}y")
    assert error.value.reason == "INVALID_TARGET"
    assert error.value.details["actual"] == "108"


def test_the_environment_names_the_default() -> None:
    assert default_target({}) == "embedded"
    assert default_target({"BACKHAUL_TARGET": ""}) == "embedded"
    assert default_target({"BACKHAUL_TARGET": "localhost:1"}) == "localhost:1"


def test_a_token_does_not_travel_in_the_clear_beyond_this_machine(tmp_path: Path) -> None:
    with pytest.raises(bh.PermissionDenied, match="grpcs://"):
        bh.connect("grpc://example.org:1", token="secret")
    roots = tmp_path / "roots.pem"
    roots.touch()
    for target in ("grpcs://example.org:1", "localhost:1", "unix:///run/a.sock", "embedded"):
        bh.connect(target, token="secret").close()
    bh.connect("example.org:1", token="secret", tls=roots).close()


def test_tls_goes_with_targets_that_can_have_it(tmp_path: Path) -> None:
    roots = tmp_path / "roots.pem"
    roots.touch()
    for target in ("grpc://example.org:1", "unix:///run/a.sock", "embedded"):
        with pytest.raises(bh.InvalidArgument, match="tls="):
            bh.connect(target, tls=roots)
    with pytest.raises(bh.InvalidArgument, match="no file"):
        bh.connect("grpcs://example.org:1", tls=tmp_path / "missing.pem")


def test_what_is_no_tls_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "file.pem"
    file.touch()
    missing = tmp_path / "missing.pem"
    for tls in (
        bh.TLS(roots=missing),
        bh.TLS(certificate=file),
        bh.TLS(key=file),
        bh.TLS(certificate=file, key=missing),
        bh.TLS(server_name=""),
    ):
        with pytest.raises(bh.InvalidArgument, match="tls: ") as error:
            bh.connect("grpcs://example.org:1", tls=tls)
        assert error.value.reason == "INVALID_VALUE"
    with pytest.raises(bh.InvalidArgument, match="tls=True is neither"):
        bh.connect("grpcs://example.org:1", tls=True)  # type: ignore[arg-type]  # what is refused
    with pytest.raises(bh.InvalidArgument, match="tls= does not go"):
        bh.connect("unix:///run/a.sock", tls=bh.TLS())
    assert str(file) not in repr(bh.TLS(key=file))


@pytest.mark.parametrize("timeout", [0, -1.0, float("nan")])
def test_a_timeout_is_above_zero(timeout: float) -> None:
    with pytest.raises(bh.InvalidArgument, match="seconds") as error:
        bh.connect("embedded", timeout=timeout)
    assert error.value.reason == "INVALID_VALUE"
