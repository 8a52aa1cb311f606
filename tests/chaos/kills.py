"""A training loop whose server is killed (SIGKILL) at random moments and started again on the same port.

``python -m tests.chaos.kills --kills 500 --seed 1``: with recover=True the loss curve has to equal that of
an undisturbed server to the last bit; without, each kill has to be a typed SessionLost.
"""

from __future__ import annotations

import argparse
import random
import threading
from typing import Any, NamedTuple

import numpy as np
from tests.chaos.restarted import free_port
from tests.e2e.server_process import ServerProcess

import backhaul as bh

TIMEOUT = 60.0


class Outcome(NamedTuple):
    """What a run showed.

    Attributes:
        kills: how often the server was killed.
        steps: of training that were done.
        lost: how often a SessionLost was raised.
    """

    kills: int
    steps: int
    lost: int


class Killed:
    """A server process on one port that is killed after random times, and started again."""

    def __init__(self, rng: random.Random, longest: float) -> None:
        self._rng = rng
        self._longest = longest
        self._port = str(free_port())
        self._ended = threading.Event()
        self._process = ServerProcess("--port", self._port)
        self.target = self._process.target
        self.kills = 0
        self._thread = threading.Thread(target=self._kill, daemon=True)

    def __enter__(self) -> Killed:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()
        self._stop()

    def _kill(self) -> None:
        while not self._ended.wait(self._rng.uniform(0, self._longest)):
            self._stop()
            self._process = ServerProcess("--port", self._port)
            self.kills += 1

    def _stop(self) -> None:
        self._process.process.kill()
        self._process.process.communicate()


class Training:
    """A loop with weights that stay on the server."""

    def __init__(self, connection: bh.Connection, seed: int) -> None:
        rng = np.random.default_rng(seed)
        self._x, self._y = rng.normal(size=(16, 4)), rng.normal(size=16)
        self._tape = bh.Tape(connection)
        self._w: Any = self._tape.leaf(rng.normal(size=4))
        self._steps = 0

    def step(self) -> bytes:
        """One step; returns the loss."""
        loss = bh.sum((self._x @ self._w - self._y) ** 2)
        gradients = self._tape.pullback(loss, fetch=self._steps % 2 == 0)
        self._steps += 1
        value = loss.numpy().tobytes()
        after = self._w - 0.001 * gradients[self._w]
        # Now and then the chain begins anew: what is replayed stays short.
        self._w = self._tape.leaf(after.numpy() if self._steps % 50 == 0 else after)
        return value


def recovered(kills: int, seed: int, longest: float = 1.5) -> Outcome:
    """Train with recover=True while the server is killed so often.

    Raises:
        AssertionError: a loss differs from that of an undisturbed server.
    """
    killed = Killed(random.Random(seed), longest)
    with (
        bh.connect("embedded") as undisturbed,
        bh.connect(killed.target, timeout=TIMEOUT, recover=True) as connection,
    ):
        expected = Training(undisturbed, seed)
        connection.ping()  # a server that never answered is not waited for
        with killed as server:
            training, steps = Training(connection, seed), 0
            while server.kills < kills:
                assert training.step() == expected.step(), f"step {steps} of seed {seed}"
                steps += 1
        return Outcome(server.kills, steps, 0)


def lost(kills: int, seed: int, longest: float = 1.5) -> Outcome:
    """Train without recovery: after each SessionLost from the beginning.

    Raises:
        AssertionError: a loss differs from that of an undisturbed server.
    """
    found = steps = 0
    with bh.connect("embedded") as undisturbed, Killed(random.Random(seed), longest) as server:
        with bh.connect(server.target, timeout=TIMEOUT) as connection:
            while server.kills < kills:
                training, expected = Training(connection, seed), Training(undisturbed, seed)
                try:
                    while server.kills < kills:
                        try:
                            assert training.step() == expected.step(), f"seed {seed}"
                            steps += 1
                        except bh.Unavailable:  # it is down at the moment
                            continue
                except bh.SessionLost:
                    found += 1
        return Outcome(server.kills, steps, found)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().randrange(2**31))
    given = parser.parse_args()
    print(f"seed {given.seed}", flush=True)
    print("recover=True:", recovered(given.kills, given.seed), flush=True)
    print("recover=False:", lost(max(1, given.kills // 10), given.seed), flush=True)


if __name__ == "__main__":
    main()
