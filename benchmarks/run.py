"""What tape, engine and wire add: figures as ratios within this run, each beside its goal. ``make bench``."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from benchmarks import chain
from benchmarks.timing import report
from benchmarks.wire import latency
from benchmarks.wire.ways import connections, serving
from rich.console import Console


def main() -> None:
    console = Console(width=140)
    with serving() as server, connections(server) as ways, latency.echo_server() as bare:
        report(console, "Round trips", chain.round_trips(ways["TCP"]))
        report(
            console,
            f"Chains of {chain.STEPS} products of 2×2 matrices, value and gradient",
            chain.figures(ways["TCP"], ways["embedded"]),
        )
        report(console, "Latency", latency.smallest_figures(ways, bare, count=15))


if __name__ == "__main__":
    main()
