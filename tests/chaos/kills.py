"""A training loop whose server is killed (SIGKILL) at random moments and started again on the same port.

``python -m tests.chaos.kills --kills 500 --seed 1``: with recover=True the loss curve has to equal that of
an undisturbed server to the last bit; without, each kill has to be a typed SessionLost.
"""

from __future__ import annotations

import argparse
import random
import sys
import threading
import time
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Final

import numpy as np
from tests.chaos.restarted import held_port
from tests.chaos.watching import Watchdog
from tests.chaos.zygote import Zygote

import backhaul as bh

TIMEOUT: Final = 60.0
LONGEST: Final = 0.5
"""Seconds within which the next kill comes."""
EARLY: Final = 0.25
"""Share of the kills that do not wait until the client has noticed the restart before."""
TOLD_EVERY: Final = 50


@dataclass(slots=True)
class Outcome:
    """What a run showed.

    Attributes:
        kills: how often the server was killed.
        steps: of training that were done.
        lost: how often a SessionLost was raised.
        slowest: seconds of the longest step, with what it waited for.
    """

    kills: int = 0
    steps: int = 0
    lost: int = 0
    slowest: float = 0.0

    def __str__(self) -> str:
        return (
            f"{self.kills} kills, {self.steps} steps, {self.lost} times SessionLost, "
            f"slowest step {self.slowest:.2f} s"
        )


class Killed:
    """A server on one port that is killed so often, after random times, and started again.

    Args:
        kills: how often.
        rng: gives the times.
        longest: seconds of up-time that the client has at most.
        early: share of the kills that may come before the client has noticed the restart.
    """

    def __init__(self, kills: int, rng: random.Random, longest: float, early: float = 0.0) -> None:
        self._left = kills
        self._rng = rng
        self._longest = longest
        self._early = early
        self._held = held_port()
        self._zygote = Zygote(self._held.getsockname()[1])
        self._changed = threading.Condition()
        self._noticed = False
        self._ended = False
        self._failure: BaseException | None = None
        self._thread = threading.Thread(target=self._kill, daemon=True)
        self.target = self._zygote.target
        self.kills = 0

    def __enter__(self) -> Killed:
        self._thread.start()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        with self._changed:
            self._ended = True
            self._changed.notify()
        self._thread.join()
        self._zygote.close()
        self._held.close()

    @property
    def over(self) -> bool:
        """Whether no kill comes any more, and the client has got an answer after the last."""
        with self._changed:
            if self._failure is not None:
                raise self._failure
            return not self._left and self._noticed

    def answered(self, kills: int) -> None:
        """The client has got an answer to what it asked after so many kills."""
        with self._changed:
            if kills == self.kills and not self._noticed:
                self._noticed = True
                self._changed.notify()

    def _kill(self) -> None:
        try:
            while self._left and not self._waited():
                self._zygote.kill()
                with self._changed:  # who asks from now on asks the next server
                    self.kills += 1
                    self._left -= 1
                    self._noticed = False
                self._zygote.start()
        except BaseException as failure:
            self._failure = failure

    def _waited(self) -> bool:
        """Wait until the next kill is due; whether all has ended before it."""
        early = self._rng.random() < self._early
        with self._changed:
            self._changed.wait_for(lambda: self._ended or self._noticed or early)
            return self._changed.wait_for(
                lambda: self._ended, timeout=self._rng.uniform(0, self._longest)
            )


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


class Run:
    """Steps of training, compared with those of an undisturbed server."""

    def __init__(self, server: Killed, watchdog: Watchdog) -> None:
        self.outcome = Outcome()
        self._server = server
        self._watchdog = watchdog

    def step(self, training: Training, expected: Training) -> None:
        """One of each.

        Raises:
            AssertionError: their losses differ.
        """
        outcome, server = self.outcome, self._server
        kills, began = server.kills, time.monotonic()
        self._watchdog.begins(f"step {outcome.steps}", ())
        try:
            loss = training.step()
        finally:
            outcome.slowest = max(outcome.slowest, time.monotonic() - began)
            before, outcome.kills = outcome.kills, server.kills
            if outcome.kills // TOLD_EVERY > before // TOLD_EVERY:
                print(outcome, flush=True)
        outcome.steps += 1
        assert loss == expected.step(), f"another loss after {outcome}"
        server.answered(kills)


def recovered(kills: int, seed: int, longest: float = LONGEST) -> Outcome:
    """Train with recover=True while the server is killed so often.

    Raises:
        AssertionError: a loss differs from that of an undisturbed server.
    """
    killed = Killed(kills, random.Random(seed), longest, EARLY)
    with (
        bh.connect("embedded") as undisturbed,
        bh.connect(killed.target, timeout=TIMEOUT, recover=True) as connection,
        Watchdog(2 * TIMEOUT) as watchdog,
    ):
        connection.ping()  # a server that never answered is not waited for
        run = Run(killed, watchdog)
        training, expected = Training(connection, seed), Training(undisturbed, seed)
        with killed as server:
            while not server.over:
                run.step(training, expected)
        return run.outcome


def lost(kills: int, seed: int, longest: float = LONGEST) -> Outcome:
    """Train without recovery: after each SessionLost from the beginning.

    Raises:
        AssertionError: a loss differs from that of an undisturbed server.
    """
    killed = Killed(kills, random.Random(seed), longest)
    with (
        bh.connect("embedded") as undisturbed,
        bh.connect(killed.target, timeout=TIMEOUT) as connection,
        Watchdog(2 * TIMEOUT) as watchdog,
        killed as server,
    ):
        run = Run(server, watchdog)
        training, expected = Training(connection, seed), Training(undisturbed, seed)
        while not server.over:
            try:
                run.step(training, expected)
            except bh.Unavailable:  # it is down at the moment
                continue
            except bh.SessionLost:
                run.outcome.lost += 1
                training, expected = Training(connection, seed), Training(undisturbed, seed)
        return run.outcome


def main() -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=500)
    parser.add_argument("--longest", type=float, default=LONGEST, help="seconds of up-time")
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args()
    seed = random.SystemRandom().randrange(2**31) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    with_recovery = recovered(given.kills, seed, given.longest)
    print("recover=True, each loss bit-equal:", with_recovery, flush=True)
    without = lost(given.kills, seed, given.longest)
    print("recover=False:", without, flush=True)
    return 0 if without.lost == without.kills == with_recovery.kills == given.kills else 1


if __name__ == "__main__":
    sys.exit(main())
