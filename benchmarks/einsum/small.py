"""Einsums so small that what surrounds the arithmetic counts."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import numpy as np
from benchmarks.timing import Figure, rounds, timed

from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]

_TIMES: Final = 500
_ALLOWED: Final = 2e-6  # seconds above 1.5 × np.matmul


def figures(count: int) -> list[Figure]:
    rng = np.random.default_rng(7)
    return [*_matmul(rng, count), *_hyperedge(rng, count)]


def _matmul(rng: np.random.Generator, count: int) -> list[Figure]:
    a, b = rng.standard_normal((2, 32, 32))
    medians = rounds(
        {
            "matmul": _often(lambda: np.matmul(a, b)),
            "prepared": _often(_prepared("ij,jk->ik", [a, b])),
            "applied": _often(_applied("ij,jk->ik", [a, b])),
        },
        count,
    )
    base, micros = medians["matmul"], {name: s * 1e6 for name, s in medians.items()}
    return [
        Figure(
            "32×32 matmul, a step of a block / (1.5 × np.matmul + 2 µs)",
            medians["prepared"] / (1.5 * base + _ALLOWED),
            1.0,
            detail=f"{micros['prepared']:.1f} against np.matmul's {micros['matmul']:.1f} µs",
        ),
        Figure(
            "the same by name, attributes looked up",
            medians["applied"] / (1.5 * base + _ALLOWED),
            None,
            detail=f"{micros['applied']:.1f} µs",
        ),
    ]


def _hyperedge(rng: np.random.Generator, count: int) -> list[Figure]:
    found = []
    for n in (16, 64):
        a, b, c = rng.standard_normal((3, n, n))
        # The pair that makes the n³ intermediate, in either layout, then one matrix product.
        pairwise = {
            "rows": lambda a=a, b=b, c=c: _rows(a, b, c),
            "batch": lambda a=a, b=b, c=c: (a[:, None, :] * b) @ c.T,
            "columns": lambda a=a, b=b, c=c: _columns(a, b, c),
        }
        jobs = {name: _often(job, _TIMES // 10) for name, job in pairwise.items()}
        jobs["ours"] = _often(_prepared("ia,ja,ka->ijk", [a, b, c]), _TIMES // 10)
        medians = rounds(jobs, count)
        best = min(pairwise, key=lambda name: medians[name])
        found.append(
            Figure(
                f"ia,ja,ka->ijk at {n} / the best pairwise NumPy",
                medians["ours"] / medians[best],
                1.0,
                detail=f"{medians['ours'] * 1e6:.0f} against {medians[best] * 1e6:.0f} µs ({best})",
            )
        )
    return found


def _rows(a: Array, b: Array, c: Array) -> Array:
    n, m, k = len(a), len(b), len(c)
    product: Array = (a[:, None, :] * b).reshape(n * m, -1) @ c.T
    return product.reshape(n, m, k)


def _columns(a: Array, b: Array, c: Array) -> Array:
    n, m, k = len(a), len(b), len(c)
    product: Array = a @ (b[:, None, :] * c).reshape(m * k, -1).T
    return product.reshape(n, m, k)


def _prepared(subscripts: str, values: list[Array]) -> Callable[[], object]:
    engine = Engine()
    tape = Tape(engine)
    leaves = [tape.leaf(value) for value in values]
    call = engine.prepare("einsum", {"subscripts": subscripts}, tuple(leaf.aval for leaf in leaves))
    return lambda: tape.run(call, leaves)


def _applied(subscripts: str, values: list[Array]) -> Callable[[], object]:
    tape = Tape(Engine())
    leaves = [tape.leaf(value) for value in values]
    return lambda: tape.apply("einsum", leaves, subscripts=subscripts)


def _often(job: Callable[[], object], times: int = _TIMES) -> Callable[[], float]:
    def loop() -> None:
        for _ in range(times):
            job()

    return lambda: timed(loop) / times
