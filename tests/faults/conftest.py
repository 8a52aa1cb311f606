"""A server that listens in every way, and a connection by each."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest
from tests.faults.ways import WAYS, Way

import backhaul as bh
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server


@pytest.fixture(scope="session")
def targets() -> Iterator[Mapping[str, str]]:
    """Targets of one server, by how they are dialled."""
    with tempfile.TemporaryDirectory() as folder:  # pytest's own may be too long for a socket
        addresses = ["127.0.0.1:0", f"unix:{Path(folder) / 'backhaul.sock'}"]
        running = Server(Dispatcher(Engine()), addresses)
        running.start()
        yield dict(zip(("tcp", "unix", "embedded"), (*running.targets, "embedded"), strict=True))
        running.stop(None)


@pytest.fixture(scope="session", params=WAYS, ids=[way.name for way in WAYS])
def way(request: pytest.FixtureRequest) -> Way:
    """Each way, in turn."""
    found: Way = request.param
    return found


@pytest.fixture(scope="session")
def connection(way: Way, targets: Mapping[str, str]) -> Iterator[bh.Connection]:
    """A connection by each way."""
    with bh.connect(targets[way.by], timeout=60, **way.options) as made:
        yield made
