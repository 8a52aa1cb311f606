"""The wire at full speed: figures as ratios within this run, each beside its goal. ``make bench-wire``.

Servers are ``backhaul serve`` in processes of their own, reached over TCP, a unix socket, and a unix
socket with shared memory; ``embedded`` is the server's code in this process.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.timing import report
from benchmarks.wire import job, latency, memory, sessions, training, transfers
from benchmarks.wire.section import Section
from benchmarks.wire.ways import has_shared_memory
from rich.console import Console

PARTS: Final[dict[str, Callable[[bool], list[Section]]]] = {
    "latency": latency.measure,
    "transfers": transfers.measure,
    "job": job.measure,
    "sessions": sessions.measure,
    "training": training.measure,
    "memory": memory.measure,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="smaller sizes, fewer rounds")
    parser.add_argument(
        "--only", action="append", choices=PARTS, metavar="NAME", help=f"of {', '.join(PARTS)}"
    )
    arguments = parser.parse_args()
    console = Console(width=140, markup=False, highlight=False)
    if not has_shared_memory():
        console.print(
            "This release shares no memory over unix sockets: figures of that are left out."
        )
    for name in arguments.only or PARTS:
        started = time.perf_counter()
        for section in PARTS[name](arguments.quick):
            report(console, section.title, section.figures)
            for note in section.notes:
                console.print(f"  {note}")
        console.print(f"({name}: {time.perf_counter() - started:.0f} s)\n")


if __name__ == "__main__":
    main()
