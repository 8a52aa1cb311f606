"""All benchmarks: figures as ratios within this run, each beside its goal. ``make bench``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import chain, latency
from benchmarks.timing import report
from rich.console import Console

import backhaul as bh
from backhaul.demo import server_process


def main() -> None:
    console = Console(width=140)
    with (
        server_process() as target,
        bh.connect(target, timeout=60) as remote,
        bh.connect("embedded") as embedded,
    ):
        report(console, "Round trips", chain.round_trips(remote))
        report(
            console,
            f"Chains of {chain.STEPS} products of 2×2 matrices, value and gradient",
            chain.figures(remote, embedded),
        )
        report(console, "Latency", latency.figures(remote, embedded))


if __name__ == "__main__":
    main()
