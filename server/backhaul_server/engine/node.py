"""A node of the tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import AutodiffError
from backhaul_server.engine.checks import Described
from backhaul_server.engine.engine import PreparedCall
from backhaul_server.engine.rules import Array


class Node:
    """A value on the tape, and how it came to be.

    Attributes:
        call: what computed it; None for leaves, constants, and results that need no gradient.
        inputs: the nodes it was computed from; kept only where a gradient flows to one of them.
        operands: their values, as the rule got them.
        needs: for each input, whether it requires a gradient.
        value: the array; for the node of an op with several results, their tuple.
        aval: its shape and dtype.
        requires_grad: whether a leaf is reached from it.
        serial: its place in the tape's order; inputs have smaller ones.
        residual: what the rule's forward kept for its derivatives.
        output: for one of several results, which; its only input is the node of them all.
        tangent: a leaf's own direction.
        error: why there is no value.
        id: the session's name for it.
    """

    __slots__ = (
        "aval",
        "call",
        "error",
        "id",
        "inputs",
        "needs",
        "operands",
        "output",
        "requires_grad",
        "residual",
        "serial",
        "tangent",
        "value",
    )

    def __init__(
        self,
        call: PreparedCall | None,
        inputs: tuple[Node, ...],
        value: Array,
        aval: Aval,
        requires_grad: bool,
        serial: int,
        operands: Sequence[Array] = (),
        needs: Sequence[bool] = (),
        residual: Any = None,
    ) -> None:
        self.call = call
        self.inputs = inputs
        self.value = value
        self.aval = aval
        self.requires_grad = requires_grad
        self.serial = serial
        self.operands = operands
        self.needs = needs
        self.residual = residual
        self.output: int | None = None
        self.tangent: Array | None = None
        self.error: AutodiffError | None = None
        self.id = 0

    def __repr__(self) -> str:
        return f"<node {self.id}: {self.aval}>"


def describe(node: Node) -> Described:
    """What is known of a node without its value."""
    name = f"node {node.id}" if node.id else "a node of this tape"
    is_leaf = node.requires_grad and not node.inputs and node.error is None
    return Described(name, node.aval, node.requires_grad, is_leaf)
