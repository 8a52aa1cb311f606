"""What the wire is measured against: bytes in chunks through gRPC alone, and through a socket alone.

The server is a process of its own, over TCP and a unix socket. Chunks are as large as ours. Bytes go out
of an array; those of gRPC are left as they come, those of a socket are received into an array.
"""

from __future__ import annotations

import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Final

import grpc
import numpy as np

Array = np.ndarray[Any, Any]
Address = str | tuple[str, int]

CHUNK: Final = 1 << 20
_OPTIONS: Final = (
    ("grpc.max_send_message_length", -1),
    ("grpc.max_receive_message_length", -1),
    ("grpc.use_local_subchannel_pool", 1),
)
_LENGTH: Final = 8  # bytes of a length before what follows; upwards it is positive


@dataclass(frozen=True, slots=True)
class Bare:
    """Channels to the gRPC server and addresses of the sockets, by TCP and unix."""

    channels: dict[str, Any]
    sockets: dict[str, Address]


@contextmanager
def stream_server() -> Iterator[Bare]:
    """The server, and the ways to it."""
    with tempfile.TemporaryDirectory(prefix="backhaul-bench-") as folder:
        command = [sys.executable, "-m", "benchmarks.wire.bare_streams", folder]
        with subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            cwd=Path(__file__).parents[2],
        ) as process:
            assert process.stdout is not None
            try:
                ports = process.stdout.readline().split()
                grpc_targets = {"TCP": f"127.0.0.1:{ports[0]}", "unix": f"unix:{folder}/grpc"}
                yield Bare(
                    {
                        name: grpc.insecure_channel(target, options=_OPTIONS)
                        for name, target in grpc_targets.items()
                    },
                    {"TCP": ("127.0.0.1", int(ports[1])), "unix": f"{folder}/socket"},
                )
            finally:
                process.terminate()


def bare_stream(channel: Any, array: Array, direction: str) -> Callable[[], float]:
    """Seconds that the array's bytes take up, or as many down; in one message where one chunk holds them."""
    count = str(array.nbytes).encode()
    view = memoryview(array.data).cast("B")
    one = array.nbytes <= CHUNK
    if direction == "up":
        if one:
            call = channel.unary_unary("/bare/Up")
            return lambda: _timed(lambda: call(bytes(view)))
        stream = channel.stream_unary("/bare/UpStream")
        return lambda: _timed(lambda: stream(_chunks(view)))
    if one:
        down = channel.unary_unary("/bare/Down")
        return lambda: _timed(lambda: down(count))
    streamed = channel.unary_stream("/bare/DownStream")
    return lambda: _timed(lambda: sum(map(len, streamed(count))))


class RawSocket:
    """A connected socket whose other end takes and sends bytes as it is told."""

    def __init__(self, address: Address) -> None:
        family = socket.AF_UNIX if isinstance(address, str) else socket.AF_INET
        self._socket = socket.socket(family)
        self._socket.connect(address)

    def __enter__(self) -> RawSocket:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._socket.close()

    def job(self, array: Array, direction: str) -> Callable[[], float]:
        """Seconds that the array's bytes take up, or as many down."""
        view = memoryview(array.data).cast("B")
        signed = array.nbytes if direction == "up" else -array.nbytes
        order = signed.to_bytes(_LENGTH, "little", signed=True)
        if direction == "up":

            def up() -> None:
                self._socket.sendall(order)
                self._socket.sendall(view)
                self._socket.recv(1)

            return lambda: _timed(up)
        into = memoryview(np.zeros_like(array).data).cast("B")

        def down() -> None:
            self._socket.sendall(order)
            _receive(self._socket, into)

        return lambda: _timed(down)


def _chunks(view: memoryview) -> Iterator[bytes]:
    for start in range(0, len(view), CHUNK):
        yield bytes(view[start : start + CHUNK])


def _receive(connected: socket.socket, into: memoryview) -> bool:
    """Fill the memory; False when the other end is gone."""
    while into:
        got = connected.recv_into(into)
        if not got:
            return False
        into = into[got:]
    return True


def _timed(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


class _Streams(grpc.GenericRpcHandler):
    """Takes bytes and sends bytes, and does nothing with them."""

    def __init__(self) -> None:
        self._zeros = memoryview(bytes(CHUNK))
        self._methods: dict[str, Any] = {
            "/bare/Up": grpc.unary_unary_rpc_method_handler(lambda data, _: b"1"),
            "/bare/UpStream": grpc.stream_unary_rpc_method_handler(self._take),
            "/bare/Down": grpc.unary_unary_rpc_method_handler(self._one),
            "/bare/DownStream": grpc.unary_stream_rpc_method_handler(self._send),
        }

    def service(self, handler_call_details: Any) -> Any:
        return self._methods.get(handler_call_details.method)

    def _one(self, count: bytes, _context: Any) -> bytes:
        return bytes(self._zeros[: int(count)])

    def _take(self, chunks: Iterator[bytes], _context: Any) -> bytes:
        return str(sum(map(len, chunks))).encode()

    def _send(self, count: bytes, _context: Any) -> Iterator[bytes]:
        left = int(count)
        while left:
            yield bytes(self._zeros[: min(left, CHUNK)])
            left -= min(left, CHUNK)


def _answer(listening: socket.socket) -> None:
    """Connections of the raw socket, each to its end."""
    while True:
        connected, _ = listening.accept()
        threading.Thread(target=_converse, args=(connected,), daemon=True).start()


def _converse(connected: socket.socket) -> None:
    memory = memoryview(bytearray(1))
    head = memoryview(bytearray(_LENGTH))
    while _receive(connected, head):
        signed = int.from_bytes(head, "little", signed=True)
        if len(memory) != abs(signed):
            memory = memoryview(bytearray(abs(signed)))
        if signed < 0:
            connected.sendall(memory)
        else:
            _receive(connected, memory)
            connected.sendall(b"1")


def _serve(folder: Path) -> None:
    server = grpc.server(ThreadPoolExecutor(8), handlers=[_Streams()], options=_OPTIONS)
    grpc_port = server.add_insecure_port("127.0.0.1:0")
    server.add_insecure_port(f"unix:{folder}/grpc")
    server.start()
    tcp = socket.create_server(("127.0.0.1", 0))
    unix = socket.socket(socket.AF_UNIX)
    unix.bind(str(folder / "socket"))
    unix.listen()
    for listening in (tcp, unix):
        threading.Thread(target=_answer, args=(listening,), daemon=True).start()
    print(grpc_port, tcp.getsockname()[1], flush=True)
    sys.stdin.read()


if __name__ == "__main__":
    _serve(Path(sys.argv[1]))
