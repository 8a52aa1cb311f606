"""An op at a point of its domain, on any engine: what generated tests record and ask.

What is drawn and what is compared are NumPy's arrays; the engine's own are between.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tests.samples import draw, normal

from backhaul_proto.catalog import ops as catalog
from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.ops import Op, Sample
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
_STEP = {4: 3e-3, 8: 1e-6}
_TOLERANCE = {4: 3e-2, 8: 1e-6}


class Point:
    """An op prepared for a sample, with its operands and directions.

    Attributes:
        step: how far to move for a difference.
        tolerance: how near to it a derivative comes.
    """

    def __init__(self, engine: Engine, entry: Op, sample: Sample, dtype: np.dtype[Any]) -> None:
        drawn = draw(entry, sample, dtype)
        self.engine = engine
        self.rng, self.operands, self.directions = drawn.rng, drawn.operands, drawn.directions
        self.other = drawn.again(sample)
        avals = tuple(aval(x.shape, x.dtype) for x in self.operands)
        bound = catalog.bind(entry, sample.attributes)
        self.call: PreparedCall = engine.prepare_bound(entry, bound, avals)
        width = dtype.type(0).real.dtype.itemsize
        self.step, self.tolerance = _STEP[width], _TOLERANCE[width]

    def record(self, step: float = 0.0) -> tuple[Tape, list[Node], tuple[Node, ...]]:
        """A tape with the op on it, its operands moved so far along the directions; its leaves."""
        tape, here = Tape(self.engine), self.engine.xp.from_host
        nodes = []
        for x, d in zip(self.operands, self.directions, strict=True):
            if d is None:
                nodes.append(tape.constant(here(x)))
            else:
                nodes.append(tape.leaf(here(np.asarray(x + step * d).astype(x.dtype)), here(d)))
        leaves = [n for n, d in zip(nodes, self.directions, strict=True) if d is not None]
        return tape, leaves, tape.run(self.call, nodes)

    def cotangents(self, results: Sequence[Node]) -> list[Array]:
        return [normal(self.rng, node.aval.shape, node.aval.dtype) for node in results]


def inexact(results: Sequence[Node]) -> list[Node]:
    return [node for node in results if node.aval.inexact]


def weighted(tape: Tape, results: Sequence[Node], weights: Sequence[Array]) -> Node:
    """Σ Re(conj(w) y) over all results."""
    return _total(tape, [_term(tape, y, np.conj(w)) for y, w in zip(results, weights, strict=True)])


def curved(tape: Tape, results: Sequence[Node], weights: Sequence[Array]) -> Node:
    """Σ Re(w y²) over all results: its Hessian is not zero also where the op itself is linear."""
    squares = [tape.apply("multiply", [y, y]) for y in results]
    return _total(tape, [_term(tape, y, w) for y, w in zip(squares, weights, strict=True)])


def _term(tape: Tape, y: Node, weight: Array) -> Node:
    weights = tape.constant(tape.engine.xp.from_host(np.asarray(weight)))
    product = tape.apply("multiply", [y, weights])
    return tape.apply("sum", [tape.apply("real", [product])])  # type: ignore[no-any-return]  # Tape.apply gives Any


def _total(tape: Tape, terms: Sequence[Node]) -> Node:
    total = terms[0]
    for term in terms[1:]:
        total = tape.apply("add", [total, term])
    return total
