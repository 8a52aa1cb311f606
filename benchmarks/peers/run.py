"""sum((A @ B)²) with its gradients: ours against what people would use instead. ``make bench-peers``.

All on the loopback, connections warm, answers compared with NumPy's. Each peer asks from a process of its
own in an environment of its own, ``.peers/NAME``; the processes take turns, and figures are ratios of
medians within this run. Where a peer can be used in several ways each is measured, and its fastest counts.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.peers.job import SIZES
from benchmarks.peers.processes import ROOT, Asking, Failed
from benchmarks.timing import Figure, report
from benchmarks.wire.ways import SHARED, has_shared_memory
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

_ROUNDS: Final = {2: 11, 256: 9, 1024: 5}
_SLOW: Final = 1.0  # seconds from which the first answer is the only one
_REST: Final = 0.03  # seconds: threads of the library before wait for more work by spinning

GOALS: Final = {SHARED: (2.5, 8.0, 2.0), "TCP": (2.5, 4.0, 1.2)}
"""How many times as fast as the fastest peer, by way and size."""


@dataclass(slots=True)
class Way:
    """One way of using a peer, and what was measured of it: seconds by size, or why there are none.

    Attributes:
        peer: its name for people.
        module: of this package.
        variant: what the module knows the way by.
        environment: below ``.peers``; None: this process's.
        remote: whether it is what ours is compared with.
        by_its_gradients: whether gradients come by the peer's own interface for them; else they are further
            outputs of a function, which knows of no derivative.
    """

    peer: str
    module: str
    variant: str
    environment: str | None = None
    remote: bool = True
    by_its_gradients: bool = True
    seconds: dict[int, float] = field(default_factory=dict)
    failed: str = ""

    @property
    def name(self) -> str:
        return f"{self.peer}: {self.variant}"

    @property
    def python(self) -> Path:
        """The interpreter.

        Raises:
            Failed: the environment could not be made, and why.
        """
        if self.environment is None:
            return Path(sys.executable)
        folder = ROOT / ".peers" / self.environment
        reason = folder / "failed"
        if reason.exists():
            raise Failed(f"not installed: {reason.read_text().strip()}")
        if not (folder / "bin" / "python").exists():
            raise Failed("not installed (make bench-peers installs it)")
        return folder / "bin" / "python"


def ways() -> list[Way]:
    """Ours and everybody's."""
    ours = ["TCP", "unix", *([SHARED] if has_shared_memory() else []), "embedded"]
    return [
        *(Way("backhaul", "ours", variant, remote=False) for variant in ours),
        Way("pytensor-federated", "federated", "stream", "federated"),
        Way("Tesseract", "tesseract", "base64", "tesseract"),
        Way("Tesseract", "tesseract", "binref", "tesseract"),
        Way("Tesseract", "tesseract", "base64, one call", "tesseract", by_its_gradients=False),
        Way("Tesseract", "tesseract", "binref, one call", "tesseract", by_its_gradients=False),
        Way("UM-Bridge", "um_bridge", "HTTP", "umbridge"),
        Way("UM-Bridge", "um_bridge", "shared memory", "umbridge"),
        Way("UM-Bridge", "um_bridge", "HTTP, one call", "umbridge", by_its_gradients=False),
        Way("Philote", "philote", "streams", "philote"),
        Way("by hand", "unary", "one unary call an op"),
        *(Way("in process", "local", name, remote=False) for name in ("NumPy", "JAX", "torch")),
    ]


def measure(n: int, asking: dict[str, Asking], every: Sequence[Way], count: int) -> None:
    """All of them at one size, in turns; one that fails is left out from then on."""
    taken: dict[str, list[float]] = {}
    by_name = {way.name: way for way in every}
    for name in list(asking):
        first = _asked(by_name[name], asking, n)
        if first is not None:
            taken[name] = [first]
    for _ in range(count):
        for name, times in taken.items():
            if name not in asking or times[0] >= _SLOW:
                continue
            time.sleep(_REST)
            seconds = _asked(by_name[name], asking, None)
            if seconds is not None:
                times.append(seconds)
    for name, times in taken.items():
        by_name[name].seconds[n] = statistics.median(times[1:] or times)


def _asked(way: Way, asking: dict[str, Asking], n: int | None) -> float | None:
    try:
        process = asking[way.name]
        return process.turn() if n is None else process.open(n)
    except Failed as failed:
        way.failed = str(failed)
        asking.pop(way.name).end()
        return None


def figures(every: Sequence[Way], sizes: Sequence[int]) -> list[Figure]:
    """Ours over each way that has a goal, against the fastest peer at each size.

    Where a function whose outputs are gradients is faster still, it stands below, without a goal.
    """
    found: list[Figure] = []
    ours = {way.variant: way for way in every if way.module == "ours"}
    for variant, goals in GOALS.items():
        for n, goal in zip(SIZES, goals, strict=True):
            if n not in sizes or variant not in ours or n not in ours[variant].seconds:
                continue
            peers = [way for way in every if way.remote and n in way.seconds]
            peers.sort(key=lambda way: way.seconds[n])
            fastest = next((way for way in peers if way.by_its_gradients), None)
            if fastest is not None:
                found.append(_figure(ours[variant], fastest, n, goal))
                if peers[0] is not fastest:
                    found.append(_figure(ours[variant], peers[0], n, None))
    return found


def _figure(ours: Way, peer: Way, n: int, goal: float | None) -> Figure:
    mine, theirs = ours.seconds[n], peer.seconds[n]
    return Figure(
        f"{ours.variant}, n = {n}: the fastest {'peer' if goal else 'of any kind'} / ours",
        theirs / mine,
        goal,
        detail=f"{peer.name}: {theirs * 1e3:.2f} against {mine * 1e3:.2f} ms",
        more_is_better=True,
    )


def _table(every: Sequence[Way], sizes: Sequence[int]) -> Table:
    table = Table("", title="Milliseconds a job", title_justify="left", box=MARKDOWN)
    for n in sizes:
        table.add_column(f"n = {n}", justify="right")
    for way in every:
        cells = [f"{way.seconds[n] * 1e3:.3g}" if n in way.seconds else "" for n in sizes]
        table.add_row(way.name, *cells)
    return table


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="n = 2 and 256, three rounds")
    parser.add_argument("--only", action="append", metavar="NAME", help="peers named so, and ours")
    arguments = parser.parse_args()
    sizes = SIZES[:2] if arguments.quick else SIZES
    every = [
        way
        for way in ways()
        if not arguments.only or way.peer in arguments.only or way.module == "ours"
    ]
    asking: dict[str, Asking] = {}
    try:
        for way in every:
            try:
                asking[way.name] = Asking(way.module, way.variant, way.python)
            except Failed as failed:
                way.failed = str(failed)
        for n in sizes:
            measure(n, asking, every, 3 if arguments.quick else _ROUNDS[n])
    finally:
        for process in asking.values():
            process.end()
    console = Console(width=140, markup=False, highlight=False)
    console.print(_table(every, sizes))
    report(console, "Against the fastest peer", figures(every, sizes))
    if not has_shared_memory():
        console.print("This release shares no memory over unix sockets: no figure of that.")
    for way in every:
        if way.failed:
            console.print(f"  {way.name}: {way.failed}")


if __name__ == "__main__":
    main()
