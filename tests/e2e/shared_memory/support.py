"""A server at a unix socket, and what shows whether memory is shared."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np

import backhaul as bh
from backhaul.transport.grpc import GrpcTransport
from backhaul.transport.shared_memory import SharedMemory
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

MB = 1 << 20
LIMIT = 300_000  # of a message: what is larger and arrives has come by shared memory
WAYS = ("shared", "socket")


@contextmanager
def listening(
    path: Path, shared_memory: int = 64 * MB, max_message_bytes: int = LIMIT
) -> Iterator[str]:
    """A server of this process at a unix socket."""
    dispatcher = Dispatcher(Engine(), max_message_bytes=max_message_bytes)
    server = Server(dispatcher, [f"unix:{path}"], shared_memory=shared_memory)
    server.start()
    try:
        yield server.targets[0]
    finally:
        server.stop(None)


def memory_of(connection: bh.Connection) -> SharedMemory:
    transport = connection._ready()
    assert isinstance(transport, GrpcTransport)
    assert transport._shared is not None
    return transport._shared


def in_shared_memory(array: np.ndarray[Any, Any]) -> bool:
    """Whether an array is a file's memory: /proc tells of memfds by their name."""
    address = array.__array_interface__["data"][0]
    for line in Path("/proc/self/maps").read_text().splitlines():
        first, end = (int(x, 16) for x in line.split()[0].split("-"))
        if first <= address < end:
            return "memfd:backhaul" in line
    return False


def mappings(process: int) -> int:
    return Path(f"/proc/{process}/maps").read_text().count("memfd:backhaul")


def descriptors(process: int) -> int:
    return len(os.listdir(f"/proc/{process}/fd"))


def until(condition: Callable[[], bool]) -> None:
    """Wait for what another process does in its own time."""
    end = time.monotonic() + 120
    while not condition():
        assert time.monotonic() < end
        time.sleep(0.01)


def square(connection: bh.Connection) -> float:
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])


def large_square(connection: bh.Connection, by: float) -> np.ndarray[Any, Any]:
    with bh.Tape(connection) as tape:
        x = tape.leaf(np.full(MB // 8, by))
        return tape.pullback(bh.sum(x * x))[x]


def answers(connection: bh.Connection) -> bool:
    try:
        connection.ping()
    except bh.TransportError:
        return False
    return True
