"""Tokens and certificates exchanged while clients work: no call fails."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.access.authority import Authority, put, serving
from tests.client.waiting import wait_until

import backhaul as bh
from backhaul_proto.tokens import add_line, line_of, new_token
from backhaul_server.service.certificates import Certificates

TURNS = 12
CLIENTS = 4


class Load:
    """Clients that compute until they are told to stop, each step with its value checked."""

    def __init__(self, connect: Callable[[], bh.Connection]) -> None:
        self.errors: list[BaseException] = []
        self.done = [0] * CLIENTS
        self.stop = threading.Event()
        self._connect = connect

    def go_on(self) -> None:
        """Until every client has made 50 calls more."""
        wanted = [each + 50 for each in self.done]
        wait_until(lambda: bool(self.errors) or all(map(int.__ge__, self.done, wanted)))

    def run(self, number: int) -> None:
        try:
            with self._connect() as connection, bh.Tape(connection) as tape:
                x = tape.leaf(3.0)
                while not self.stop.is_set():
                    assert float(tape.pullback(x * x)[x]) == 6.0
                    self.done[number] += 1
        except BaseException as error:
            self.errors.append(error)


@contextmanager
def load(connect: Callable[[], bh.Connection]) -> Iterator[Load]:
    made = Load(connect)
    threads = [threading.Thread(target=made.run, args=(each,)) for each in range(CLIENTS)]
    for each in threads:
        each.start()
    try:
        made.go_on()
        yield made
        made.go_on()
    finally:
        made.stop.set()
        for each in threads:
            each.join(120)
    assert made.errors == []


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path)


def test_certificates_are_exchanged_under_load(authority: Authority, tmp_path: Path) -> None:
    pairs = [authority.issue("127.0.0.1") for _ in range(2)]
    in_use = authority.issue("127.0.0.1")
    client = authority.issue("client")
    junk = tmp_path / "junk"
    junk.write_text("junk")
    tls = bh.TLS(roots=authority.roots, certificate=client.certificate, key=client.key)
    certificates = Certificates(in_use.certificate, in_use.key, authority.roots)
    with serving(certificates=certificates, max_connection_age=0.3) as server:
        target = server.targets[0]
        with load(lambda: bh.connect(target, tls=tls, timeout=120)):
            for turn in range(TURNS):
                for source, place in (
                    (junk, in_use.key),  # broken: the old pair goes on
                    (pairs[turn % 2].certificate, in_use.certificate),  # not of one pair yet
                    (pairs[turn % 2].key, in_use.key),
                ):
                    put(source, place)
                    with bh.connect(target, tls=tls, timeout=120) as connection:
                        connection.ping()


def test_new_certificates_are_those_of_the_next_handshake(
    authority: Authority, tmp_path: Path
) -> None:
    in_use = authority.issue("127.0.0.1")
    clients = tmp_path / "clients.pem"
    put(authority.roots, clients)
    certificates = Certificates(in_use.certificate, in_use.key, clients)
    later = Authority(tmp_path, "later")
    new, client, new_client = later.issue("127.0.0.1"), authority.issue("a"), later.issue("a")
    old_tls = bh.TLS(authority.roots, client.certificate, client.key)
    new_tls = bh.TLS(later.roots, new_client.certificate, new_client.key)
    with serving(certificates=certificates, max_connection_age=0.3) as server:
        target = server.targets[0]
        with bh.connect(target, tls=old_tls, timeout=120) as kept:
            kept.ping()
            with bh.connect(target, tls=new_tls, timeout=120) as connection:
                with pytest.raises(bh.Unavailable):
                    connection.ping()
                put(new.certificate, in_use.certificate)
                put(new.key, in_use.key)
                put(later.roots, clients)

            def retired() -> bool:
                try:
                    kept.ping()
                except bh.Unavailable:
                    return True
                return False

            # The old identity works as long as its connection lasts, and no longer.
            wait_until(retired)
            with bh.connect(target, tls=new_tls, timeout=120) as connection:
                connection.ping()


def test_tokens_are_exchanged_under_load(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    old, new = new_token(), new_token()
    add_line(file, line_of("alice", old))
    now = [0.0]
    with serving(tokens=file, clock=lambda: now[0]) as server:
        target = server.targets[0]

        def works(token: str) -> bool:
            with bh.connect(target, token=token, timeout=120) as connection:
                try:
                    connection.ping()
                except bh.Unauthenticated:
                    return False
                return True

        assert not works(new)
        with load(lambda: bh.connect(target, token=old, timeout=120)) as working:
            add_line(file, line_of("alice", new))
            assert not works(new)
            now[0] += 1.0
            wait_until(lambda: works(new))  # another's call may be looking just now
            broken = tmp_path / "broken"
            broken.write_text(file.read_text()[:-5])
            put(broken, file)
            now[0] += 1.0
            working.go_on()
            assert works(old)
            assert works(new)
        with load(lambda: bh.connect(target, token=new, timeout=120)):
            file.write_text(line_of("alice", new))
            now[0] += 1.0
            wait_until(lambda: not works(old))


def test_both_tokens_of_a_name_reach_the_same_session(tmp_path: Path) -> None:
    file = tmp_path / "tokens"
    old, new = new_token(), new_token()
    file.write_text("\n".join(line_of("alice", each) for each in (old, new)))
    with serving(tokens=file) as server:
        target = server.targets[0]
        with bh.connect(target, token=old) as first, bh.connect(target, token=new) as second:
            tape = bh.Tape(first)
            x = tape.leaf(3.0)
            assert float(x * x) == 9.0
            session = tape._core._session
            info = second._ready().get_session(session.id, session.epoch, timeout=120)
            assert info.last_seq == 1
