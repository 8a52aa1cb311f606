"""What a question takes is predicted: never less than it does, and not much more."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.traced import traced

from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape
from backhaul_server.engine.tape_memory import held_by, hvp_peak, pullback_peak

N = 200
LEAF = 8 * N * N
OBJECTS = 64 << 10
"""Bytes of Python's objects that are allocated on the way, at most."""
Build = Callable[[Tape, np.random.Generator, list[Node]], Node]


def _leaf(tape: Tape, rng: np.random.Generator, leaves: list[Node], *shape: int) -> Node:
    value = rng.standard_normal(shape or (N, N))
    leaves.append(tape.leaf(value, rng.standard_normal(value.shape)))
    return leaves[-1]


def _chain(tape: Tape, rng: np.random.Generator, leaves: list[Node]) -> Node:
    x = _leaf(tape, rng, leaves)
    for _ in range(4):
        x = tape.apply("matmul", [x, _leaf(tape, rng, leaves)])
    return _sum(tape, x)


def _diamonds(tape: Tape, rng: np.random.Generator, leaves: list[Node]) -> Node:
    x = _leaf(tape, rng, leaves)
    for _ in range(6):
        x = tape.apply("add", [x, tape.apply("multiply", [x, x])])
    return _sum(tape, x)


def _several(tape: Tape, rng: np.random.Generator, leaves: list[Node]) -> Node:
    parts = tape.apply("unstack", [_leaf(tape, rng, leaves, 5, N, N)])
    return _sum(tape, tape.apply("stack", [tape.apply("multiply", [x, x]) for x in parts]))


def _network(tape: Tape, rng: np.random.Generator, leaves: list[Node]) -> Node:
    operands = [_leaf(tape, rng, leaves, 30, 30, 30) for _ in range(4)]
    # The first pair holds the first leaf: a prediction counts all operands, whichever are asked for.
    path = ((0, 1), (0, 1), (0, 1))
    return tape.apply(  # type: ignore[no-any-return]  # a node
        "einsum", operands, subscripts="abc,cde,efb,fda->", path=path
    )


def _fan(tape: Tape, rng: np.random.Generator, leaves: list[Node]) -> Node:
    x = _leaf(tape, rng, leaves)
    total = _sum(tape, x)
    for _ in range(5):
        y = tape.apply("multiply", [x, _leaf(tape, rng, leaves)])
        total = tape.apply("add", [total, tape.apply("einsum", [y, y], subscripts="ij,ij->")])
    return total


def _sum(tape: Tape, x: Node) -> Node:
    return tape.apply("sum", [x])  # type: ignore[no-any-return]  # a node


TAPES: dict[str, Build] = {
    "chain": _chain,
    "diamonds": _diamonds,
    "several results": _several,
    "network": _network,
    "fan": _fan,
}


def _measured(ask: Callable[[], Any]) -> int:
    assert ask()  # what is made once is made
    return traced(ask).peak


@pytest.fixture(params=TAPES)
def built(request: pytest.FixtureRequest) -> tuple[Tape, list[Node], Node]:
    tape, leaves = Tape(Engine()), list[Node]()
    loss = TAPES[request.param](tape, np.random.default_rng(17), leaves)
    return tape, leaves, loss


Built = tuple[Tape, list[Node], Node]


def _agree(predicted: int, measured: int) -> None:
    assert measured <= predicted + OBJECTS
    assert predicted <= 2.5 * measured


def test_the_peak_of_a_pullback(built: Built) -> None:
    tape, leaves, loss = built
    _agree(pullback_peak(loss, None, 1).bytes, _measured(lambda: tape.pullback(loss)))
    seeds = [np.ones(()), np.ones(()) * 2.0, np.ones(()) * 3.0]
    _agree(pullback_peak(loss, None, 3).bytes, _measured(lambda: tape.pullback(loss, seeds)))
    first = leaves[:1]
    _agree(pullback_peak(loss, first, 1).bytes, _measured(lambda: tape.pullback(loss, wrt=first)))


def test_the_peak_of_an_hvp(built: Built) -> None:
    tape, leaves, loss = built
    _agree(hvp_peak(loss, None, ()).bytes, _measured(lambda: tape.hvp(loss)))
    rng = np.random.default_rng(19)
    directions = [{leaf: rng.standard_normal(leaf.aval.shape)} for leaf in leaves[:2]]
    _agree(hvp_peak(loss, None, directions).bytes, _measured(lambda: tape.hvp(loss, directions)))


def test_one_direction_takes_no_more_than_all() -> None:
    tape, leaves = Tape(Engine()), list[Node]()
    loss = _fan(tape, np.random.default_rng(23), leaves)
    one, all_ = hvp_peak(loss, None, [[leaves[1]]]), hvp_peak(loss, None, [leaves])
    assert pullback_peak(loss, None, 1).bytes < one.bytes < all_.bytes


def test_what_takes_most_is_named() -> None:
    tape = Tape(Engine())
    x = tape.leaf(np.ones((3, 3)))
    big = tape.apply("broadcast_to", [x], shape=(50, 3, 3))
    loss = _sum(tape, tape.apply("multiply", [big, big]))
    peak = pullback_peak(loss, None, 1)
    assert peak.node.call is not None
    assert (peak.node.call.name, peak.node_bytes) == ("multiply", peak.node.call.need.gradient)


def test_held_memory_is_counted_once() -> None:
    tape = Tape(Engine())
    value = np.ones((N, N))
    x = tape.leaf(value, np.ones((N, N)))
    assert held_by([x, x]).bytes == 2 * LEAF
    turned = tape.apply("matrix_transpose", [tape.apply("reshape", [x], shape=(N * N, 1))])
    assert held_by([turned]).bytes == 2 * LEAF


def test_what_a_node_keeps_alive_is_held_by_it() -> None:
    tape = Tape(Engine())
    x = tape.leaf(np.ones((N, N)))
    loss = _sum(tape, tape.apply("multiply", [x, x]))
    held = held_by([loss])
    assert held.bytes == 2 * LEAF + 8
    operands = [tape.leaf(np.ones((N, N))) for _ in range(3)]
    product = tape.apply("einsum", operands, subscripts="ij,jk,kl->il")
    assert product.residual is not None
    assert held_by([product]).bytes == (3 + 1 + 1) * LEAF  # operands, an intermediate, the result
    constant = tape.apply("einsum", [tape.constant(np.ones((N, N)))] * 3, subscripts="ij,jk,kl->il")
    assert held_by([constant]).bytes == LEAF
