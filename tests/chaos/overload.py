"""Four times as many clients as the server has slots: is it well, and does it get as much done?

python -m tests.chaos.overload --seconds 60 --seed 1
"""

from __future__ import annotations

import argparse
import random
import subprocess
import sys
import threading
import time
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, cast

import grpc
import numpy as np
from grpc_health.v1 import health_pb2, health_pb2_grpc
from tests.e2e.server_process import serving

import backhaul as bh
from backhaul_proto.errors import RETRY_AFTER

STEPS = 400
"""Steps of a block: about 5 ms."""
TIMES = 4
HEALTH_SECONDS = 0.1
GOODPUT = 0.9


@dataclass
class Load:
    """What clients met.

    Attributes:
        done: blocks that were answered.
        reasons: of errors, by reason.
    """

    done: int = 0
    reasons: Counter[str] = field(default_factory=Counter)


def client(target: str, seconds: float, seed: int, clients: int) -> Load:
    """So many clients, each a thread of this process, that ask again as soon as they may."""
    load, lock, end = Load(), threading.Lock(), time.monotonic() + seconds

    def loop(number: int) -> None:
        chance = random.Random(seed * 1000 + number)
        with bh.connect(target, timeout=60) as connection, bh.Tape(connection) as tape:
            asked = recorded(tape)
            while time.monotonic() < end:
                try:
                    right = float(asked) == 2.0
                except bh.BackhaulError as error:
                    with lock:
                        load.reasons[error.reason] += 1
                    wait = float(error.details.get(RETRY_AFTER, 0.1))
                    time.sleep(wait * chance.uniform(1.0, 1.1))
                    continue
                if not right:
                    raise AssertionError("a wrong number")
                with lock:
                    load.done += 1
                asked = recorded(tape)

    with ThreadPoolExecutor(clients) as threads:
        list(threads.map(loop, range(clients)))
    return load


def recorded(tape: bh.Tape) -> bh.TrackedTensor:
    """Steps on 2x2 matrices, and what is to be asked: it is 2."""
    x = y = tape.leaf(np.eye(2))
    for _ in range(STEPS):
        y = y @ x
    return bh.sum(y)


def loaded(target: str, seconds: float, seed: int, clients: int, processes: int) -> Load:
    """The same in processes of their own."""
    share = [clients // processes + (i < clients % processes) for i in range(processes)]
    command = [sys.executable, "-m", "tests.chaos.overload", "--target", target]
    running = [
        subprocess.Popen(
            [*command, "--seconds", str(seconds), "--seed", str(seed + i), "--clients", str(n)],
            stdout=subprocess.PIPE,
            text=True,
        )
        for i, n in enumerate(share)
        if n
    ]
    total = Load()
    for each in running:
        out, _ = each.communicate(timeout=seconds + 120)
        done, *reasons = out.split()
        total.done += int(done)
        for pair in reasons:
            reason, count = pair.split("=")
            total.reasons[reason] += int(count)
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
        reasons: why calls were refused.
        health: seconds of each answer about its health, under overload.
    """

    saturated: float
    overloaded: float
    reasons: Counter[str]
    health: list[float]


def measure(seconds: float, seed: int, slots: int = 8, processes: int = 2) -> Found:
    """A server of its own, as many clients as it has slots, and then four times as many."""
    with serving("--threads", str(slots), "--log-level", "error") as server:
        fits = loaded(server.target, seconds / 2, seed, slots, processes)
        pulse = Pulse(server.target)
        beyond = loaded(server.target, seconds, seed + 100, TIMES * slots, processes)
        pulse.close()
    reasons = fits.reasons + beyond.reasons
    return Found(fits.done / (seconds / 2), beyond.done / seconds, reasons, pulse.seconds)


def main() -> int:
    """Measure and judge."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--seed", type=int, default=random.randrange(1_000_000))
    parser.add_argument("--slots", type=int, default=8)
    parser.add_argument("--target")
    parser.add_argument("--clients", type=int, default=1)
    given = parser.parse_args()
    if given.target:
        load = client(given.target, given.seconds, given.seed, given.clients)
        print(load.done, *(f"{name}={count}" for name, count in load.reasons.items()))
        return 0
    print(f"seed {given.seed}", flush=True)
    found = measure(given.seconds, given.seed, given.slots)
    worst, p99 = max(found.health), float(np.quantile(found.health, 0.99))
    ratio = found.overloaded / found.saturated
    print(f"health: max {worst * 1e3:.1f} ms, p99 {p99 * 1e3:.1f} ms, {len(found.health)} answers")
    print(
        f"blocks/s: saturated {found.saturated:.1f}, overloaded {found.overloaded:.1f}: {ratio:.2f}"
    )
    print(f"refusals: {dict(found.reasons)}")
    typed = set(found.reasons) <= {"SERVER_BUSY"}
    return 0 if worst <= HEALTH_SECONDS and ratio >= GOODPUT and typed else 1


if __name__ == "__main__":
    sys.exit(main())
