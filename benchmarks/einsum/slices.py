"""A network that is too large for its memory, in slices, against the whole. ``make bench-slices``.

Value and gradient along the file's own order of contraction, in a process for each limit. Measured are
the seconds (planning apart) and the peak of resident memory above the start (Linux only); value and
gradients are compared with those of the whole. Exits with 1 where they differ by more than 1e-9, or a
limit is exceeded.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.einsum.networks import instances_folder, read
from benchmarks.memory_use import forget_peak, peak_resident, resident
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from backhaul_proto.catalog.avals import aval
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape
from backhaul_server.sessions.engines import Engines

NETWORK: Final = "gm_queen5_5_3.wcsp"
LIMITS: Final = (None, 2 << 30, 512 << 20, 64 << 20)
"""Of a session; None: as a whole."""
TOLERANCE: Final = 1e-9


def _in_this_process(file: Path, limit: int | None, answers: Path) -> dict[str, Any]:
    instance = read(file)
    network = instance.network
    attributes: dict[str, Any] = {"subscripts": network.subscripts}
    if network.path is not None:
        attributes["path"] = tuple(map(tuple, network.path))
    operands, _ = instance.data()
    engine = Engine() if limit is None else Engines(Engine(), limit).of(limit)
    started = time.perf_counter()
    call = engine.prepare("einsum", attributes, tuple(aval(x.shape, x.dtype) for x in operands))
    planning = time.perf_counter() - started
    slicing = getattr(call.cotangents, "keywords", {}).get("slicing")
    np.ones((8, 8)) @ np.ones((8, 8))  # BLAS takes its buffers the first time
    forget_peak()
    start = resident()
    started = time.perf_counter()
    tape = Tape(engine)
    leaves = [tape.leaf(x) for x in operands]
    y = tape.apply("einsum", leaves, **attributes)
    gradients = tape.pullback(y, wrt=leaves)[0]
    seconds = time.perf_counter() - started
    peak = peak_resident() - start
    np.savez(answers, y.value, *[gradients[leaf] for leaf in leaves])
    return {
        "slices": 1 if slicing is None else slicing.count,
        "planning": planning,
        "seconds": seconds,
        "peak": peak,
    }


def _measure(file: Path, limit: int | None, answers: Path) -> dict[str, Any]:
    command = [sys.executable, __file__, "--measure", str(file), "--answers", str(answers)]
    if limit is not None:
        command += ["--limit", str(limit)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def _difference(found: Path, expected: Path) -> float:
    """The largest, of the size of each array."""
    with np.load(found) as ours, np.load(expected) as theirs:
        return max(
            float(abs(ours[name] - theirs[name]).max() / abs(theirs[name]).max())
            for name in theirs.files
        )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="?", type=Path, help="folder of networks")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--answers", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--limit", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(_in_this_process(options.measure, options.limit, options.answers)))
        return 0
    folder = instances_folder(options.instances)
    if folder is None:
        print("No networks: name their folder, or set BACKHAUL_CORPUS.", file=sys.stderr)
        return 2
    table = Table(title=f"{NETWORK}: value and gradient", title_justify="left", box=MARKDOWN)
    for name in ("limit", "slices", "planned in, s", "peak, MB", "time ÷ whole", "difference"):
        table.add_column(name, justify="right")
    good = True
    with tempfile.TemporaryDirectory(prefix="backhaul-bench-") as scratch:
        expected = Path(scratch, "whole.npz")
        whole = 0.0
        for limit in LIMITS:
            answers = expected if limit is None else Path(scratch, "sliced.npz")
            found = _measure(folder / f"{NETWORK}.json", limit, answers)
            whole = whole or found["seconds"]
            difference = _difference(answers, expected)
            kept = limit is None or found["peak"] <= limit
            good &= kept and difference <= TOLERANCE
            peak = f"{found['peak'] / 1e6:.0f}"
            table.add_row(
                "none" if limit is None else f"{limit >> 20} MiB",
                str(found["slices"]),
                f"{found['planning']:.2f}",
                peak if kept else f"**{peak}**",
                f"{found['seconds'] / whole:.2f} ({found['seconds']:.1f} s)",
                f"{difference:.1e}",
            )
    Console(width=150, markup=False, highlight=False).print(table)
    return 0 if good else 1


if __name__ == "__main__":
    sys.exit(main())
