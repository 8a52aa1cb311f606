"""Work through a proxy that fails: ``python -m tests.chaos.faults --faults 2000 --seed 1``.

Each question is asked of two tapes, one of them embedded and undisturbed. Through the proxy it must be
answered by the same bits, or end with a typed error in time. After an error the tape is asked again without
a fault: it gives the right answer, or says that its session is lost.
"""

from __future__ import annotations

import argparse
import random
import secrets
import sys
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
from tests.chaos.faulty_proxy import FaultyProxy, random_fault

import backhaul as bh
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server

Array = np.ndarray[Any, Any]
Ask = Callable[[], list[Array]]

TIMEOUT: Final = 0.8
SLACK: Final = 60.0
"""Seconds that a machine under load may be late."""
RECOVERY: Final = 120.0
"""Seconds within which a tape is itself again when the fault is over."""
QUESTIONS_OF_A_TAPE: Final = 25
TOLD_EVERY: Final = 200
LARGE: Final = 1 << 20
"""Elements of a large array: 8 MB."""


class Work:
    """A tape and what is recorded on it. Two of them with the same seeds record the same."""

    def __init__(self, connection: bh.Connection) -> None:
        self.tape = bh.Tape(connection)
        self.weights = self.tape.leaf(_normal(0, (6, 6)) / 3)
        self.x = self.tape.leaf(_normal(1, (6, 6)))

    def record(self, kind: str, seed: int) -> Ask:
        """Record steps; what asks for their answer may be called again."""
        tape, weights = self.tape, self.weights
        if kind == "stream":
            large = tape.leaf(_normal(seed, (LARGE,)))
            doubled = large * 2.0
            return lambda: [doubled.numpy()]
        leaf = tape.leaf(_normal(seed, (6, 6)))
        self.x = bh.tanh(bh.einsum("ij,jk,kl->il", self.x, weights, leaf))
        x = self.x
        if kind == "chain":
            return lambda: [x.numpy()]
        loss = bh.sum(x * x)
        if kind == "gradient":
            return lambda: _gradients(tape.pullback(loss), leaf, weights)
        direction = _normal(seed + 1, (6, 6))
        return lambda: _products(tape.hvp(loss, tangents={weights: direction}), leaf, weights)


@dataclass(slots=True)
class Report:
    """What came of a run: counts by kind of fault and outcome, and what must not be."""

    outcomes: dict[str, Counter[str]] = field(default_factory=dict)
    wrong: list[str] = field(default_factory=list)
    faults: int = 0
    happened: int = 0
    lost: int = 0

    def note(self, kind: str, outcome: str) -> None:
        self.outcomes.setdefault(kind, Counter())[outcome] += 1

    def lines(self) -> list[str]:
        """It, for people."""
        lines = [
            f"{self.faults} faults, of which {self.happened} came to happen; {self.lost} tapes were reported "
            "lost"
        ]
        for kind, outcomes in sorted(self.outcomes.items()):
            counts = ", ".join(f"{name} {n}" for name, n in outcomes.most_common())
            lines.append(f"{kind:>20}: {counts}")
        return lines + [f"WRONG {each}" for each in self.wrong[:10]]


def run(
    faults: int,
    seed: int,
    kinds: Sequence[str] = ("chain", "gradient", "hvp", "stream"),
    timeout: float = TIMEOUT,
) -> Report:
    """So many faults, one after the other."""
    rng = random.Random(seed)
    report = Report()
    server = Server(Dispatcher(Engine()), ["127.0.0.1:0"])
    server.start()
    proxy = FaultyProxy(server.targets[0])
    try:
        with (
            bh.connect(proxy.target, timeout=timeout) as remote,
            bh.connect("embedded") as embedded,
        ):
            here, there = Work(embedded), Work(remote)
            for i in range(faults):
                if i % QUESTIONS_OF_A_TAPE == QUESTIONS_OF_A_TAPE - 1:
                    here, there = Work(embedded), Work(remote)
                kind, number = rng.choice(kinds), rng.randrange(2**32)
                expected = here.record(kind, number)()
                ask = there.record(kind, number)
                fault = random_fault(rng, "large" if kind == "stream" else "small")
                where = f"fault {i} ({fault}) in {kind}"
                proxy.arm(fault)
                outcome = _asked(ask, expected, timeout + SLACK, where, report)
                report.faults += 1
                if report.faults % TOLD_EVERY == 0:
                    print(f"{report.faults} faults", flush=True)
                report.happened += proxy.happened
                proxy.heal()
                if outcome != "right" and not _recovers(ask, expected, where, report):
                    report.lost += 1
                    here, there = Work(embedded), Work(remote)
                report.note(fault.kind if proxy.happened else "(did not come)", outcome)
    finally:
        proxy.close()
        server.stop(0)
    return report


def _asked(ask: Ask, expected: Sequence[Array], limit: float, where: str, report: Report) -> str:
    """The outcome of a question; what must not be is noted."""
    began = time.monotonic()
    try:
        found = ask()
        outcome = "right"
        if not _same(found, expected):
            outcome = "WRONG"
            report.wrong.append(f"{where}: another answer")
    except bh.InternalError as error:
        outcome = "INTERNAL"
        report.wrong.append(f"{where}: {error}")
    except bh.BackhaulError as error:
        outcome = error.reason
    except Exception as error:
        outcome = type(error).__name__
        report.wrong.append(f"{where}: {error!r}")
    took = time.monotonic() - began
    if took > limit:
        report.wrong.append(f"{where}: {outcome} after {took:.2f} s")
    return outcome


def _recovers(ask: Ask, expected: Sequence[Array], where: str, report: Report) -> bool:
    """Whether the tape gives the right answer now; if not, it said that it is lost."""
    end = time.monotonic() + RECOVERY
    while time.monotonic() < end:
        began = time.monotonic()
        try:
            found = ask()
        except (bh.Unavailable, bh.DeadlineExceeded):  # the connection is being made again
            time.sleep(max(0.0, 0.02 - (time.monotonic() - began)))
            continue
        except bh.SessionError:
            return False
        except Exception as error:
            report.wrong.append(f"{where}, asked again: {error!r}")
            return False
        if not _same(found, expected):
            report.wrong.append(f"{where}, asked again: another answer")
        return True
    report.wrong.append(f"{where}: no answer within {RECOVERY} s")
    return False


def _same(found: Sequence[Array], expected: Sequence[Array]) -> bool:
    return len(found) == len(expected) and all(
        a.dtype == b.dtype and a.shape == b.shape and a.tobytes() == b.tobytes()
        for a, b in zip(found, expected, strict=True)
    )


def _gradients(found: Any, *leaves: Any) -> list[Array]:
    return [np.asarray(found[each]) for each in leaves]


def _products(found: Any, *leaves: Any) -> list[Array]:
    return [np.asarray(of[each]) for each in leaves for of in (found.gradients, found.hvp)]


def _normal(seed: int, shape: tuple[int, ...]) -> Array:
    return np.random.default_rng(seed).normal(size=shape)


def main(arguments: Sequence[str] | None = None) -> int:
    """The program."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--faults", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=None)
    given = parser.parse_args(arguments)
    seed = secrets.randbits(32) if given.seed is None else given.seed
    print(f"seed {seed}", flush=True)
    began = time.monotonic()
    report = run(given.faults, seed)
    print("\n".join(report.lines()))
    print(f"{time.monotonic() - began:.0f} s", flush=True)
    return 1 if report.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
