"""The passes: pushforward, pullback, and hvp as the same pullback on duals.

None recurses or changes the tape. A cotangent that nobody sent does not exist (it is not an array of
zeros); the first that arrives at a node is stored, and sums are made in place only into arrays that
this pass made itself.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from operator import attrgetter
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.dual import (
    Dual,
    dual,
    fit_tangent,
    hvp_not_supported,
    tangent_of,
    value_of,
)
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.rules import Array, Namespace
from backhaul_server.engine.scattered import Scattered
from backhaul_server.engine.unreached import Unreached, has_nan, may_leave_out

Gradients = dict[Node, Array]
View = tuple[Any, Sequence[Any], Any]
"""A node's result, operands and residual."""

_serial = attrgetter("serial")


class _OfThread(threading.local):
    def __init__(self) -> None:
        self.begins: Callable[[Node | None], None] | None = None


_of_thread = _OfThread()


@contextmanager
def timed_by(begins: Callable[[Node | None], None]) -> Iterator[None]:
    """Within it the passes of this thread tell where their work on each node begins; None: it has ended."""
    before, _of_thread.begins = _of_thread.begins, begins
    try:
        yield
    finally:
        _of_thread.begins = before


def pullback(
    engine: Engine, loss: Node, cotangents: Sequence[Array], wrt: Sequence[Node] | None
) -> list[Gradients]:
    """Gradients of the loss, one set a cotangent; see `Tape.pullback`."""
    order, wanted, needed = route(loss, wrt)
    seeds = cotangents or (_one(engine, loss),)
    return [
        _with_zeros(
            engine,
            _reversed(engine, engine.plain, loss, seed, order, wanted, needed),
            wrt,
        )
        for seed in seeds
    ]


def hvp(
    engine: Engine,
    loss: Node,
    directions: Sequence[Mapping[Node, Array]],
    wrt: Sequence[Node] | None,
    linear: Sequence[Node] = (),
) -> list[tuple[Gradients, Gradients]]:
    """Gradients and H·v of the loss, one pair a direction; see `Tape.hvp`."""
    order, wanted, needed = route(loss, wrt)
    flat = _reached(linear)
    seed = _one(engine, loss)
    return [
        _along(engine, loss, seed, direction, order, wanted, needed, wrt, flat)
        for direction in directions or (_own_tangents(order),)
    ]


def pushforward(
    engine: Engine, output: Node, directions: Sequence[Mapping[Node, Array]]
) -> list[Array]:
    """Tangents of the output, one a direction; see `Tape.pushforward`."""
    order, _, _ = route(output, None)
    found = []
    for direction in directions or (_own_tangents(order),):
        tangent = push(engine.plain, order, direction)[0].get(output)
        if tangent is None:
            tangent = _zeros(engine, output)
        found.append(tangent)
    return found


def _own_tangents(order: Sequence[Node]) -> dict[Node, Array]:
    return {node: node.tangent for node in order if node.tangent is not None}


def _along(
    engine: Engine,
    loss: Node,
    seed: Array,
    direction: Mapping[Node, Array],
    order: list[Node],
    wanted: set[Node] | None,
    needed: set[Node] | None,
    wrt: Sequence[Node] | None,
    flat: set[Node],
) -> tuple[Gradients, Gradients]:
    """One pair; ``flat`` are nodes that cotangents pass as if their ops were linear."""
    tangents, residuals = push(engine.plain, order, direction)

    def value(node: Node) -> Any:
        tangent = tangents.get(node)
        if tangent is None:
            return node.value
        if type(tangent) is tuple:
            return tuple(map(dual, node.value, tangent))
        return Dual(node.value, tangent)

    def view(node: Node) -> View:
        if node in flat:  # the transpose of its Jacobian, which moves along no direction
            return node.value, node.operands, node.residual
        operands = [
            dual(x, tangents.get(each)) for x, each in zip(node.operands, node.inputs, strict=True)
        ]
        return value(node), operands, residuals.get(node, node.residual)

    found = _reversed(engine, engine.duals, loss, seed, order, wanted, needed, view)
    gradients = {node: value_of(ct) for node, ct in found.items()}
    products = {node: tangent_of(ct) for node, ct in found.items()}
    hv = {node: _zeros(engine, node) if t is None else t for node, t in products.items()}
    return _with_zeros(engine, gradients, wrt), _with_zeros(engine, hv, wrt)


def push(
    F: Namespace,
    order: Sequence[Node],
    direction: Mapping[Node, Array],
) -> tuple[dict[Node, Any], dict[Node, Any]]:
    """The tangents of all nodes that have one, forward along the tape, and residuals as duals."""
    tangents: dict[Node, Any] = dict(direction)
    residuals: dict[Node, Any] = {}
    checkpoint = F.xp.checkpoint
    begins = _of_thread.begins
    for node in reversed(order):
        inputs = node.inputs
        if not inputs:
            continue
        checkpoint()
        if node.output is not None:
            whole = tangents.get(inputs[0])
            if whole is not None and whole[node.output] is not None:
                tangents[node] = whole[node.output]
            continue
        moving = [tangents.get(each) for each in inputs]
        if all(tangent is None for tangent in moving):
            continue
        if begins is not None:
            begins(node)
        call = node.call
        assert call is not None
        if call.jvp is None:
            raise hvp_not_supported(call.name, node=node.id)
        y = node.value
        if call.keeps:
            dy, residuals[node] = call.jvp(F, y, *node.operands, *moving, residual=node.residual)
        else:
            dy = call.jvp(F, y, *node.operands, *moving)
        if type(dy) is tuple:
            tangents[node] = dy
        elif dy is not None:
            tangents[node] = fit_tangent(F, dy, y)
    if begins is not None:
        begins(None)
    return tangents, residuals


def _reversed(
    engine: Engine,
    F: Namespace,
    loss: Node,
    seed: Array,
    order: Sequence[Node],
    wanted: set[Node] | None,
    needed: set[Node] | None,
    view: Callable[[Node], View] | None = None,
) -> Gradients:
    """`reverse`; again with masks where NaN may be of elements that the loss does not reach."""
    found = reverse(F, loss, seed, order, wanted, needed, view)
    if may_leave_out(order) and has_nan(engine.xp, found.values()):
        unreached = Unreached(engine.plain)
        found = reverse(F, loss, seed, order, wanted, needed, view, unreached)
    return found


def reverse(
    F: Namespace,
    loss: Node,
    seed: Array,
    order: Sequence[Node],
    wanted: set[Node] | None,
    needed: set[Node] | None,
    view: Callable[[Node], View] | None = None,
    unreached: Unreached | None = None,
) -> Gradients:
    """Cotangents of the wanted nodes (of all leaves for None), backward along the tape.

    Args:
        F: the ops, plain or dual.
        loss: where to begin.
        seed: its cotangent.
        order: every node that the loss reaches, latest first.
        wanted: the nodes whose cotangents are asked; None: all leaves.
        needed: those that cotangents are sent to; None: all that require a gradient.
        view: a node's result, operands and residual as duals; None: as they are.
        unreached: what is kept out of the cotangents; None: nothing.
    """
    cotangents: dict[Node, Any] = {loss: seed}
    owned: set[Node] = set()
    found: Gradients = {}
    checkpoint = F.xp.checkpoint
    begins = _of_thread.begins
    sent: Any
    for node in order:
        ct = cotangents.pop(node, None)
        if ct is None:
            continue
        call = node.call
        if wanted is None:
            if call is None and node.output is None:
                found[node] = ct
        elif node in wanted:
            found[node] = ct
        inputs = node.inputs
        if call is None:
            if node.output is not None:
                (whole,) = inputs
                cotangents.setdefault(whole, [None] * len(whole.value))[node.output] = ct
                if unreached is not None:
                    unreached.passed(node)
            continue
        needs = node.needs if needed is None else [each in needed for each in inputs]
        if True not in needs:
            continue
        checkpoint()
        if begins is not None:
            begins(node)
        if view is None:
            y, operands, residual = node.value, node.operands, node.residual
        else:
            y, operands, residual = view(node)
        if call.keeps:
            sent = call.cotangents(F, ct, y, operands, needs, residual=residual)
        else:
            sent = call.cotangents(F, ct, y, operands, needs)
        if unreached is not None:
            sent = unreached.kept_out(F, node, sent)
        exact = call.exact
        for each, g in zip(inputs, sent, strict=True):
            if g is None:
                continue
            if not exact:
                g = fit(F, g, each.aval)
            before = cotangents.get(each)
            if type(g) is Scattered:
                cotangents[each] = g.added_to(F.xp, before, owned=each in owned)
                owned.add(each)
            elif before is None:
                cotangents[each] = g
            elif each in owned and (type(g) is not Dual or type(before) is Dual):
                before += g
                cotangents[each] = before
            else:
                cotangents[each] = F.add(before, g)
                if (type(before) is Dual) is (type(g) is Dual):
                    owned.add(each)
                else:
                    owned.discard(each)  # the sum has the tangent of the one that has any
        sent = g = before = None  # what was summed is not to stand beside what comes next
    if begins is not None:
        begins(None)
    return found


def fit(F: Namespace, g: Array, kind: Aval) -> Array:
    """A cotangent brought to its operand: summed over broadcast axes, real for a real operand."""
    if g.shape != kind.shape:
        g = F.unbroadcast(g, shape=kind.shape)
    if g.dtype is kind.dtype:
        return g
    dtype = F.xp.dtype(kind.dtype)
    if g.dtype != dtype:
        if F.xp.is_complex(g.dtype) and kind.dtype.kind != "c":
            g = F.real(g)
        if g.dtype != dtype:
            g = F.astype(g, dtype=dtype)
    return g


def route(
    loss: Node, wrt: Sequence[Node] | None
) -> tuple[list[Node], set[Node] | None, set[Node] | None]:
    """What the loss reaches, latest first; which of it is wanted; which is to be sent cotangents."""
    order = sorted(_reached([loss]), key=_serial, reverse=True)
    if wrt is None:
        return order, None, None
    wanted = set(wrt)
    needed: set[Node] = set()
    for node in reversed(order):
        if node in wanted or not needed.isdisjoint(node.inputs):
            needed.add(node)
    return order, wanted, needed


def _reached(nodes: Iterable[Node]) -> set[Node]:
    """These nodes, and those of what they were computed from that require a gradient."""
    seen = set(nodes)
    stack = [*seen]
    while stack:
        for each in stack.pop().inputs:
            if each.requires_grad and each not in seen:
                seen.add(each)
                stack.append(each)
    return seen


def _with_zeros(engine: Engine, found: Gradients, wrt: Sequence[Node] | None) -> Gradients:
    if wrt is None:
        return found
    return {node: found[node] if node in found else _zeros(engine, node) for node in wrt}


def _zeros(engine: Engine, node: Node) -> Array:
    return engine.xp.zeros(node.aval.shape, dtype=node.aval.dtype)


def _one(engine: Engine, loss: Node) -> Array:
    return engine.xp.ones(loss.aval.shape, dtype=loss.aval.dtype)
