"""TLS between our clients and a server: who gets in, under what name, and what the others are told."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.access.authority import LOOPBACK, Authority, serving, square

import backhaul as bh
import backhaul.aio
from backhaul_proto.errors import BackhaulError
from backhaul_proto.tokens import line_of
from backhaul_server.service.certificates import Certificates
from backhaul_server.service.entry import Visit


class Callers:
    """Who came in."""

    def __init__(self) -> None:
        self.seen: list[str] = []

    def began(self, visit: Visit) -> None:
        pass

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        self.seen.append(visit.principal)


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(scope="module")
def other(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("other"), "other")


def certificates(authority: Authority, *names: str, mutual: bool = False, **more: Any) -> Any:
    pair = authority.issue(*names or ("127.0.0.1",), **more)
    return Certificates(pair.certificate, pair.key, authority.roots if mutual else None)


@pytest.fixture(scope="module")
def plain() -> Iterator[str]:
    with serving() as server:
        yield server.targets[0]


@pytest.fixture(scope="module")
def secured(authority: Authority) -> Iterator[str]:
    with serving(certificates=certificates(authority)) as server:
        yield server.targets[0]


@pytest.fixture(scope="module")
def mutual(authority: Authority) -> Iterator[tuple[str, Callers]]:
    callers = Callers()
    made = certificates(authority, mutual=True)
    with serving(certificates=made, observers=(callers,)) as server:
        yield server.targets[0], callers


def refused(target: str, **options: Any) -> bh.BackhaulError:
    """What both clients raise, alike but for numbers of ports."""

    async def ask() -> None:
        async with backhaul.aio.connect(target, timeout=120, **options) as connection:
            await connection.ping()

    with pytest.raises(bh.BackhaulError) as awaited:
        asyncio.run(ask())
    with (
        bh.connect(target, timeout=120, **options) as connection,
        pytest.raises(bh.BackhaulError) as error,
    ):
        connection.ping()
    assert type(awaited.value) is type(error.value)
    assert awaited.value.reason == error.value.reason
    return error.value


def test_both_clients_compute_by_tls(secured: str, authority: Authority) -> None:
    assert secured.startswith("grpcs://127.0.0.1:")
    for tls in (authority.roots, str(authority.roots), bh.TLS(roots=authority.roots)):
        with bh.connect(secured, tls=tls, timeout=120) as connection:
            assert square(connection) == 6.0

    async def ask() -> float:
        async with backhaul.aio.connect(secured, tls=authority.roots, timeout=120) as connection:
            return await connection.ping()

    assert asyncio.run(ask()) > 0


def test_a_server_of_another_authority(secured: str, other: Authority) -> None:
    for tls in (None, other.roots):
        error = refused(secured, tls=tls)
        assert error.reason == "TLS_HANDSHAKE_FAILED"
        assert isinstance(error, bh.Unavailable)
        assert "of no authority that is trusted here" in error.message
        assert "connect(tls=...)" in error.message


def test_a_server_whose_certificate_has_expired(authority: Authority) -> None:
    with serving(certificates=certificates(authority, expired=True)) as server:
        error = refused(server.targets[0], tls=authority.roots)
    assert error.reason == "TLS_HANDSHAKE_FAILED"
    assert "has expired" in error.message


def test_a_server_of_another_name(authority: Authority) -> None:
    with serving(certificates=certificates(authority, "tapes.example.org")) as server:
        target = server.targets[0]
        error = refused(target, tls=authority.roots)
        assert error.reason == "TLS_HANDSHAKE_FAILED"
        assert "another name" in error.message
        assert "server_name=" in error.message
        named = bh.TLS(roots=authority.roots, server_name="tapes.example.org")
        with bh.connect(target, tls=named, timeout=120) as connection:
            assert square(connection) == 6.0
        wrong = bh.TLS(roots=authority.roots, server_name="other.example.org")
        assert refused(target, tls=wrong).reason == "TLS_HANDSHAKE_FAILED"


def test_files_of_the_client_that_cannot_be_used(secured: str, authority: Authority) -> None:
    one, another = authority.issue("one"), authority.issue("another")
    for tls in (
        bh.TLS(roots=one.key),
        bh.TLS(roots=authority.roots, certificate=one.certificate, key=another.key),
    ):
        error = refused(secured, tls=tls)
        assert error.reason == "TLS_HANDSHAKE_FAILED"
        assert "a file of tls= cannot be used" in error.message


def test_a_server_that_speaks_in_the_clear(plain: str, authority: Authority) -> None:
    error = refused(plain.replace("grpc://", "grpcs://"), tls=authority.roots)
    assert error.reason == "TLS_HANDSHAKE_FAILED"
    assert "in the clear" in error.message


def test_a_client_that_speaks_in_the_clear(secured: str) -> None:
    error = refused(secured.replace("grpcs://", "grpc://"))
    assert error.reason == "UNAVAILABLE"
    assert "grpcs://" in error.message


@pytest.mark.parametrize("shown", ["none", "other authority", "expired"])
def test_a_client_without_the_right_certificate(
    mutual: tuple[str, Callers], authority: Authority, other: Authority, shown: str
) -> None:
    target, callers = mutual
    tls = bh.TLS(roots=authority.roots)
    if shown != "none":
        issuer = other if shown == "other authority" else authority
        pair = issuer.issue("client", expired=shown == "expired")
        tls = bh.TLS(roots=authority.roots, certificate=pair.certificate, key=pair.key)
    before = len(callers.seen)
    error = refused(target, tls=tls)
    assert error.reason == "UNAVAILABLE"
    assert "certificate=" in error.message
    assert "--client-ca" in error.message
    assert len(callers.seen) == before


@pytest.mark.parametrize(
    ("names", "common_name", "principal"),
    [
        (("trainer.example.org",), None, "cert:trainer.example.org"),
        (("alice@example.org", "b.example.org"), "al", "cert:alice@example.org"),
        ((), "alice", "cert:alice"),
    ],
)
def test_the_certificate_says_who_is_calling(
    mutual: tuple[str, Callers],
    authority: Authority,
    names: tuple[str, ...],
    common_name: str | None,
    principal: str,
) -> None:
    target, callers = mutual
    pair = authority.issue(*names, common_name=common_name)
    tls = bh.TLS(roots=authority.roots, certificate=pair.certificate, key=pair.key)
    with bh.connect(target, tls=tls, timeout=120) as connection:
        assert square(connection) == 6.0
    assert callers.seen[-1] == principal


def test_with_a_token_file_the_token_says_it_and_the_certificate_is_needed_too(
    authority: Authority, tmp_path: Path
) -> None:
    tokens = tmp_path / "tokens"
    tokens.write_text(line_of("alice", "secret"))
    pair = authority.issue("client")
    tls = bh.TLS(roots=authority.roots, certificate=pair.certificate, key=pair.key)
    callers = Callers()
    made = certificates(authority, mutual=True)
    with serving(certificates=made, tokens=tokens, observers=(callers,)) as server:
        target = server.targets[0]
        with bh.connect(target, tls=tls, token="secret", timeout=120) as connection:
            assert square(connection) == 6.0
        assert set(callers.seen) == {"alice"}
        assert refused(target, tls=tls).reason == "UNAUTHENTICATED"
        assert refused(target, tls=authority.roots, token="secret").reason == "UNAVAILABLE"


def test_on_a_unix_socket_there_are_no_certificates(authority: Authority, tmp_path: Path) -> None:
    callers = Callers()
    made = certificates(authority, mutual=True)
    with tempfile.TemporaryDirectory(prefix="bh") as folder:
        path = f"{folder}/s"
        addresses = (LOOPBACK, f"unix:{path}")
        with serving(*addresses, certificates=made, observers=(callers,)) as server:
            assert server.targets[1] == f"unix://{path}"
            with bh.connect(server.targets[1], timeout=120) as connection:
                assert square(connection) == 6.0
        assert set(callers.seen) == {""}
        tokens = tmp_path / "tokens"
        tokens.write_text(line_of("alice", "secret"))
        with serving(*addresses, certificates=made, tokens=tokens) as server:
            assert refused(server.targets[1]).reason == "UNAUTHENTICATED"
            with bh.connect(server.targets[1], token="secret", timeout=120) as connection:
                assert square(connection) == 6.0


def test_files_that_the_client_cannot_read(authority: Authority, tmp_path: Path) -> None:
    pair = authority.issue("client")
    key = tmp_path / "key"
    key.write_bytes(pair.key.read_bytes())
    tls = bh.TLS(roots=authority.roots, certificate=pair.certificate, key=key)
    with bh.connect("grpcs://127.0.0.1:1", tls=tls) as connection:
        os.unlink(key)
        with pytest.raises(bh.InvalidArgument, match="key") as error:
            connection.ping()
        assert error.value.reason == "INVALID_VALUE"
