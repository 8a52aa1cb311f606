"""A server that is stopped and started again on the same port, for tests of what clients do then."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import contextmanager

from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server


def held_port(port: int = 0) -> socket.socket:
    """A port of the loopback that nobody else is given while this socket is open, and a server may listen on.

    Args:
        port: which one; 0: any.
    """
    held = socket.socket()
    held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    held.bind(("127.0.0.1", port))
    return held


class Restarted:
    """A server in this process on a port that stays.

    Attributes:
        target: where it is.
        server: the one that runs.
        restarts: how often it was restarted.
    """

    def __init__(self) -> None:
        self._held = held_port()
        self.target = f"127.0.0.1:{self._held.getsockname()[1]}"
        self.restarts = -1
        self.start()

    def start(self) -> None:
        """Start a new one, which knows nothing of those before."""
        self.server = Server(Dispatcher(Engine()), [self.target])
        self.server.start()
        self.restarts += 1

    def stop(self) -> None:
        self.server.stop(None)

    def close(self) -> None:
        self.stop()
        self._held.close()

    def restart(self) -> None:
        self.stop()
        self.start()


@contextmanager
def restarted() -> Iterator[Restarted]:
    """Such a server, stopped at the end."""
    made = Restarted()
    try:
        yield made
    finally:
        made.close()
