"""An evaluation through each adapter, against the plain call and against peers. ``make bench-adapters``.

The job is sum((A @ B)²) with both gradients, on a server of another process by TCP on the loopback,
connections warm, answers compared with NumPy's. The plain call is two leaves and a pullback on one tape. Jobs
take turns, and the figure is the median over the plain call's within this run; JAX not compiled, and the
same there of a function of JAX's own, are stated without a goal. Peers ask from processes of their own, as
in ``make bench-peers``: pytensor-federated, and Tesseract, on which tesseract-jax stands.
"""

from __future__ import annotations

import argparse
import importlib
import statistics
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
from benchmarks.peers.job import Answer, Array, Ask, operands
from benchmarks.peers.processes import ROOT, Asking, Failed
from benchmarks.timing import Figure, report, rounds
from benchmarks.wire.job import remote, timed_jobs
from benchmarks.wire.ways import connections, serving
from rich.console import Console

import backhaul as bh

SIZES: Final = (2, 256)
GOAL: Final = 1.0  # milliseconds over the plain call, for the smallest job
_TIMES: Final = {2: 20, 256: 3}
_PEERS: Final = {
    "pytensor-federated": ("federated", "stream", "federated"),
    "Tesseract": ("tesseract", "base64", "tesseract"),
    "Tesseract, one call": ("tesseract", "base64, one call", "tesseract"),
}


def loss(a: Any, b: Any) -> Any:
    """The job, as one writes it for all adapters."""
    c = a @ b
    return bh.sum(c * c)


def scipy_way(connection: bh.Connection, n: int) -> Ask:
    at = bh.adapters.scipy.objective(loss, [(n, n), (n, n)], connection=connection)

    def ask(a: Array, b: Array) -> Answer:
        at._last = None  # the same point again: as if it were another
        value, gradient = at.fun_and_jac(at.pack(a, b))
        return value, *at.unpack(gradient)

    return ask


def jax_way(*, compiled: bool) -> Callable[[bh.Connection, int], Ask]:
    def make(connection: bh.Connection, n: int) -> Ask:
        jax = importlib.import_module("jax")
        jax.config.update("jax_enable_x64", True)
        f = jax.value_and_grad(bh.adapters.jax.wrap(loss, connection=connection), (0, 1))
        f = jax.jit(f) if compiled else f

        def ask(a: Array, b: Array) -> Answer:
            value, (ga, gb) = f(a, b)
            return float(value), np.asarray(ga), np.asarray(gb)

        return ask

    return make


def jax_alone(connection: bh.Connection, n: int) -> Ask:
    """What JAX itself takes to differentiate, not compiled, with no server."""
    jax = importlib.import_module("jax")
    f = jax.value_and_grad(lambda a, b: ((a @ b) ** 2).sum(), (0, 1))

    def ask(a: Array, b: Array) -> Answer:
        value, (ga, gb) = f(a, b)
        return float(value), np.asarray(ga), np.asarray(gb)

    return ask


def torch_way(connection: bh.Connection, n: int) -> Ask:
    torch = importlib.import_module("torch")
    f = bh.adapters.torch.wrap(loss, connection=connection)

    def ask(a: Array, b: Array) -> Answer:
        x, y = (torch.from_numpy(each).requires_grad_() for each in (a, b))
        value = f(x, y)
        value.backward()
        return value.item(), x.grad.numpy(), y.grad.numpy()

    return ask


def pytensor_way(connection: bh.Connection, n: int) -> Ask:
    pytensor = importlib.import_module("pytensor")
    pt = importlib.import_module("pytensor.tensor")
    a, b = pt.dmatrices("a", "b")
    value = bh.adapters.pytensor.logp(loss, connection=connection)(a, b)
    compute = pytensor.function([a, b], [value, *pytensor.grad(value, [a, b])])

    def ask(a: Array, b: Array) -> Answer:
        found, ga, gb = compute(a, b)
        return float(found), ga, gb

    return ask


WAYS: Final[dict[str, Callable[[bh.Connection, int], Ask]]] = {
    "SciPy": scipy_way,
    "JAX, jit": jax_way(compiled=True),
    "JAX, eager": jax_way(compiled=False),
    "JAX's own, eager": jax_alone,
    "PyTorch": torch_way,
    "PyTensor": pytensor_way,
}


def ours(connection: bh.Connection, n: int, count: int) -> tuple[dict[str, float], list[str]]:
    """Seconds by way, and what is said of ways that were left out."""
    a, b = operands(n)
    asking: dict[str, Ask] = {"plain": remote(connection)}
    notes = []
    for name, make in WAYS.items():
        try:
            asking[name] = make(connection, n)
        except ImportError as missing:
            notes.append(f"{name}: {missing}")
    return rounds(timed_jobs(asking, a, b, _TIMES[n]), count), notes


def peers(n: int, count: int) -> tuple[dict[str, float], list[str]]:
    """The same of peers."""
    found, notes = {}, []
    for name, (module, variant, environment) in _PEERS.items():
        python = ROOT / ".peers" / environment / "bin" / "python"
        if not python.exists():
            notes.append(f"{name}: not installed (make bench-adapters installs it)")
            continue
        asking = Asking(module, variant, python)
        try:
            asking.open(n)
            found[name] = statistics.median(asking.turn() for _ in range(count))
        except Failed as failed:
            notes.append(f"{name}: {failed}")
        finally:
            asking.end()
    return found, notes


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="five rounds")
    count = 5 if parser.parse_args().quick else 21
    console = Console(width=120, markup=False, highlight=False)
    with serving() as server, connections(server, embedded=False) as ways:
        for n in SIZES:
            taken, notes = ours(ways["TCP"], n, count)
            others, further = peers(n, count)
            plain = taken.pop("plain")
            figures = [
                Figure(
                    f"{name}: over the plain call",
                    (seconds - plain) * 1e3,
                    GOAL if n == SIZES[0] and "eager" not in name else None,
                    " ms",
                    f"{seconds * 1e3:.3f} against {plain * 1e3:.3f} ms",
                )
                for name, seconds in taken.items()
            ]
            figures += [
                Figure(
                    f"{name} / {adapter}",
                    seconds / taken[adapter],
                    None,
                    "×",
                    f"{seconds * 1e3:.3f} against {taken[adapter] * 1e3:.3f} ms",
                )
                for name, seconds in others.items()
                for adapter in ("PyTensor", "JAX, jit")
                if adapter in taken
            ]
            report(console, f"sum((A @ B)²) with both gradients, n = {n}", figures)
            for note in [*notes, *further]:
                console.print(f"  {note}")


if __name__ == "__main__":
    main()
