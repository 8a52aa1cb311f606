"""Where a server listens without more ado, and where it does not."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    PrivateFormat,
    load_pem_private_key,
)
from tests.access.authority import Authority

import backhaul as bh
from backhaul_proto.tokens import line_of
from backhaul_server.cli import access_by
from backhaul_server.config import ServerSettings
from backhaul_server.engine.engine import Engine
from backhaul_server.exposure import check_exposure, is_loopback
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry
from backhaul_server.service.server import Server

HOSTS = [
    ("127.0.0.1", True),
    ("127.200.3.4", True),
    ("::1", True),
    ("[::1]", True),
    ("[::ffff:127.0.0.1]", True),
    ("localhost", True),
    ("127.1", True),  # as the system's resolver reads it
    ("0.0.0.0", False),
    ("0", False),
    ("[::]", False),
    ("[::ffff:0.0.0.0]", False),
    ("[fe80::1%lo]", False),
    ("10.0.0.1", False),
    ("", False),
    ("*", False),
    ("ipv4:127.0.0.1", False),
    ("dns:///localhost", False),
    ("local host", False),
]
NOTHING = ["unix-abstract", "no-such-host.invalid", "x" * 300]


@pytest.mark.parametrize(("host", "expected"), HOSTS)
def test_what_is_loopback_for_certain(host: str, expected: bool) -> None:
    assert is_loopback(host) is expected


@pytest.mark.parametrize("host", NOTHING)
def test_a_name_that_stands_for_nothing_is_told_as_that(host: str) -> None:
    with pytest.raises(bh.InvalidArgument, match="stands for no address") as error:
        check_exposure([f"{host}:0"], encrypted=False, authenticated=False)
    assert error.value.reason == "INVALID_TARGET"


def test_a_name_is_loopback_when_all_that_it_stands_for_is(monkeypatch: pytest.MonkeyPatch) -> None:
    stands_for = {"here": ["127.0.0.1", "::1"], "both": ["127.0.0.1", "192.0.2.1"]}

    def resolve(host: str, *_: object, **__: object) -> list[tuple[object, ...]]:
        return [(0, 0, 0, "", (each, 0)) for each in stands_for[host]]

    monkeypatch.setattr(socket, "getaddrinfo", resolve)
    assert is_loopback("here")
    assert not is_loopback("both")


OPEN = ["0.0.0.0:0", "[::]:0", "192.0.2.1:0", ":0"]
CLOSED = ["127.0.0.1:0", "[::1]:0", "localhost:0", "unix:/run/s"]


@pytest.mark.parametrize("encrypted", [False, True])
@pytest.mark.parametrize("authenticated", [False, True])
@pytest.mark.parametrize("address", [*OPEN, *CLOSED])
def test_beyond_this_machine_it_takes_tls_and_to_know_who_calls(
    address: str, encrypted: bool, authenticated: bool
) -> None:
    addresses = ["127.0.0.1:0", address]
    if address in CLOSED or (encrypted and authenticated):
        check_exposure(addresses, encrypted=encrypted, authenticated=authenticated)
        return
    wanted = "--token-file" if encrypted else "--tls-cert"
    with pytest.raises(bh.InvalidArgument, match=rf"{wanted}.*--insecure") as error:
        check_exposure(addresses, encrypted=encrypted, authenticated=authenticated)
    assert error.value.reason == "INSECURE_ADDRESS"
    assert error.value.details == {"actual": address}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("files")
    authority = Authority(folder)
    pair = authority.issue("127.0.0.1")
    tokens = folder / "tokens"
    tokens.write_text(line_of("alice", "x"))
    junk = folder / "junk"
    junk.write_bytes(b"junk\xff")
    with_passphrase = folder / "with_passphrase.key"
    key = load_pem_private_key(pair.key.read_bytes(), None)
    with_passphrase.write_bytes(
        key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"secret"))
    )
    return {
        "tls_cert": pair.certificate,
        "tls_key": pair.key,
        "client_ca": authority.roots,
        "token_file": tokens,
        "other_key": authority.issue("other").key,
        "junk": junk,
        "with_passphrase": with_passphrase,
        "missing": folder / "missing",
    }


def server_of(settings: ServerSettings) -> Server:
    access, certificates = access_by(settings)
    return Server(
        Dispatcher(Engine()),
        settings.addresses,
        entry=Entry(access=access),
        certificates=certificates,
        insecure=settings.insecure,
    )


TLS = {"tls_cert": "tls_cert", "tls_key": "tls_key"}
OUTSIDE = "0.0.0.0"
REFUSED = [
    (OUTSIDE, {}, "INSECURE_ADDRESS"),
    (OUTSIDE, {"token_file": "token_file"}, "INSECURE_ADDRESS"),
    (OUTSIDE, TLS, "INSECURE_ADDRESS"),
    ("::", {}, "INSECURE_ADDRESS"),
    ("127.0.0.1", {"tls_cert": "tls_cert"}, "INVALID_VALUE"),
    ("127.0.0.1", {"tls_key": "tls_key"}, "INVALID_VALUE"),
    ("127.0.0.1", {"client_ca": "client_ca"}, "INVALID_VALUE"),
    ("127.0.0.1", {**TLS, "tls_key": "other_key"}, "INVALID_VALUE"),
    ("127.0.0.1", {**TLS, "tls_key": "with_passphrase"}, "INVALID_VALUE"),
    ("127.0.0.1", {**TLS, "tls_cert": "missing"}, "INVALID_VALUE"),
    ("127.0.0.1", {**TLS, "tls_cert": "junk"}, "INVALID_VALUE"),
    ("127.0.0.1", {**TLS, "client_ca": "junk"}, "INVALID_VALUE"),
    ("127.0.0.1", {"token_file": "missing"}, "INVALID_VALUE"),
    ("127.0.0.1", {"token_file": "junk"}, "INVALID_VALUE"),
]


@pytest.mark.parametrize(("host", "given", "reason"), REFUSED)
def test_a_server_that_does_not_start_says_why(
    host: str, given: dict[str, str], reason: str, files: dict[str, Path]
) -> None:
    settings = {name: files[file] for name, file in given.items()}
    with pytest.raises(bh.InvalidArgument) as error:
        server_of(ServerSettings.model_validate({"host": host, "port": 0, **settings}))
    assert error.value.reason == reason
    assert "--" in error.value.message or any(
        str(each) in error.value.message for each in settings.values()
    )


@pytest.mark.parametrize(
    ("host", "given", "insecure"),
    [
        ("0.0.0.0", {}, True),
        ("0.0.0.0", TLS, True),
        ("0.0.0.0", {**TLS, "token_file": "token_file"}, False),
        ("0.0.0.0", {**TLS, "client_ca": "client_ca"}, False),
        ("127.0.0.1", {"token_file": "token_file"}, False),
        ("localhost", {}, False),
    ],
)
def test_a_server_that_starts(
    host: str, given: dict[str, str], insecure: bool, files: dict[str, Path]
) -> None:
    settings = {name: files[file] for name, file in given.items()}
    server = server_of(
        ServerSettings.model_validate({"host": host, "port": 0, "insecure": insecure, **settings})
    )
    (target,) = server.targets
    assert target.startswith("grpcs://" if given.get("tls_cert") else "grpc://")
    server.start()
    server.stop(None)
