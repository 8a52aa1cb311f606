"""Mixed load for a long time: no session is lost, no number is wrong, memory stays where it was.

python -m tests.chaos.soak --minutes 30 --seed 1
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import random
import sys
import time
from collections import Counter
from collections.abc import Callable
from multiprocessing.synchronize import Event
from typing import Any, Final

import numpy as np
from tests.chaos.processes import resident
from tests.e2e.server_process import serving

import backhaul as bh

CLIENTS: Final = 4
EVERY: Final = 2.0  # seconds between looks at memory
GROWTH: Final = 0.05
"""Share of its memory by which the server may grow from the second quarter to the last."""

Job = Callable[[bh.Connection, np.random.Generator], None]


def small(connection: bh.Connection, random_: np.random.Generator) -> None:
    """A short tape, closed."""
    with bh.Tape(connection) as tape:
        a = random_.normal(size=(3, 3))
        x = tape.leaf(a)
        np.testing.assert_allclose(tape.pullback(bh.sum(x * x))[x], 2 * a)


def forgotten(connection: bh.Connection, random_: np.random.Generator) -> None:
    """A tape that nobody closes."""
    a = random_.normal(size=(50, 50))
    x = bh.Tape(connection).leaf(a)
    np.testing.assert_allclose(float(bh.sum(x)), a.sum(), atol=1e-9)


def network(connection: bh.Connection, random_: np.random.Generator) -> None:
    """A contraction with its gradient and H·v."""
    with bh.Tape(connection) as tape:
        a, b, c = (random_.normal(size=(20, 20)) for _ in range(3))
        x, y = tape.leaf_with_tangent(a, b), tape.leaf(c)
        z = bh.einsum("ij,jk,kl->il", x, y, x)
        found = tape.hvp(bh.sum(z * z))
        again = tape.pullback(bh.sum(z * z))
        np.testing.assert_array_equal(found.gradients[x], again[x])


def large(connection: bh.Connection, random_: np.random.Generator) -> None:
    """8 MB there and back, in pieces."""
    with bh.Tape(connection) as tape:
        a = random_.normal(size=(1024, 1024))
        x = tape.leaf(a)
        np.testing.assert_array_equal((x + 0.0).numpy(), a)


def training(connection: bh.Connection, random_: np.random.Generator) -> None:
    """Parameters that stay on the server, replaced again and again on one tape."""
    with bh.Tape(connection) as tape:
        data, target = tape.constant(random_.normal(size=(100, 10))), random_.normal(size=100)
        w = tape.leaf(np.zeros(10))
        first = last = float("inf")
        for i in range(30):
            r = data @ w - target
            gradients = tape.pullback(bh.mean(r * r), fetch=False)
            last = gradients.value.item()
            first = last if not i else first
            w = tape.leaf(w - 0.05 * gradients[w])
        assert last < first


def refused(connection: bh.Connection, random_: np.random.Generator) -> None:
    """What cannot be done, and the tape afterwards."""
    with bh.Tape(connection, memory_limit=1 << 20) as tape:
        x = tape.leaf(random_.normal(size=100))
        try:
            bh.sum(bh.einsum("i,j,k->ijk", x, x, x)).item()
        except bh.MemoryLimitExceeded:
            pass
        else:
            raise AssertionError("8 MB fitted into 1 MiB")
        singular = bh.linalg.inv(tape.leaf(np.zeros((2, 2))))
        try:
            singular.numpy()
        except bh.LinearAlgebraError:
            pass
        else:
            raise AssertionError("a singular matrix was inverted")
        assert bh.sum(x * 0.0).item() == 0.0


def hurried(connection: bh.Connection, random_: np.random.Generator) -> None:
    """A question with too little time."""
    with bh.connect(connection.target, timeout=0.005) as impatient, bh.Tape(impatient) as tape:
        x = tape.leaf(random_.normal(size=(200, 200)))
        y = x
        for _ in range(100):
            y = y @ x
        with contextlib.suppress(bh.DeadlineExceeded, bh.Unavailable):
            y.numpy()


JOBS: Final[tuple[Job, ...]] = (
    small, small, small, forgotten, network, network, large, training, refused, hurried,
)  # fmt: skip


def client(target: str, seed: int, stop: Event, reports: Any) -> None:
    """Job after job until it is told to stop."""
    random_ = np.random.default_rng(seed)
    done: Counter[str] = Counter()
    wrong: list[str] = []
    with bh.connect(target, timeout=60) as connection:
        while not stop.is_set():
            job = JOBS[random_.integers(len(JOBS))]
            try:
                job(connection, random_)
            except Exception as error:  # told at the end, whatever it is
                wrong.append(f"{job.__name__}: {type(error).__name__}: {error}"[:500])
            done[job.__name__] += 1
    reports.put((done, wrong))


def run(seconds: float, seed: int, *options: str, clients: int = CLIENTS) -> list[str]:
    """What was wrong; empty when nothing was."""
    random_ = random.Random(seed)
    start = multiprocessing.get_context("spawn")
    stop, reports = start.Event(), start.Queue()
    seen: list[tuple[float, int]] = []
    with serving("--log-level", "error", *options) as server:
        processes = [
            start.Process(
                target=client, args=(server.target, random_.getrandbits(32), stop, reports)
            )
            for _ in range(clients)
        ]
        for each in processes:
            each.start()
        begun = time.monotonic()
        while (passed := time.monotonic() - begun) < seconds and not server.process.poll():
            time.sleep(min(EVERY, max(0.0, seconds - passed)))
            seen.append((time.monotonic() - begun, resident(server.process.pid)))
        stop.set()
        told = [reports.get(timeout=120) for _ in processes]
        for each in processes:
            each.join()
    done: Counter[str] = sum((each for each, _ in told), Counter())
    wrong = [line for _, lines in told for line in lines]
    print(f"seed {seed}: {done.total()} jobs: {dict(done)}")
    return [*wrong[:20], *_grown(seen)]


def _grown(seen: list[tuple[float, int]]) -> list[str]:
    """Whether the server's memory went up: medians of the second and the last quarter; the slope is told."""
    times, sizes = np.array(seen).T
    half = times >= times[-1] / 2
    slope = np.polyfit(times[half] / 60, sizes[half] / 1e6, 1)[0] if half.sum() > 2 else 0.0
    count = len(sizes)
    early = float(np.median(sizes[count // 4 : max(count // 2, count // 4 + 1)]))
    late = float(np.median(sizes[-max(1, count // 4) :]))
    print(
        f"memory: {early / 1e6:.0f} MB in the second quarter, {late / 1e6:.0f} MB in the last, most "
        f"{sizes.max() / 1e6:.0f} MB; slope of the second half {slope:+.2f} MB a minute"
    )
    if late > early * (1 + GROWTH):
        return [f"the server's memory grew from {early / 1e6:.0f} to {late / 1e6:.0f} MB"]
    return []


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=random.SystemRandom().getrandbits(32))
    given = parser.parse_args()
    wrong = run(given.minutes * 60, given.seed)
    print("\n".join(wrong) or "nothing was wrong")
    return bool(wrong)


if __name__ == "__main__":
    sys.exit(main())
