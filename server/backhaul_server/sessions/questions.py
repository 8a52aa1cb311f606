"""The questions at a request's end: checked before the block runs, asked after it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

from backhaul_proto.catalog.avals import aval
from backhaul_proto.errors import AutodiffError, make_error
from backhaul_proto.messages import (
    Direction,
    GradientSet,
    HvpQuestion,
    NodeOrArray,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
    asked_node,
)
from backhaul_server.engine.checks import (
    Described,
    check_directions,
    check_loss,
    check_requires_grad,
)
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape
from backhaul_server.sessions.keeping import Keep

Array = np.ndarray[Any, Any]
NodeOf = Callable[[int], Node]

_KINDS: Final[dict[type, str]] = {
    PullbackQuestion: "pullback",
    HvpQuestion: "hvp",
    PushforwardQuestion: "pushforward",
}


class NodeFailed(Exception):
    """A question asks for a node that has an error in place of a value."""

    def __init__(self, node: int, error: AutodiffError) -> None:
        super().__init__(str(error))
        self.node = node
        self.error = error


@dataclass(frozen=True, slots=True)
class Asked:
    """The answers."""

    values: Sequence[Array] = ()
    loss_value: Array | None = None
    sets: Sequence[GradientSet] = ()
    tangents: Sequence[Array] = ()


def kind_of(values: Sequence[int], question: Question | None) -> str | None:
    """What is asked, by one of the names of `Work.KINDS`; None: nothing."""
    if question is not None:
        return _KINDS[type(question)]
    return "values" if values else None


def check(question: Question, described: Callable[[int], Described], has_tangent: bool) -> None:
    """What a question demands, known from shapes and dtypes alone.

    Args:
        question: the question.
        described: a node by id; raises MissingNode.
        has_tangent: whether a leaf of the tape has a tangent.

    Raises:
        MissingNode, NonScalarLoss, TangentShapeMismatch, InvalidArgument.
    """

    def kind(given: NodeOrArray) -> Any:
        if isinstance(given, int):
            return described(given).aval
        return aval(given.shape, given.dtype)

    match question:
        case PullbackQuestion():
            check_loss(described(question.loss), [kind(each) for each in question.cotangents])
        case HvpQuestion():
            check_loss(described(question.loss), [])
        case PushforwardQuestion():
            check_requires_grad("output", described(question.output))
    if not isinstance(question, PullbackQuestion):
        for direction in question.directions:
            if len({leaf for leaf, _ in direction}) != len(direction):
                raise make_error("INVALID_VALUE", "A direction names a leaf twice.")
        check_directions(
            [[(described(leaf), kind(t)) for leaf, t in each] for each in question.directions],
            has_tangent,
        )
    if isinstance(question, PushforwardQuestion):
        return
    _check_named("wrt", question.wrt or (), described)
    if isinstance(question, HvpQuestion):
        _check_named("linear", question.linear, described)


def _check_named(what: str, nodes: Sequence[int], described: Callable[[int], Described]) -> None:
    for each in nodes:
        named = described(each)
        if not named.requires_grad:
            raise make_error(
                "MISSING_NODE",
                f"{what} names {named.name}, which requires no gradient.",
                node=each,
            )


def ask(
    engine: Engine,
    tape: Tape,
    values: Sequence[int],
    question: Question | None,
    node_of: NodeOf,
    keep: Keep | None = None,
) -> Asked:
    """The values, and the question's gradients.

    Args:
        engine: what computes.
        tape: what is asked.
        values: nodes whose values are asked.
        question: what else is asked.
        node_of: a node by id.
        keep: takes what stays here, where gradients are not to be sent.

    Raises:
        NodeFailed: one of the nodes asked for failed.
        HvpNotSupported: an op on the way has no second-order rule.
    """

    def sound(each: int) -> Node:
        node = node_of(each)
        if node.error is not None:
            raise NodeFailed(each, node.error)
        return node

    def array(given: NodeOrArray) -> Any:
        return sound(given).value if isinstance(given, int) else engine.array(given)

    found = [engine.host(sound(each).value) for each in values]
    if question is None:
        return Asked(found)

    def along(given: Sequence[Direction]) -> list[dict[Node, Any]]:
        return [{sound(leaf): array(tangent) for leaf, tangent in each} for each in given]

    asked = sound(asked_node(question))
    value = None
    if keep is None or asked.aval.size == 1:
        value = engine.host(asked.value)
    if isinstance(question, PushforwardQuestion):
        pushed = tape.pushforward(asked, along(question.directions))
        return Asked(found, value, tangents=[engine.host(each) for each in pushed])
    wrt = None if question.wrt is None else [sound(each) for each in question.wrt]
    pairs: list[tuple[dict[Node, Any], dict[Node, Any]]]
    if isinstance(question, PullbackQuestion):
        cotangents = [array(each) for each in question.cotangents]
        if keep is not None and keep.before is not None:
            return Asked(found, value, keep.before)
        pairs = [(each, {}) for each in tape.pullback(asked, cotangents, wrt)]
    else:
        directions = along(question.directions)
        if keep is not None and keep.before is not None:
            return Asked(found, value, keep.before)
        pairs = tape.hvp(asked, directions, wrt, [sound(each) for each in question.linear])
    if keep is not None:
        return Asked(found, value, [keep.set(*pair) for pair in pairs])
    return Asked(found, value, [_set(engine, *pair) for pair in pairs])


def _set(engine: Engine, gradients: dict[Node, Any], products: dict[Node, Any]) -> GradientSet:
    host = engine.host
    return GradientSet(
        [node.id for node in gradients],
        [host(each) for each in gradients.values()],
        [host(products[node]) for node in gradients if products],
    )
