"""Every op of the catalog against NumPy or SciPy, JAX and torch: value, gradient, H·v. ``make bench-ops``.

Ops on each element are measured at 4, 1,000 and 1,000,000 elements, all others on the first sample of
their entry. Ours is the engine in process: the value is a prepared call, gradient and H·v are of the
real part's sum, with the tape that they need. JAX is compiled in advance. Ratios are of medians of
rounds taken in turns within this run.
"""

from __future__ import annotations

import argparse
import fnmatch
import importlib
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np
import scipy.linalg
import scipy.special
from benchmarks.timing import rounds, timed
from rich.console import Console
from rich.table import Table

from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.ops import CATALOG, Op, Sample, bind
from backhaul_proto.catalog.pointwise import is_pointwise
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.rules import derivatives
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
Job = Callable[[], object]

SIZES: Final = (4, 1_000, 1_000_000)
FACTOR, EXTRA = 1.5, 1.5e-6
"""The goal of a value at 4 elements: at most so many times NumPy's, and so many seconds more."""


@dataclass(frozen=True, slots=True)
class Line:
    """An op at a size; ratios are None where there is nothing to compare with."""

    op: str
    size: str
    value_us: float
    over_goal: float | None
    value: dict[str, float]
    gradient_us: float | None
    gradient: dict[str, float]
    hvp_us: float | None


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--quick", action="store_true", help="ops on each element, 4 elements")
    parser.add_argument("--only", default="*", help="ops whose name matches this pattern")
    parser.add_argument("--rounds", type=int, default=15)
    arguments = parser.parse_args()
    peers = {name: _module(name) for name in ("jax.numpy", "torch")}
    lines = []
    for op in CATALOG.values():
        if op.private or op.name == "einsum" or not fnmatch.fnmatch(op.name, arguments.only):
            continue
        for size, sample in _points(op, arguments.quick):
            lines.append(_measured(op, sample, size, peers, arguments.rounds))
    _report(Console(width=150), lines)


def _module(name: str) -> Any:
    try:
        found = importlib.import_module(name)
    except ImportError:
        return None
    if name == "jax.numpy":
        importlib.import_module("jax").config.update("jax_enable_x64", True)
    return found


def _points(op: Op, quick: bool) -> Iterator[tuple[str, Sample]]:
    sample = next((each for each in op.samples if 0 not in np.shape(each.shapes[0])), op.samples[0])
    if not is_pointwise(op):
        if not quick:
            yield "sample", sample
        return
    for size in SIZES[: 1 if quick else None]:
        shape = (2, 2) if size == SIZES[0] else (size,)
        yield f"{size:,}", replace(sample, shapes=(shape,) * len(sample.shapes), constants={})


def _measured(op: Op, sample: Sample, size: str, peers: dict[str, Any], count: int) -> Line:
    rng = np.random.default_rng(3)
    arrays = [_operand(rng, op, sample, i) for i in range(len(sample.shapes))]
    engine = Engine()
    call = engine.prepare_bound(
        op, bind(op, sample.attributes), tuple(aval(x.shape, x.dtype) for x in arrays)
    )
    forward = call.forward
    if call.keeps:
        forward = partial(forward, needs=[x.dtype.kind in "fc" for x in arrays])
    repeat = 200 if max(x.size for x in arrays) < 10_000 else 1
    jobs: dict[str, Job] = {"ours": lambda: forward(*arrays)}
    peer = _numpy(op)
    if peer is not None:
        jobs["numpy"] = lambda: peer(*arrays, **sample.attributes)
    functions = {n: _peer(m, op) for n, m in peers.items() if m is not None}
    jobs |= _values(functions, peers, arrays)
    times = _times(jobs, repeat, count)
    value = {name: times["ours"] / seconds for name, seconds in times.items() if name != "ours"}
    over = None
    if size == f"{SIZES[0]}" and "numpy" in times:
        over = times["ours"] / (FACTOR * times["numpy"] + EXTRA)
    line = Line(op.name, size, times["ours"] * 1e6, over, value, None, {}, None)
    found = derivatives(op)
    if not found.vjp or op.gauge or not any(each.inexact for each in call.results):
        return line
    questions = _questions(engine, op, sample, arrays)
    asked = {"gradient": questions[0]} | ({"hvp": questions[1]} if found.hvp else {})
    asked |= _gradients(functions, peers, arrays)
    times = _times(asked, max(1, repeat // 10), count)
    return replace(
        line,
        gradient_us=times["gradient"] * 1e6,
        gradient={n: times["gradient"] / times[n] for n in functions if n in times},
        hvp_us=times["hvp"] * 1e6 if found.hvp else None,
    )


def _operand(rng: np.random.Generator, op: Op, sample: Sample, i: int) -> Array:
    """Numbers at which the op and its derivatives are finite, whatever the op."""
    if i in sample.constants:
        return np.asarray(sample.constants[i]).reshape(sample.shapes[i])
    shape = sample.shapes[i]
    x = (
        rng.uniform(1.2, 1.9, shape)
        if sample.domain == "above_one"
        else rng.uniform(0.2, 0.8, shape)
    )
    if "f" not in op.kinds:
        return x > 0.5 if op.kinds == "b" else (x * 10).astype(np.int64)
    if op.name.startswith("linalg.") and len(shape) > 1 and shape[-1] == shape[-2]:
        x = x + np.swapaxes(x, -1, -2) + np.diag(np.arange(3.0, 3.0 + shape[-1]))
    return np.asarray(x)


def _names(op: Op) -> list[str]:
    return [each.rpartition(".")[2] for each in (op.name, *op.aliases)]


def _numpy(op: Op) -> Callable[..., Any] | None:
    spaces = (np.linalg, scipy.linalg) if op.name.startswith("linalg.") else (np, scipy.special)
    for space in spaces:
        for name in _names(op):
            found: Any = getattr(space, name, None)
            if callable(found):
                return found  # type: ignore[no-any-return]  # it is callable
    return None


def _peer(module: Any, op: Op) -> Callable[..., Any] | None:
    if not is_pointwise(op):
        return None
    return next((getattr(module, n) for n in _names(op) if hasattr(module, n)), None)


def _values(
    functions: dict[str, Any], peers: dict[str, Any], arrays: Sequence[Array]
) -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    if functions.get("jax.numpy"):
        jax = importlib.import_module("jax")
        f, given = jax.jit(functions["jax.numpy"]), [peers["jax.numpy"].asarray(x) for x in arrays]
        jobs["jax.numpy"] = lambda: f(*given).block_until_ready()
    if functions.get("torch"):
        g, tensors = functions["torch"], [peers["torch"].from_numpy(x) for x in arrays]
        jobs["torch"] = lambda: g(*tensors)
    return {name: job for name, job in jobs.items() if _runs(job)}


def _gradients(
    functions: dict[str, Any], peers: dict[str, Any], arrays: Sequence[Array]
) -> dict[str, Job]:
    jobs: dict[str, Job] = {}
    if functions.get("jax.numpy"):
        jax, jnp = importlib.import_module("jax"), peers["jax.numpy"]
        f = functions["jax.numpy"]
        grad = jax.jit(
            jax.value_and_grad(lambda *xs: jnp.sum(f(*xs)), argnums=tuple(range(len(arrays))))
        )
        given = [jnp.asarray(x) for x in arrays]
        jobs["jax.numpy"] = lambda: jax.block_until_ready(grad(*given))
    if functions.get("torch"):
        torch, g = peers["torch"], functions["torch"]

        def ask() -> object:
            leaves = [torch.from_numpy(x).requires_grad_() for x in arrays]
            return torch.autograd.grad(g(*leaves).sum(), leaves)

        jobs["torch"] = ask
    return {name: job for name, job in jobs.items() if _runs(job)}


def _runs(job: Job) -> bool:
    """Whether a peer's function of the same name takes these operands."""
    try:
        job()
    except Exception:  # it is another function, or has no gradient: there is nothing to compare
        return False
    return True


def _questions(engine: Engine, op: Op, sample: Sample, arrays: Sequence[Array]) -> tuple[Job, Job]:
    def loss(tape: Tape) -> Any:
        nodes = [
            tape.leaf(x, np.ones_like(x)) if x.dtype.kind in "fc" else tape.constant(x)
            for x in arrays
        ]
        result = tape.apply(op.name, nodes, **sample.attributes)
        first = result if not isinstance(result, tuple) else result[-1]
        return tape.apply("sum", [tape.apply("real", [first])])

    def gradient() -> object:
        tape = Tape(engine)
        return tape.pullback(loss(tape))

    def hvp() -> object:
        tape = Tape(engine)
        return tape.hvp(loss(tape))

    return gradient, hvp


def _times(jobs: dict[str, Job], repeat: int, count: int) -> dict[str, float]:
    """Seconds of a call of each; a job that does not run is left out."""

    def many(job: Job) -> Callable[[], float]:
        def run() -> float:
            return timed(lambda: [job() for _ in range(repeat)]) / repeat

        return run

    with np.errstate(all="ignore"):
        able = {name: many(job) for name, job in jobs.items() if name in _OURS or _runs(job)}
        return rounds(able, count)


_OURS: Final = frozenset({"ours", "gradient", "hvp"})


def _report(console: Console, lines: Sequence[Line]) -> None:
    table = Table(
        "op", "elements", "value µs", "÷ numpy", "÷ goal", "÷ jax", "÷ torch",
        "gradient µs", "÷ jax", "÷ torch", "H·v µs", title="Ops", title_justify="left",
    )  # fmt: skip
    for each in lines:
        table.add_row(
            each.op,
            each.size,
            f"{each.value_us:.2f}",
            *(_ratio(each.value.get(n)) for n in ("numpy",)),
            _ratio(each.over_goal),
            *(_ratio(each.value.get(n)) for n in ("jax.numpy", "torch")),
            "" if each.gradient_us is None else f"{each.gradient_us:.1f}",
            *(_ratio(each.gradient.get(n)) for n in ("jax.numpy", "torch")),
            "" if each.hvp_us is None else f"{each.hvp_us:.1f}",
        )
    console.print(table)
    judged = [each.over_goal for each in lines if each.over_goal is not None]
    reached = sum(ratio <= 1 for ratio in judged)
    console.print(
        f"value at 4 elements ≤ {FACTOR} × NumPy + {EXTRA * 1e6} µs: {reached} of {len(judged)} ops"
    )


def _ratio(ratio: float | None) -> str:
    return "" if ratio is None else f"{ratio:.2f}"


if __name__ == "__main__":
    main()
