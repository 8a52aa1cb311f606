"""A proxy between a client and a server that does to a connection what networks do."""

from __future__ import annotations

import contextlib
import random
import socket
import threading
import time
from dataclasses import dataclass
from typing import Final

KINDS: Final = (
    "delay",
    "throttle",
    "cut on the way up",
    "cut on the way down",
    "answer lost",
    "half-open up",
    "half-open down",
    "refused",
)
_FURTHEST: Final = {"small": 3000, "large": 9_000_000}


@dataclass(frozen=True, slots=True)
class Fault:
    """What is to happen.

    Attributes:
        kind: one of `KINDS`.
        at: bytes of the direction concerned after which it does.
        seconds: how long a delay lasts, or connections are refused.
        rate: bytes a second of a throttled connection.
    """

    kind: str
    at: int = 0
    seconds: float = 0.0
    rate: float = 0.0


def random_fault(rng: random.Random, size: str) -> Fault:
    """A fault of any kind, at any point of a call that moves little or much (``small``, ``large``)."""
    at = int(_FURTHEST[size] ** rng.random())
    rate = rng.uniform(2e4, 2e5) if size == "small" else rng.uniform(1e7, 1e8)
    return Fault(rng.choice(KINDS), at, rng.uniform(0.01, 0.2), rate)


class FaultyProxy:
    """Forwards TCP connections to a server, with one fault at a time.

    Attributes:
        target: where it listens.
        happened: whether the fault that is armed has happened.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("grpc://").rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"grpc://127.0.0.1:{self._listener.getsockname()[1]}"
        self.happened = False
        self._lock = threading.Lock()
        self._fault: Fault | None = None
        self._since = 0.0
        self._bytes = {True: 0, False: 0}
        self._pairs: list[tuple[socket.socket, socket.socket]] = []
        self._stalled: set[tuple[int, bool]] = set()
        threading.Thread(target=self._accept, daemon=True).start()

    def arm(self, fault: Fault) -> None:
        """Let it happen, counted from now."""
        with self._lock:
            self._fault = fault
            self._since = time.monotonic()
            self._bytes = {True: 0, False: 0}
            self.happened = fault.kind == "refused"
        if fault.kind == "refused":
            self._cut_all()

    def heal(self) -> None:
        """No fault any more. Connections that stand still are cut."""
        with self._lock:
            self._fault = None
            stalled, self._stalled = bool(self._stalled), set()
        if stalled:
            self._cut_all()

    def close(self) -> None:
        """No more connections."""
        self._listener.close()
        self._cut_all()

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                if self._refuses():
                    client.close()
                    continue
                server = socket.create_connection(self._server)
                pair = (client, server)
                with self._lock:
                    self._pairs.append(pair)
                for up in (True, False):
                    threading.Thread(target=self._forward, args=(pair, up), daemon=True).start()

    def _refuses(self) -> bool:
        with self._lock:
            fault = self._fault
            if fault is None or fault.kind != "refused":
                return False
            return time.monotonic() - self._since < fault.seconds

    def _forward(self, pair: tuple[socket.socket, socket.socket], up: bool) -> None:
        source, sink = pair if up else pair[::-1]
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                data, cut, wait, stalls = self._passing(pair, data, up)
                if stalls:
                    continue  # taken, and never seen again
                if wait:
                    time.sleep(wait)
                sink.sendall(data)
                if cut:
                    break
        self._end(pair)

    def _passing(
        self, pair: tuple[socket.socket, socket.socket], data: bytes, up: bool
    ) -> tuple[bytes, bool, float, bool]:
        """What of the data goes on, whether the connection is cut then, after how long, or never."""
        with self._lock:
            if (id(pair), up) in self._stalled:
                return b"", False, 0.0, True
            before = self._bytes[up]
            self._bytes[up] += len(data)
            fault = self._fault
            if fault is None or self._bytes[up] < fault.at:
                return data, False, 0.0, False
            rest = max(0, fault.at - before)
            match fault.kind, up:
                case "delay", _ if not self.happened:
                    self.happened = True
                    return data, False, fault.seconds, False
                case "throttle", _:
                    self.happened = True
                    return data, False, len(data) / fault.rate, False
                case ("cut on the way up", True) | ("cut on the way down", False):
                    self._fault, self.happened = None, True
                    return data[:rest], True, 0.0, False
                case "answer lost", False:
                    self._fault, self.happened = None, True
                    return b"", True, 0.0, False
                case ("half-open up", True) | ("half-open down", False):
                    self._fault, self.happened = None, True
                    self._stalled.add((id(pair), up))
                    return b"", False, 0.0, True
            return data, False, 0.0, False

    def _end(self, pair: tuple[socket.socket, socket.socket]) -> None:
        for each in pair:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()
        with self._lock, contextlib.suppress(ValueError):
            self._pairs.remove(pair)

    def _cut_all(self) -> None:
        with self._lock:
            pairs = list(self._pairs)
        for pair in pairs:
            self._end(pair)
