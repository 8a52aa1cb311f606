"""A proxy between a client and a server that breaks or stalls connections when told to."""

from __future__ import annotations

import contextlib
import socket
import threading


class Proxy:
    """Forwards TCP connections to a server.

    Attributes:
        target: where it listens.
        cut_up: bytes from the client after which its connection is cut, both ways; None: never. It holds
            for connections as they are, and is unset by the first cut.
        cut_down: the same for bytes from the server.
        flowing: while it is not set, nothing is forwarded.
        stall_up: bytes from the client after which `flowing` is unset, once; None: never.
        up: bytes that came from clients since `reset`.
        down: bytes that came from the server since `reset`.
    """

    def __init__(self, target: str) -> None:
        host, _, port = target.removeprefix("grpc://").rpartition(":")
        self._server = (host, int(port))
        self._listener = socket.create_server(("127.0.0.1", 0))
        self.target = f"grpc://127.0.0.1:{self._listener.getsockname()[1]}"
        self.cut_up: int | None = None
        self.cut_down: int | None = None
        self.flowing = threading.Event()
        self.flowing.set()
        self.stall_up: int | None = None
        self.up = 0
        self.down = 0
        self._lock = threading.Lock()
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def reset(self) -> None:
        """Count bytes anew."""
        with self._lock:
            self.up = self.down = 0

    def close(self) -> None:
        self.flowing.set()
        self._listener.close()
        with self._lock:
            for each in self._open:
                _close(each)

    def _accept(self) -> None:
        with contextlib.suppress(OSError):
            while True:
                client, _ = self._listener.accept()
                server = socket.create_connection(self._server)
                with self._lock:
                    self._open += (client, server)
                for args in ((client, server, True), (server, client, False)):
                    threading.Thread(target=self._forward, args=args, daemon=True).start()

    def _forward(self, source: socket.socket, sink: socket.socket, up: bool) -> None:
        with contextlib.suppress(OSError):
            while data := source.recv(1 << 16):
                data, cut = self._counted(data, up)
                self.flowing.wait()
                sink.sendall(data)
                if cut:
                    break
        _close(source)
        _close(sink)

    def _counted(self, data: bytes, up: bool) -> tuple[bytes, bool]:
        """What is to be forwarded of this, and whether the connection is to be cut after it."""
        with self._lock:
            before = self.up if up else self.down
            limit = self.cut_up if up else self.cut_down
            cut = limit is not None and before + len(data) >= limit
            if cut:
                assert limit is not None
                data = data[: max(0, limit - before)]
                self.cut_up = self.cut_down = None
            if up:
                self.up += len(data)
                if self.stall_up is not None and self.up >= self.stall_up:
                    self.stall_up = None
                    self.flowing.clear()
            else:
                self.down += len(data)
            return data, cut


def _close(each: socket.socket) -> None:
    with contextlib.suppress(OSError):
        each.shutdown(socket.SHUT_RDWR)
    each.close()
