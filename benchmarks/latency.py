"""The smallest question against the smallest call that gRPC can make in Python."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import numpy as np
from benchmarks.timing import Figure, rounds

import backhaul as bh

_ECHO = """
import grpc, sys
from concurrent.futures import ThreadPoolExecutor
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)
server = grpc.server(ThreadPoolExecutor(8), handlers=[Echo()])
port = server.add_insecure_port("127.0.0.1:0")
server.start()
print(port, flush=True)
sys.stdin.read()
"""
_CALLS = 50


@contextmanager
def echo_server() -> Iterator[str]:
    """A bare gRPC server in a process of its own that returns the bytes it gets."""
    with subprocess.Popen(
        [sys.executable, "-c", _ECHO], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            yield f"127.0.0.1:{int(process.stdout.readline())}"
        finally:
            process.terminate()


def _bare(target: str) -> Callable[[], float]:
    call: Any = grpc.insecure_channel(target).unary_unary("/bare/Echo")
    payload = bytes(200)

    def run() -> float:
        started = time.perf_counter()
        for _ in range(_CALLS):
            call(payload)
        return (time.perf_counter() - started) / _CALLS

    return run


def _smallest(connection: bh.Connection) -> Callable[[], float]:
    tape = bh.Tape(connection)
    x = np.array(2.0)

    def run() -> float:
        started = time.perf_counter()
        for _ in range(_CALLS):
            leaf = tape.leaf(x)
            tape.pullback(leaf * leaf)
        return (time.perf_counter() - started) / _CALLS

    return run


def figures(remote: bh.Connection, embedded: bh.Connection) -> list[Figure]:
    with echo_server() as target:
        medians = rounds(
            {"bare": _bare(target), "remote": _smallest(remote), "embedded": _smallest(embedded)},
            count=15,
        )
    micros = {name: seconds * 1e6 for name, seconds in medians.items()}
    return [
        Figure(
            "smallest value + gradient / bare unary call",
            medians["remote"] / medians["bare"],
            1.3,
            detail=f"{micros['remote']:.0f} against {micros['bare']:.0f} µs",
        ),
        Figure(
            "the same, embedded",
            medians["embedded"] / medians["bare"],
            None,
            detail=f"{micros['embedded']:.0f} µs",
        ),
    ]
