"""Certificates of the tests' own authority, in files, and a server that shows them."""

from __future__ import annotations

import datetime
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import trustme

import backhaul as bh
from backhaul_server.engine.engine import Engine
from backhaul_server.service.access import Tokens, access_of
from backhaul_server.service.certificates import Certificates
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry, Observer
from backhaul_server.service.server import Server

LOOPBACK = "127.0.0.1:0"
_DAY = datetime.timedelta(days=1)


@dataclass(frozen=True, slots=True)
class Pair:
    """A certificate and its key, in files."""

    certificate: Path
    key: Path

    @property
    def pem(self) -> tuple[bytes, bytes]:
        return self.key.read_bytes(), self.certificate.read_bytes()


class Authority:
    """Issues certificates into a folder."""

    def __init__(self, folder: Path, name: str = "ca") -> None:
        self._folder = folder
        self._name = name
        self._ca = trustme.CA()
        self._count = 0
        self.roots = folder / f"{name}.pem"
        self._ca.cert_pem.write_to_path(str(self.roots))

    def issue(self, *names: str, common_name: str | None = None, expired: bool = False) -> Pair:
        now = datetime.datetime.now(datetime.UTC)
        made = self._ca.issue_cert(
            *names,
            common_name=common_name,
            not_before=now - 9 * _DAY,
            not_after=now - _DAY if expired else now + _DAY,
        )
        self._count += 1
        beside = self._folder / f"{self._name}-{self._count}"
        pair = Pair(beside.with_suffix(".crt"), beside.with_suffix(".key"))
        pair.certificate.write_bytes(b"".join(each.bytes() for each in made.cert_chain_pems))
        made.private_key_pem.write_to_path(str(pair.key))
        return pair


def put(source: Path, target: Path) -> None:
    """Take the place of a file at once, as who rotates files has to."""
    beside = target.with_name(f"{target.name}.new")
    beside.write_bytes(source.read_bytes())
    os.replace(beside, target)


@contextmanager
def serving(
    *addresses: str,
    tokens: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
    certificates: Certificates | None = None,
    observers: tuple[Observer, ...] = (),
    **options: Any,
) -> Iterator[Server]:
    access = access_of(
        None if tokens is None else Tokens(tokens, clock),
        mutual=certificates is not None and certificates.mutual,
    )
    server = Server(
        Dispatcher(Engine()),
        addresses or [LOOPBACK],
        entry=Entry(access=access, observers=observers),
        certificates=certificates,
        **options,
    )
    server.start()
    try:
        yield server
    finally:
        server.stop(None)


def square(connection: bh.Connection) -> float:
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])
