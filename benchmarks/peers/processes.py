"""What runs a peer: a process on the peer's own Python that asks, and one that serves where it needs one.

A peer is a module of this package with ``connected(variant, n, port)``, a context that gives a function of
A and B, and, where it has a server, ``serve(n)``, which prints its port and serves. Needs NumPy and the
peer alone; orders and answers are JSON, one a line.
"""

from __future__ import annotations

import importlib
import json
import os
import statistics
import subprocess
import sys
import time
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Final

from benchmarks.peers.job import agrees, by_hand, operands

ROOT: Final = Path(__file__).parents[2]
_TURN: Final = 0.05  # seconds that a turn of quick jobs lasts


class Failed(Exception):
    """A peer could not be measured, and why."""


class Asking:
    """The process of a peer that asks.

    Args:
        module: of this package.
        variant: one of the ways in which the peer can be used.
        python: the interpreter of its environment.
    """

    def __init__(self, module: str, variant: str, python: Path) -> None:
        self._process = _start(python, "ask", module, variant)

    def open(self, n: int) -> float:
        """Take up matrices of n × n and check the answer; the seconds of a second one, when all is warm."""
        return self._order({"open": n})

    def turn(self) -> float:
        """Answer as often as fits in a turn; the median of the seconds."""
        return self._order({})

    def end(self) -> None:
        """Let it end, with its server."""
        _end(self._process)

    def _order(self, order: dict[str, int]) -> float:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        try:
            self._process.stdin.write(json.dumps(order) + "\n")
            self._process.stdin.flush()
        except OSError:
            raise Failed("its process has ended") from None
        for line in self._process.stdout:
            if line.startswith("{"):  # peers print things of their own
                answer = json.loads(line)
                if "failed" in answer:
                    raise Failed(answer["failed"])
                return float(answer["seconds"])
        raise Failed("its process ended")


def _start(python: Path, *arguments: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [str(python), "-m", "benchmarks.peers.processes", *arguments],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=ROOT,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )


def _end(process: subprocess.Popen[str]) -> None:
    assert process.stdin is not None
    try:
        process.stdin.close()
        process.wait(10)
    except (OSError, subprocess.TimeoutExpired):
        process.kill()
        process.wait()


def _server(module: str, n: int, stack: ExitStack) -> int:
    """The port of a peer's server, which ends with the stack; 0 when it needs none."""
    if not hasattr(importlib.import_module(module), "serve"):
        return 0
    process = _start(Path(sys.executable), "serve", module, str(n))
    stack.callback(process.wait)
    stack.callback(process.kill)
    assert process.stdout is not None
    for line in process.stdout:
        if line.strip().isdigit():  # peers print things of their own
            return int(line)
    raise Failed("its server ended")


def _ask(module: str, variant: str) -> None:
    peer: Any = importlib.import_module(module)
    with ExitStack() as stack:
        for line in sys.stdin:
            order = json.loads(line)
            try:
                if order:
                    stack.close()
                    n = order["open"]
                    port = _server(module, n, stack)
                    ask = stack.enter_context(peer.connected(variant, n, port))
                    a, b = operands(n)
                    if not agrees(ask(a, b), by_hand(a, b)):
                        raise Failed("another answer than NumPy's")
                    taken = [_once(ask, a, b)]
                else:
                    taken = [_once(ask, a, b)]
                    while sum(taken) < _TURN:
                        taken.append(_once(ask, a, b))
                answer: dict[str, Any] = {"seconds": statistics.median(taken)}
            except Exception as error:
                answer = {"failed": f"{type(error).__name__}: {error}".partition("\n")[0][:160]}
            print(json.dumps(answer), flush=True)


def _once(ask: Any, a: Any, b: Any) -> float:
    started = time.perf_counter()
    ask(a, b)
    return time.perf_counter() - started


if __name__ == "__main__":
    name = f"benchmarks.peers.{sys.argv[2]}" if "." not in sys.argv[2] else sys.argv[2]
    if sys.argv[1] == "ask":
        _ask(name, sys.argv[3])
    else:
        importlib.import_module(name).serve(int(sys.argv[3]))
