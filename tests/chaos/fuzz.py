"""Malformed requests against the service: ``python -m tests.chaos.fuzz --count 1000000 --seed 1``.

Without a socket each goes through all that the server does with a call's bytes: decoding, checks, execution,
and the status that its error becomes. With ``--socket`` the bytes go through a real connection. Every call
must end in time, with an answer or a typed error that is not INTERNAL; memory must not grow; and when all
sessions are closed, nothing may be held.
"""

from __future__ import annotations

import argparse
import random
import secrets
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from google.protobuf.message import Message
from tests.chaos.door import STREAM, Door, Refused
from tests.chaos.mutations import mutated, random_bytes
from tests.chaos.processes import resident
from tests.chaos.random_requests import World
from tests.chaos.watching import Watchdog, growth

from backhaul_proto.v1 import service_pb2
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import HANDLERS, Dispatcher

SESSIONS = 3
CALLS_OF_A_SESSION = 150
TIMEOUT = 1.0
SLACK = 1.0
"""Seconds of a thread's time that a call may go on after its timeout."""
GROWTH = 300 << 20
"""Bytes that a process may grow by: its caches of blocks and calls are bounded, and then full."""
SHOWN = 5
MEMORY = 64 << 20
_KEPT = 200


@dataclass(slots=True)
class Report:
    """What came of a run.

    Attributes:
        outcomes: how many calls ended with each reason; "" are answers.
        faults: those that must not be, in words.
        resident: bytes of the process, at even distances.
        slowest: seconds.
    """

    count: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    faults: list[str] = field(default_factory=list)
    resident: list[int] = field(default_factory=list)
    slowest: tuple[float, str] = (0.0, "")
    left: int = 0

    def lines(self) -> list[str]:
        """It, for people."""
        per_call = growth(self.resident) * len(self.resident) / max(self.count, 1)
        lines = [
            f"{self.count:,} calls, {self.outcomes['']:,} answered; slowest {self.slowest[0]:.2f} s "
            f"({self.slowest[1]})",
            f"resident {self.resident[0] / 1e6:.1f} MB at first, {self.resident[-1] / 1e6:.1f} MB at "
            f"last; slope over the second half {per_call:.2f} bytes a call",
            f"bytes still held when all sessions are closed: {self.left}",
        ]
        lines += [f"{n:>9,}  {reason or 'answered'}" for reason, n in self.outcomes.most_common()]
        lines += [f"FAULT {each}" for each in self.faults[:SHOWN]]
        return lines


class Client(Protocol):
    """Makes calls with bytes that may be anything. Errors are `Refused`."""

    def call(self, method: str, data: bytes) -> bytes:
        """One message each way."""

    def call_stream(self, messages: Sequence[bytes]) -> list[bytes]:
        """An ExecuteStream."""


class Fuzzer:
    """One run, in this process.

    Args:
        seed: the same requests again for the same seed.
    """

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.dispatcher = Dispatcher(Engine(), session_memory=MEMORY, memory=SESSIONS * MEMORY)
        self.door = Door(self.dispatcher, TIMEOUT)
        self.client: Client = self.door
        self.world = World(self.rng)
        self.report = Report()
        self._kept: list[bytes] = []
        self._meant: Message | None = None  # what was sent, if nothing was changed
        self._methods = [name for name in (*HANDLERS, STREAM) if self.door.knows(name)]

    def run(self, count: int) -> Report:
        """Make so many calls."""
        every = max(1, count // 100)
        with Watchdog() as watchdog:
            for i in range(count):
                self._keep_sessions()
                method, messages = self.next()
                watchdog.begins(method, messages)
                self._call(method, messages)
                if i % every == 0:
                    self.report.resident.append(resident())
                if len(self.report.faults) >= SHOWN:
                    break
        self.report.count = i + 1
        self.report.resident.append(resident())
        grown = self.report.resident[-1] - self.report.resident[0]
        if grown > GROWTH:
            self.report.faults.append(f"memory grew by {grown / 1e6:.0f} MB")
        self._end()
        return self.report

    def next(self) -> tuple[str, list[bytes]]:
        """A call's name and what is sent."""
        rng = self.rng
        self._meant = None
        kind = rng.random()
        if kind < 0.1:
            method = rng.choice(self._methods)
            return method, [random_bytes(rng) for _ in range(1 if method != STREAM else 2)]
        if kind < 0.2 and self.door.knows(STREAM):
            messages = self.world.stream()
            if kind < 0.15:
                at = rng.randrange(len(messages))
                messages[at] = mutated(rng, messages[at], self._kept)
            return STREAM, messages
        method, request = self.world.request()
        while not self.door.knows(method):
            method, request = self.world.request()
        data = request.SerializeToString()
        if kind < 0.6:
            self._meant = request
            return method, [data]
        if len(self._kept) < _KEPT:
            self._kept.append(data)
        else:
            self._kept[rng.randrange(_KEPT)] = data
        if rng.random() < 0.05:
            method = rng.choice(self._methods)
        return method, [mutated(rng, data, self._kept)]

    def _call(self, method: str, messages: Sequence[bytes]) -> None:
        began = time.thread_time()
        try:
            if method == STREAM:
                self.client.call_stream(list(messages))
            else:
                answer = self.client.call(method, messages[0])
                if self._meant is not None:
                    self.world.answered(method, self._meant, answer)
            reason = ""
        except Refused as refused:
            reason = refused.reason
            if refused.reason == "INTERNAL":
                self._fault(method, messages, str(refused))
        except Exception as error:
            reason = type(error).__name__
            self._fault(method, messages, repr(error))
        took = time.thread_time() - began
        if took > self.report.slowest[0]:
            self.report.slowest = (took, f"{method} {reason}")
        if took > TIMEOUT + SLACK:
            self._fault(method, messages, f"took {took:.1f} s")
        self.report.outcomes[reason] += 1

    def _fault(self, method: str, messages: Sequence[bytes], what: str) -> None:
        sent = " ".join(each.hex() for each in messages)
        self.report.faults.append(f"{method}: {what}\n      {sent}")

    def _keep_sessions(self) -> None:
        world = self.world
        if len(world.sessions) < SESSIONS:
            ref = service_pb2.SessionRef(id=self.rng.randbytes(16))
            request = service_pb2.OpenSessionRequest(session=ref)
            answer = self.client.call("OpenSession", request.SerializeToString())
            world.opened(ref.id, service_pb2.OpenSessionResponse.FromString(answer).epoch)
        if self.rng.random() < 1 / CALLS_OF_A_SESSION:
            self._close(self.rng.choice(world.sessions))

    def _close(self, session: bytes) -> None:
        request = service_pb2.CloseSessionRequest(session=service_pb2.SessionRef(id=session))
        self.client.call("CloseSession", request.SerializeToString())
        self.world.closed(session)

    def _end(self) -> None:
        self.dispatcher.close()
        self.report.left = self.dispatcher.pool.used
        if self.report.left:
            self.report.faults.append(f"{self.report.left} bytes are held without any session")
        self.door.close()


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None)
    parser.add_argument("--jobs", type=int, default=1, help="processes, each with its part")
    parser.add_argument("--socket", action="store_true", help="through a real connection")
    given = parser.parse_args(arguments)
    seed = secrets.randbits(32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    if given.jobs > 1:
        return _in_processes(given.jobs, given.count, seed, given.socket)
    if given.socket:
        from tests.chaos.socket_fuzz import SocketFuzzer

        report = SocketFuzzer(seed).run(given.count)
    else:
        report = Fuzzer(seed).run(given.count)
    print("\n".join(report.lines()), flush=True)
    return 1 if report.faults else 0


def _in_processes(jobs: int, count: int, seed: int, by_socket: bool) -> int:
    more = ["--socket"] if by_socket else []
    running = []
    for i in range(jobs):
        part = ("--count", str(count // jobs), "--seed", str(seed + i), *more)
        running.append(subprocess.Popen([sys.executable, "-m", "tests.chaos.fuzz", *part]))
    return max([each.wait() for each in running])


if __name__ == "__main__":
    np.seterr(all="ignore")
    sys.exit(main())
