"""500 steps of gradient descent on a network of three layers: ms a step, against JAX and torch.

The data set is sent once; a batch is named by its indices. ``fetched``: gradients come here, NumPy makes
the new parameters and they are sent again. ``kept``: parameters stay on the server.
"""

from __future__ import annotations

import importlib
import inspect
import itertools
import time
from collections.abc import Callable, Iterator
from typing import Any, Final

import numpy as np
from benchmarks.timing import Figure, rounds
from benchmarks.wire.section import Section
from benchmarks.wire.ways import connections, serving

import backhaul as bh

Array = np.ndarray[Any, Any]
Step = Callable[[Array], float]
"""One step on the batch of these rows; the loss before it."""

_LAYERS: Final = (64, 128, 128, 10)
_ROWS, _BATCH = 10_000, 64
_RATE: Final = 0.1
_STEPS, _QUICK_STEPS = 500, 100
_ROUNDS: Final = 10
_AGREE: Final = 1e-6


def measure(quick: bool) -> list[Section]:
    """The table, and whether all came to the same loss."""
    steps = _QUICK_STEPS if quick else _STEPS
    notes = []
    with serving() as server, connections(server) as ways:
        made: dict[str, Step] = {}
        for name, connection in ways.items():
            made[f"{name}, fetched"] = _fetched(connection)
            if _can_keep():
                made[f"{name}, kept"] = _kept(connection)
        if not _can_keep():
            notes.append("This release keeps no gradients on the server: `kept` is left out.")
        for name, make in {"JAX": _jax, "torch": _torch}.items():
            try:
                made[name] = make()
            except ImportError:
                notes.append(f"{name} is not installed here: left out.")
        figures = _figures(made, steps)
    title = f"Gradient descent, {steps} steps, {'-'.join(map(str, _LAYERS))}, batches of {_BATCH}"
    return [Section(title, figures, notes)]


def _figures(made: dict[str, Step], steps: int) -> list[Figure]:
    """Rounds of some steps each, in turns; all go through the same batches, and must come to one loss."""
    share = steps // _ROUNDS
    losses = dict.fromkeys(made, 0.0)
    walks = {name: _batches() for name in made}

    def job(name: str) -> float:
        rows = [next(walks[name]) for _ in range(share)]
        step = made[name]
        started = time.perf_counter()
        for each in rows:
            losses[name] = step(each)
        return (time.perf_counter() - started) / share

    jobs = {name: lambda name=name: job(name) for name in made}
    medians = rounds(jobs, _ROUNDS)  # and one round before, that warms
    expected = next(iter(losses.values()))
    for name, loss in losses.items():
        if abs(loss - expected) > _AGREE * expected:
            raise SystemExit(f"{name} came to a loss of {loss}, others to {expected}.")
    against = medians.get("JAX", min(medians.values()))
    return [
        Figure(
            f"{name} / {'JAX' if 'JAX' in medians else 'the fastest'}",
            seconds / against,
            None,
            detail=f"{seconds * 1e3:.2f} ms a step",
        )
        for name, seconds in medians.items()
        if name != "JAX"
    ]


def _can_keep() -> bool:
    return "fetch" in inspect.signature(bh.Tape.pullback).parameters


def _batches() -> Iterator[Array]:
    rng = np.random.default_rng(7)
    while True:
        yield rng.integers(0, _ROWS, _BATCH)


def _data() -> tuple[Array, Array]:
    """Rows, and classes as rows of the identity."""
    rng = np.random.default_rng(3)
    rows = rng.standard_normal((_ROWS, _LAYERS[0]))
    truth = rng.standard_normal((_LAYERS[0], _LAYERS[-1]))
    return rows, np.eye(_LAYERS[-1])[(rows @ truth).argmax(1)]


def _parameters() -> list[Array]:
    """Weights and biases, by turns."""
    rng = np.random.default_rng(5)
    found: list[Array] = []
    for into, out in itertools.pairwise(_LAYERS):
        found += [rng.standard_normal((into, out)) / into**0.5, np.zeros(out)]
    return found


def _loss(xp: Any, logsumexp: Any, parameters: Any, rows: Any, classes: Any) -> Any:
    """The mean cross entropy of a network with tanh between its layers, in any library's functions."""
    w0, b0, w1, b1, w2, b2 = parameters
    hidden = xp.tanh(rows @ w0 + b0)
    hidden = xp.tanh(hidden @ w1 + b1)
    logits = hidden @ w2 + b2
    return (logsumexp(logits) - (logits * classes).sum(1)).sum() * (1 / _BATCH)


def _tape_loss(parameters: Any, rows: Any, classes: Any, batch: Array) -> Any:
    return _loss(
        bh,
        lambda logits: bh.logsumexp(logits, axis=1),
        parameters,
        bh.take(rows, batch, axis=0),
        bh.take(classes, batch, axis=0),
    )


def _fetched(connection: bh.Connection) -> Step:
    tape = bh.Tape(connection)
    rows, classes = map(tape.constant, _data())
    parameters = _parameters()

    def step(batch: Array) -> float:
        leaves = [tape.leaf(each) for each in parameters]
        gradients = tape.pullback(_tape_loss(leaves, rows, classes, batch))
        for each, leaf in zip(parameters, leaves, strict=True):
            each -= _RATE * gradients[leaf]
        return float(gradients.value)

    return step


def _kept(connection: bh.Connection) -> Step:
    tape: Any = bh.Tape(connection)
    rows, classes = map(tape.constant, _data())
    leaves = [tape.leaf(each) for each in _parameters()]

    def step(batch: Array) -> float:
        loss = _tape_loss(leaves, rows, classes, batch)
        gradients = tape.pullback(loss, fetch=False)
        leaves[:] = [tape.leaf(each - _RATE * gradients[each]) for each in leaves]
        return float(gradients.value)

    return step


def _jax() -> Step:
    jax = importlib.import_module("jax")
    jax.config.update("jax_enable_x64", True)
    rows, classes = map(jax.numpy.asarray, _data())
    held = [[jax.numpy.asarray(each) for each in _parameters()]]

    def loss(parameters: Any, batch: Any) -> Any:
        return _loss(
            jax.numpy,
            lambda logits: jax.nn.logsumexp(logits, axis=1),
            parameters,
            rows[batch],
            classes[batch],
        )

    def update(parameters: Any, batch: Any) -> Any:
        value, gradients = jax.value_and_grad(loss)(parameters, batch)
        return value, [p - _RATE * g for p, g in zip(parameters, gradients, strict=True)]

    compiled = jax.jit(update)

    def step(batch: Array) -> float:
        value, held[0] = compiled(held[0], batch)
        return float(value)

    return step


def _torch() -> Step:
    torch = importlib.import_module("torch")
    rows, classes = map(torch.from_numpy, _data())
    parameters = [torch.from_numpy(each).requires_grad_() for each in _parameters()]

    def step(batch: Array) -> float:
        chosen = torch.from_numpy(batch)
        value = _loss(
            torch,
            lambda logits: torch.logsumexp(logits, 1),
            parameters,
            rows[chosen],
            classes[chosen],
        )
        gradients = torch.autograd.grad(value, parameters)
        with torch.no_grad():
            for each, gradient in zip(parameters, gradients, strict=True):
                each -= _RATE * gradient
        return float(value.detach())

    return step
