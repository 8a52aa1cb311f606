"""Four times as many clients as the server has slots: is it well, and does it get as much done?

The clients make calls again as the server tells them. How many were refused is known from how many they made.

python -m tests.chaos.overload --seconds 60
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass, field
from typing import Any, cast

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.e2e.server_process import serving

import backhaul as bh

SIZE, STEPS = 3_000, 100
"""Numbers, and sines taken of each, in a block: about 5 ms for the server, and little for a client.

Clients that had as much to do as the server would measure themselves, on a machine that they share with it.
"""
NUMBERS = np.linspace(0.0, 3.0, SIZE)
TIMES = 4
HEALTH_SECONDS = 0.1
GOODPUT = 0.9
ROUNDS = 3


@dataclass
class Load:
    """What clients met.

    Attributes:
        done: blocks that were answered in time.
        least: of one client.
        refused: calls that the server refused, and clients made again.
        reasons: of errors that clients were left with.
    """

    done: int = 0
    least: int = sys.maxsize
    refused: int = 0
    reasons: Counter[str] = field(default_factory=Counter)

    def add(self, other: Load) -> None:
        """What other clients met."""
        self.done += other.done
        self.least = min(self.least, other.least)
        self.refused += other.refused
        self.reasons += other.reasons


def client(target: str, seconds: float, clients: int) -> Load:
    """So many clients, each a thread of this process, that ask on and on."""
    with bh.Tape() as here:
        expected = float(recorded(here.leaf(NUMBERS)))
    ready = threading.Barrier(clients)

    def loop(_: int) -> Load:
        done, reasons = 0, Counter[str]()
        with bh.connect(target, timeout=60) as connection, bh.Tape(connection) as tape:
            x = tape.leaf(NUMBERS)
            assert float(recorded(x)) == expected
            ready.wait()
            end = time.monotonic() + seconds
            before = connection.calls["Execute"]
            asked = recorded(x)
            while time.monotonic() < end:
                try:
                    right = float(asked) == expected
                except bh.BackhaulError as error:
                    reasons[error.reason] += 1
                    continue
                if not right:
                    raise AssertionError("a wrong number")
                done += time.monotonic() < end
                asked = recorded(x)
            refused = connection.calls["Execute"] - before - done
        return Load(done, done, refused, reasons)

    total = Load()
    with ThreadPoolExecutor(clients) as threads:
        for each in threads.map(loop, range(clients)):
            total.add(each)
    return total


def recorded(x: bh.TrackedTensor) -> bh.TrackedTensor:
    """A block, and what is to be asked."""
    for _ in range(STEPS):
        x = bh.sin(x)
    return bh.sum(x)


def loaded(target: str, seconds: float, clients: int, processes: int) -> Load:
    """The same in processes of their own."""
    share = [clients // processes + (i < clients % processes) for i in range(processes)]
    command = [sys.executable, "-m", "tests.chaos.overload", "--target", target]
    running = [
        subprocess.Popen(
            [*command, "--seconds", str(seconds), "--clients", str(n)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for n in share
        if n
    ]
    total = Load()
    for each in running:
        out, _ = each.communicate(timeout=seconds + 120)
        total.add(Load(**json.loads(out)))
    return total


class Pulse:
    """Asks for the server's health all the time, on a thread of its own."""

    def __init__(self, target: str) -> None:
        self.seconds: list[float] = []
        self._channel = grpc.insecure_channel(target.removeprefix("grpc://"))
        self._stub = cast(Any, health_pb2_grpc.HealthStub(self._channel))
        self._closed = threading.Event()
        self._thread = threading.Thread(target=self._work)
        self._stub.Check(health_pb2.HealthCheckRequest(), timeout=10, wait_for_ready=True)
        self._thread.start()

    def close(self) -> None:
        self._closed.set()
        self._thread.join()
        self._channel.close()

    def _work(self) -> None:
        while not self._closed.wait(0.02):
            started = time.perf_counter()
            self._stub.Check(health_pb2.HealthCheckRequest(), timeout=10)
            self.seconds.append(time.perf_counter() - started)


@dataclass(frozen=True)
class Found:
    """What was seen.

    Attributes:
        saturated: blocks a second of as many clients as there are slots.
        overloaded: of four times as many.
        least: blocks of the client that had fewest, under overload.
        refused: calls that were refused a block, under overload.
        reasons: of errors that clients were left with.
        health: seconds of each answer about its health, under overload.
    """

    saturated: float
    overloaded: float
    least: int
    refused: float
    reasons: Counter[str]
    health: list[float]


def measure(seconds: float, slots: int = 8, processes: int = 2, rounds: int = 1) -> Found:
    """A server of its own, as many clients as it has slots, and then four times as many."""
    fits, beyond = Load(), Load()
    health: list[float] = []
    with serving("--threads", str(slots), "--log-level", "error") as server:
        for _ in range(rounds):  # in turn: what a machine gives changes
            fits.add(loaded(server.target, seconds / rounds / 2, slots, processes))
            pulse = Pulse(server.target)
            beyond.add(loaded(server.target, seconds / rounds, TIMES * slots, processes))
            pulse.close()
            health += pulse.seconds
    return Found(
        fits.done / (seconds / 2),
        beyond.done / seconds,
        beyond.least,
        beyond.refused / max(1, beyond.done),
        fits.reasons + beyond.reasons,
        health,
    )


def main() -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--target")
    parser.add_argument("--clients", type=int, default=1)
    given = parser.parse_args()
    if given.target:
        print(json.dumps(asdict(client(given.target, given.seconds, given.clients))))
        return 0
    found = measure(given.seconds, given.slots, rounds=ROUNDS)
    worst, p99 = max(found.health), float(np.quantile(found.health, 0.99))
    ratio = found.overloaded / found.saturated
    print(f"health: max {worst * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, {len(found.health)} answers")
    print(
        f"blocks/s: saturated {found.saturated:.1f}, overloaded {found.overloaded:.1f}: {ratio:.2f}"
    )
    print(f"refused calls a block: {found.refused:.2f}; fewest blocks of a client: {found.least}")
    print(f"errors: {dict(found.reasons)}")
    return 0 if worst <= HEALTH_SECONDS and ratio >= GOODPUT and not found.reasons else 1


if __name__ == "__main__":
    sys.exit(main())
