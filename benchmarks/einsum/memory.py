"""The memory of value and gradient, as predicted and as measured. ``make bench-memory``.

Each network has a process of its own: operands and plan exist before the start, then one einsum is
recorded on a tape and a cotangent pulled back. Measured is the peak of resident memory above the start
(Linux only). Exits with 1 where predicted and measured differ by more than a factor of 1.3.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.einsum.networks import Instance, instances_folder, read
from benchmarks.memory_use import forget_peak, peak_resident, resident
from benchmarks.timing import timed
from rich.box import MARKDOWN
from rich.console import Console
from rich.table import Table

from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.einsum import resolve
from backhaul_server.engine.einsum.explain import explain
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.memory import Room
from backhaul_server.engine.tape import Tape

NETWORKS: Final = (
    "bin_matmul_1024",
    "bin_elementwise_mul_2048x2048",
    "bin_outer_product_4096",
    "bin_batched_outer_product_compact_j16_k16_o64_t64",
    "bin_batched_outer_product_noncompact_j16_k16_o64_t64",
    "lm_batch_likelihood_sentence_3_12d",
    "str_mps_varying_inner_product_200",
    "str_nw_mera_closed_120",
)
SHARE: Final = 1 / 3
"""Of the intermediates: what is kept where a budget is set."""
BUDGETED: Final = ("lm_batch_likelihood_sentence_3_12d", "str_nw_mera_closed_120")
FACTOR: Final = 1.3
_F64: Final = np.dtype("float64")
_TIMES: Final = 3


@dataclass(frozen=True, slots=True)
class Measured:
    """Bytes of value and gradient, and how much longer a budget makes it take (None: there is none)."""

    predicted: int
    measured: int
    slower: float | None

    @property
    def ratio(self) -> float:
        return self.predicted / self.measured

    @property
    def agrees(self) -> bool:
        return 1 / FACTOR <= self.ratio <= FACTOR


def measure(file: Path, share: float | None) -> Measured:
    """Measured in a new process; ``share``: of the intermediates, how much may be kept."""
    command = [sys.executable, __file__, "--measure", str(file)]
    if share is not None:
        command += ["--share", str(share)]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE)
    return Measured(**json.loads(done.stdout))


def _in_this_process(instance: Instance, share: float | None) -> dict[str, Any]:
    network = instance.network
    attributes: dict[str, Any] = {"subscripts": network.subscripts}
    if network.path is not None:
        attributes["path"] = tuple(map(tuple, network.path))
    operands, _ = instance.data()
    kinds = tuple(aval(x.shape, x.dtype) for x in operands)
    whole = Engine()
    prepared = whole.prepare("einsum", attributes, kinds)
    keep_bytes = None if share is None else int(share * prepared.need.kept)
    einsum = resolve(tuple(each.shape for each in kinds), **attributes)
    cost = explain(einsum, (_F64,) * len(kinds), _F64, Room(keep_bytes))
    engine = Engine(keep_bytes=keep_bytes)
    engine.prepare("einsum", attributes, kinds)

    def job(engine: Engine = engine) -> None:
        tape = Tape(engine)
        leaves = [tape.leaf(x) for x in operands]
        y = tape.apply("einsum", leaves, **attributes)
        ct = np.ones(y.aval.shape)
        tape.pullback(y, [ct], leaves)

    np.ones((8, 8)) @ np.ones((8, 8))  # BLAS takes its buffers the first time
    forget_peak()
    start = resident()
    job()
    measured = peak_resident() - start
    slower = None if keep_bytes is None else _ratio(job, partial(job, whole))
    return {"predicted": cost.gradient_bytes, "measured": measured, "slower": slower}


def _ratio(job: Callable[[], object], other: Callable[[], object]) -> float:
    """Of median seconds, the two taken in turns."""
    times = [(timed(job), timed(other)) for _ in range(_TIMES)]
    return statistics.median(ours for ours, _ in times) / statistics.median(s for _, s in times)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("instances", nargs="?", type=Path, help="folder of networks")
    parser.add_argument("--measure", type=Path, help=argparse.SUPPRESS)
    parser.add_argument("--share", type=float, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.measure is not None:
        print(json.dumps(_in_this_process(read(options.measure), options.share)))
        return 0
    folder = instances_folder(options.instances)
    if folder is None:
        print("No networks: name their folder, or set BACKHAUL_CORPUS.", file=sys.stderr)
        return 2
    columns = (
        "keeps",
        "predicted, MB",
        "measured, MB",
        "predicted ÷ measured",
        "time ÷ keeping all",
    )
    table = Table("network", title="Value and gradient", title_justify="left", box=MARKDOWN)
    for name in columns:
        table.add_column(name, justify="right")
    all_agree = True
    for name in NETWORKS:
        for share in (None, SHARE) if name in BUDGETED else (None,):
            found = measure(folder / f"{name}.json", share)
            all_agree &= found.agrees
            table.add_row(
                name,
                "all" if share is None else f"{share:.0%}",
                f"{found.predicted / 1e6:.1f}",
                f"{found.measured / 1e6:.1f}",
                f"{found.ratio:.2f}" if found.agrees else f"**{found.ratio:.2f}**",
                "" if found.slower is None else f"{found.slower:.2f}",
            )
    Console(width=150, markup=False, highlight=False).print(table)
    return 0 if all_agree else 1


if __name__ == "__main__":
    sys.exit(main())
