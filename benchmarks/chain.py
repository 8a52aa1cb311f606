"""Chains of 2×2 matrix products: what the tape, the engine and the wire add to the arithmetic."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.timing import Figure, rounds

import backhaul as bh
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
STEPS = 1000
_A = np.array([[0.6, 0.8], [-0.8, 0.6]])


def bare() -> float:
    """A NumPy loop that stores its residuals and walks back."""
    started = time.perf_counter()
    y, stored = np.eye(2), []
    for _ in range(STEPS):
        stored.append(y)
        y = y @ _A
    loss = y.sum()
    ct = np.ones((2, 2))
    gradient = np.zeros((2, 2))
    for x in reversed(stored):
        gradient += x.T @ ct
        ct = ct @ _A.T
    assert np.isfinite(loss)
    assert np.isfinite(gradient).all()
    return time.perf_counter() - started


def engine_run(engine: Engine) -> tuple[Tape, Node]:
    """The same on the engine's tape, by a prepared call as the steps of a block have it."""
    tape = Tape(engine)
    a = tape.leaf(_A)
    y = tape.constant(np.eye(2))
    product = engine.prepare("einsum", {"subscripts": "ij,jk->ik"}, (y.aval, a.aval))
    for _ in range(STEPS):
        (y,) = tape.run(product, (y, a))
    return tape, tape.apply("sum", (y,))


def engine_gradient(engine: Engine) -> Callable[[], float]:
    def run() -> float:
        started = time.perf_counter()
        tape, loss = engine_run(engine)
        tape.pullback(loss)
        return time.perf_counter() - started

    return run


def engine_hvp(engine: Engine) -> Callable[[], float]:
    """Gradient and H·v with a tangent on every leaf, the value computed already."""

    def run() -> float:
        tape, loss = engine_run(engine)
        direction = {next(iter(tape.pullback(loss)[0])): np.ones((2, 2))}
        started = time.perf_counter()
        tape.hvp(loss, [direction])
        return time.perf_counter() - started

    return run


def client_gradient(connection: bh.Connection, lengths: Callable[[], int]) -> Callable[[], float]:
    """Record, send, compute, answer: a session of its own each time, closed outside the clock."""

    def run() -> float:
        steps = lengths()
        started = time.perf_counter()
        tape = bh.Tape(connection)
        a = tape.leaf(_A)
        y = tape.constant(np.eye(2))
        for _ in range(steps):
            y = bh.einsum("ij,jk->ik", y, a)
        tape.pullback(bh.sum(y))
        taken = time.perf_counter() - started
        tape.close()
        return taken * STEPS / steps

    return run


def figures(remote: bh.Connection, embedded: bh.Connection) -> list[Figure]:
    engine = Engine()
    new_lengths = itertools.count(STEPS)
    medians = rounds(
        {
            "bare": bare,
            "engine": engine_gradient(engine),
            "hvp": engine_hvp(engine),
            "first": client_gradient(remote, lambda: next(new_lengths)),
            "repeated": client_gradient(remote, lambda: STEPS),
            "embedded": client_gradient(embedded, lambda: STEPS),
        },
        count=15,
    )
    micros = {name: seconds / STEPS * 1e6 for name, seconds in medians.items()}
    return [
        Figure(
            "engine / bare numpy loop",
            medians["engine"] / medians["bare"],
            1.5,
            detail=f"{micros['engine']:.1f} against {micros['bare']:.1f} µs an op",
        ),
        Figure(
            "gradient + H·v / value + gradient, engine",
            medians["hvp"] / medians["engine"],
            3.8,
            detail=f"{micros['hvp']:.1f} µs an op",
        ),
        Figure(
            "remote, first time / engine",
            medians["first"] / medians["engine"],
            4.0,
            detail=f"{micros['first']:.1f} µs an op",
        ),
        Figure(
            "remote, repeated block / engine",
            medians["repeated"] / medians["engine"],
            2.5,
            detail=f"{micros['repeated']:.1f} µs an op",
        ),
        Figure(
            "embedded, repeated block / engine",
            medians["embedded"] / medians["engine"],
            None,
            detail=f"{micros['embedded']:.1f} µs an op",
        ),
    ]


def round_trips(connection: bh.Connection) -> list[Figure]:
    """Calls that a fresh tape needs for its graph with a gradient, and for one more with H·v."""
    before = connection.calls.total()
    tape = bh.Tape(connection)
    a = tape.leaf_with_tangent(_A, np.ones((2, 2)))
    y = a
    for _ in range(STEPS):
        y = y @ a
    loss = bh.sum(y)
    tape.pullback(loss)
    float(loss)
    first = connection.calls.total() - before
    tape.hvp(bh.sum(y * y))
    second = connection.calls.total() - before - first
    tape.close()
    return [
        Figure(f"session, {STEPS} steps, pullback, value", first, 1, " round trips"),
        Figure("more steps and hvp", second, 1, " round trips"),
    ]
