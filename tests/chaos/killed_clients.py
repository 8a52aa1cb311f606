"""Clients that are killed while they hold tapes: after the leases the server has nothing left of them.

python -m tests.chaos.killed_clients --clients 1000 --seed 1
"""

from __future__ import annotations

import argparse
import os
import random
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
from tests.chaos.processes import kill, open_files, resident, settled, shared_memory_files
from tests.e2e.server_process import ServerProcess, serving

import backhaul as bh

LEASE: Final = 2.0
"""Seconds; also how long memory has to stay as it is before it is looked at."""
AT_ONCE: Final = 10
PATIENCE: Final = 120.0
"""Seconds after its lease within which a session has to be gone."""
WITHIN: Final = 0.05
"""How much of its memory a server may have grown by; what the allocator does alone is some megabytes."""
WARM: Final = 2


@dataclass(frozen=True, slots=True)
class Left:
    """What there is of a server's.

    Attributes:
        resident: bytes in memory.
        files: open descriptors.
        sessions: sessions that it knows.
    """

    resident: int
    files: int
    sessions: int


def hold(target: str, seed: int, ready: int) -> None:
    """A client's life: tapes with something on them, one question each, then nothing more."""
    random_ = np.random.default_rng(seed)
    connection = bh.connect(target, timeout=60)
    tapes = []
    for _ in range(2):
        tape = bh.Tape(connection)
        x = tape.leaf(random_.normal(size=(128, 1024)))  # 1 MB
        loss = bh.sum(bh.sin(x) * x)
        tape.pullback(loss, fetch=bool(random_.integers(2)))
        tapes.append((tape, x, loss))
    os.write(ready, b".")
    while True:
        os.read(ready, 1)  # until it is killed


def generation(targets: list[str], count: int, random_: random.Random) -> None:
    """Start so many clients, and kill each at a random moment, most of them while they hold tapes."""
    children = []
    for _ in range(count):
        ours, theirs = os.pipe()
        seed, target = random_.getrandbits(32), random_.choice(targets)
        pid = os.fork()  # nothing of gRPC has been started in this process
        if not pid:
            try:
                os.close(ours)
                hold(target, seed, theirs)
            finally:
                os._exit(1)
        os.close(theirs)
        children.append((pid, ours))
    for pid, ours in children:
        if random_.random() < 0.9:
            assert os.read(ours, 1) == b".", "a client failed"
        os.close(ours)
        kill(pid)


def left(server: ServerProcess, lease: float) -> Left:
    """What there is once the leases have run out."""
    pid = server.process.pid
    with tempfile.TemporaryFile() as report:
        child = os.fork()  # gRPC only in a child, see above
        if not child:
            try:
                report.write(str(_sessions(server.target, lease)).encode())
                report.flush()
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        report.seek(0)
        sessions = int(report.read())
    return Left(settled(lambda: resident(pid), lease), open_files(pid), sessions)


def _sessions(target: str, lease: float) -> int:
    with bh.connect(target, timeout=60) as connection:
        end = time.monotonic() + lease + PATIENCE
        while True:
            count = len(connection.sessions())
            if not count or time.monotonic() > end:
                return count
            time.sleep(0.1)


def run(clients: int, seed: int, at_once: int, lease: float, within: float) -> list[str]:
    """What is wrong afterwards; empty when nothing is."""
    random_ = random.Random(seed)
    before_shm = shared_memory_files()
    with tempfile.TemporaryDirectory(prefix="backhaul-chaos-") as folder:
        socket = str(Path(folder, "socket"))
        with serving("--lease", str(lease), "--unix", socket) as server:
            targets = [server.target, f"unix://{socket}"]
            for _ in range(WARM):
                generation(targets, at_once, random_)
            base = left(server, lease)
            print(f"seed {seed}: after {WARM * at_once} clients {base}", flush=True)
            done = 0
            while done < clients:
                count = min(at_once, clients - done)
                generation(targets, count, random_)
                done += count
                if done % 100 == 0:
                    print(f"{done} killed, {resident(server.process.pid) / 1e6:.0f} MB", flush=True)
            end = left(server, lease)
    print(f"after {clients} more {end}", flush=True)
    return _wrong(base, end, before_shm, within)


def _wrong(base: Left, end: Left, before_shm: list[str], within: float) -> list[str]:
    wrong = []
    if end.sessions:
        wrong.append(f"{end.sessions} sessions are left")
    if end.resident > base.resident * (1 + within):
        wrong.append(f"{end.resident / 1e6:.1f} MB in memory, {base.resident / 1e6:.1f} before")
    if end.files > base.files:
        wrong.append(f"{end.files} open files, {base.files} before")
    if shared_memory_files() != before_shm:
        wrong.append(f"/dev/shm holds {shared_memory_files()}, {before_shm} before")
    return wrong


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--clients", type=int, default=1000)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    parser.add_argument("--at-once", type=int, default=AT_ONCE)
    parser.add_argument("--lease", type=float, default=LEASE, help="seconds")
    parser.add_argument("--within", type=float, default=WITHIN, help="growth of memory, a fraction")
    given = parser.parse_args()
    wrong = run(given.clients, given.seed, given.at_once, given.lease, given.within)
    print("\n".join(wrong) or "nothing is left of them")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
