"""The smallest question against the smallest call that gRPC can make in Python; round trips; µs an op."""

from __future__ import annotations

import itertools
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

import grpc
import numpy as np
from benchmarks import chain
from benchmarks.timing import Figure, rounds, timed_often
from benchmarks.wire.section import Section
from benchmarks.wire.ways import connections, serving

import backhaul as bh
from backhaul_server.engine.engine import Engine

_ECHO = """
import grpc, sys
from concurrent.futures import ThreadPoolExecutor
class Echo(grpc.GenericRpcHandler):
    def service(self, details):
        return grpc.unary_unary_rpc_method_handler(lambda request, context: request)
server = grpc.server(ThreadPoolExecutor(8), handlers=[Echo()])
port = server.add_insecure_port("127.0.0.1:0")
server.add_insecure_port("unix:" + sys.argv[1])
server.start()
print(port, flush=True)
sys.stdin.read()
"""
_CALLS: Final = 50
_GOAL: Final = 1.3
_FIRST, _REPEATED = 4.0, 2.5


def measure(quick: bool) -> list[Section]:
    """All of this, over every way."""
    count = 5 if quick else 15
    with serving() as server, connections(server) as ways, echo_server() as bare:
        return [
            Section("Round trips", chain.round_trips(ways["TCP"])),
            Section("Smallest value and gradient", smallest_figures(ways, bare, count)),
            Section(
                f"Chains of {chain.STEPS} products of 2×2 matrices, value and gradient",
                _chains(ways, count),
            ),
        ]


@contextmanager
def echo_server() -> Iterator[dict[str, str]]:
    """A bare gRPC server in a process of its own that returns the bytes it gets: its targets."""
    with tempfile.TemporaryDirectory(prefix="backhaul-bench-") as folder:
        socket = str(Path(folder, "echo"))
        command = [sys.executable, "-c", _ECHO, socket]
        with subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        ) as process:
            assert process.stdout is not None
            try:
                port = int(process.stdout.readline())
                yield {"TCP": f"127.0.0.1:{port}", "unix": f"unix:{socket}"}
            finally:
                process.terminate()


def smallest_figures(
    ways: Mapping[str, bh.Connection], bare: Mapping[str, str], count: int
) -> list[Figure]:
    """A value and gradient of x·x over each way, against a bare call over the same kind of socket."""
    jobs: dict[str, Callable[[], float]] = {}
    for name, target in bare.items():
        jobs[f"bare {name}"] = _bare(target)
    for name, connection in ways.items():
        jobs[name] = _smallest(connection)
    medians = rounds(jobs, count)
    micros = {name: seconds * 1e6 for name, seconds in medians.items()}
    figures = []
    for name in ways:
        against = "unix" if name.startswith("unix") else "TCP"
        figures.append(
            Figure(
                f"{name}: smallest value + gradient / bare unary call over {against}",
                medians[name] / medians[f"bare {against}"],
                _GOAL,
                detail=f"{micros[name]:.0f} against {micros[f'bare {against}']:.0f} µs",
            )
        )
    return figures


def _bare(target: str) -> Callable[[], float]:
    call: Any = grpc.insecure_channel(target).unary_unary("/bare/Echo")
    payload = bytes(200)
    return timed_often(lambda: call(payload), _CALLS)


def _smallest(connection: bh.Connection) -> Callable[[], float]:
    tape = bh.Tape(connection)
    x = np.array(2.0)

    def ask() -> None:
        leaf = tape.leaf(x)
        tape.pullback(leaf * leaf)

    return timed_often(ask, _CALLS)


def _chains(ways: Mapping[str, bh.Connection], count: int) -> list[Figure]:
    """µs an op, a block's first time and repeated, against the engine alone."""
    lengths = itertools.count(chain.STEPS)
    jobs: dict[str, Callable[[], float]] = {"engine": chain.engine_gradient(Engine())}
    for name, connection in ways.items():
        jobs[f"{name}, first time"] = chain.client_gradient(connection, lambda: next(lengths))
        jobs[f"{name}, repeated"] = chain.client_gradient(connection, lambda: chain.STEPS)
    medians = rounds(jobs, count)
    engine = medians.pop("engine")
    figures = []
    for name, seconds in medians.items():
        remote = None if name.startswith("embedded") else True
        goal = _FIRST if name.endswith("first time") else _REPEATED
        figures.append(
            Figure(
                f"{name} / engine",
                seconds / engine,
                remote and goal,
                detail=f"{seconds / chain.STEPS * 1e6:.1f} against {engine / chain.STEPS * 1e6:.1f} µs an op",
            )
        )
    return figures
