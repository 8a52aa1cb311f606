"""What tests share: a server on a real socket, and a connection by each transport."""

from __future__ import annotations

import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

import backhaul as bh
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

settings.register_profile("default", print_blob=True, deadline=None, derandomize=True)
settings.load_profile("default")

# A shell has what it runs in the background ignore Ctrl-C; tests send it to themselves.
signal.signal(signal.SIGINT, signal.default_int_handler)

TRANSPORTS = ("embedded", "grpc")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Run what takes `target` or `connection` on servers elsewhere, such as front ends of a cluster."""
    parser.addoption("--target", action="append", default=[], help="a server that runs; or several")


@pytest.fixture(scope="session")
def server() -> Iterator[Server]:
    """A server of this process on a free port of the loopback."""
    running = Server(Dispatcher(Engine()), ["127.0.0.1:0"])
    running.start()
    yield running
    running.stop(None)


@pytest.fixture(scope="session")
def target(request: pytest.FixtureRequest) -> str:
    """Where that server is, or the first of ``--target``."""
    given: list[str] = request.config.getoption("--target")
    if given:
        return given[0]
    server: Server = request.getfixturevalue("server")
    return server.targets[0]


@pytest.fixture(scope="session", params=TRANSPORTS)
def connection(request: pytest.FixtureRequest) -> Iterator[bh.Connection]:
    """A connection by each transport, or to each ``--target``: tests that take it hold for both."""
    given: list[str] = request.config.getoption("--target")
    if given:
        where = given[TRANSPORTS.index(request.param) % len(given)]
    else:
        where = "embedded" if request.param == "embedded" else request.getfixturevalue("target")
    with bh.connect(where, timeout=60) as made:
        yield made


@pytest.fixture
def tape(connection: bh.Connection) -> Iterator[bh.Tape]:
    """A fresh tape."""
    with bh.Tape(connection) as made:
        yield made
