"""Malformed requests over a real connection: raw bytes for every call, and connections that are no HTTP/2."""

from __future__ import annotations

import contextlib
import random
import socket
import time
from collections.abc import Iterator, Sequence
from typing import Any, Final

import grpc
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from tests.chaos.door import STREAM, Refused
from tests.chaos.fuzz import MEMORY, SESSIONS, TIMEOUT, Fuzzer
from tests.chaos.processes import resident

from backhaul_proto.messages import SERVICE
from backhaul_proto.v1 import service_pb2
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

RAW_EVERY: Final = 50
"""Calls between connections that send what is no HTTP/2, or break off."""
_PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
_SETTINGS: Final = b"\x00\x00\x00\x04\x00\x00\x00\x00\x00"
_TYPED_BY_GRPC: Final = {"CANCELLED", "DEADLINE_EXCEEDED", "RESOURCE_EXHAUSTED", "UNAVAILABLE"}


class Wire:
    """The calls of `Door`, over a socket."""

    def __init__(self, target: str, rng: random.Random) -> None:
        self.address = target.removeprefix("grpc://")
        self._rng = rng
        self._channel = grpc.insecure_channel(self.address)

    def call(self, method: str, data: bytes) -> bytes:
        with _refusals():
            call: Any = self._channel.unary_unary(f"/{SERVICE}/{method}")
            answer: bytes = call(data, timeout=TIMEOUT + 5)
            return answer

    def call_stream(self, messages: Sequence[bytes]) -> list[bytes]:
        """Some streams are cancelled after their first message."""
        with _refusals():
            stream: Any = self._channel.stream_stream(f"/{SERVICE}/{STREAM}")
            answers = stream(iter(messages), timeout=TIMEOUT + 5)
            if self._rng.random() < 0.1:
                answers.cancel()
            return list(answers)

    def raw(self) -> None:
        """A connection that is broken: bytes of any kind, or a stream of HTTP/2 that ends within a frame."""
        rng = self._rng
        host, _, port = self.address.rpartition(":")
        with contextlib.suppress(OSError), socket.create_connection((host, int(port)), 5) as wire:
            wire.settimeout(5)
            match rng.randrange(4):
                case 0:
                    wire.sendall(rng.randbytes(rng.randrange(200)))
                case 1:
                    wire.sendall(_PREFACE[: rng.randrange(len(_PREFACE))])
                case 2:
                    wire.sendall(_PREFACE + _SETTINGS + _frames(rng))
                case 3:
                    frames = _SETTINGS + _frames(rng)
                    wire.sendall(_PREFACE + frames[: rng.randrange(len(frames))])
            if rng.random() < 0.5:
                wire.shutdown(socket.SHUT_WR)
                while wire.recv(1 << 16):
                    pass

    def close(self) -> None:
        self._channel.close()


def _frames(rng: random.Random) -> bytes:
    """Frames with any contents: right in form, wrong in sense."""
    made = b""
    for _ in range(rng.randrange(1, 5)):
        payload = rng.randbytes(rng.randrange(60))
        kind, flags = rng.randrange(12), rng.randrange(256)
        stream = rng.choice((0, 1, 2, 3, 2**31 - 1))
        made += len(payload).to_bytes(3, "big") + bytes((kind, flags))
        made += stream.to_bytes(4, "big") + payload
    return made


@contextlib.contextmanager
def _refusals() -> Iterator[None]:
    try:
        yield
    except grpc.RpcError as error:
        caught: Any = error
    else:
        return
    code = caught.code()
    for key, value in caught.trailing_metadata() or ():
        if key == "grpc-status-details-bin":
            info = ErrorInfo()
            Status.FromString(value).details[0].Unpack(info)
            raise Refused(code, info.reason, caught.details())
    if code.name in _TYPED_BY_GRPC:
        raise Refused(code, code.name, caught.details())
    raise Refused(code, "INTERNAL", f"untyped: {caught.details()}")


class SocketFuzzer(Fuzzer):
    """`Fuzzer` over a socket. The server is in this process, so its memory is watched too."""

    def __init__(self, seed: int) -> None:
        super().__init__(seed)
        self.dispatcher.close()
        self.dispatcher = Dispatcher(Engine(), session_memory=MEMORY, memory=SESSIONS * MEMORY)
        self.server = Server(self.dispatcher, ["127.0.0.1:0"])
        self.server.start()
        self.wire = Wire(self.server.targets[0], random.Random(seed))
        self.client = self.wire
        self._calls = 0

    def _call(self, method: str, messages: Sequence[bytes]) -> None:
        self._calls += 1
        if self._calls % RAW_EVERY == 0:
            self.wire.raw()
        super()._call(method, messages)

    def _end(self) -> None:
        self._still_answers()
        self.wire.close()
        self.server.stop(5)
        super()._end()

    def _still_answers(self) -> None:
        began = time.monotonic()
        self.wire.call("GetServerInfo", service_pb2.GetServerInfoRequest().SerializeToString())
        took = time.monotonic() - began
        if took > 1:
            self.report.faults.append(f"a call took {took:.1f} s when all was over")
        self.report.resident.append(resident())
