"""The tape: nodes, how they come to be, and the questions that may be asked of them.

It is append-only, and the passes over it (`passes`) change nothing. A node holds the nodes it was made
from, so what no live node needs is freed by reference counting alone.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.errors import AutodiffError
from backhaul_server.engine import passes
from backhaul_server.engine.checks import (
    check_directions,
    check_leaf,
    check_loss,
    check_requires_grad,
)
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.node import Node, describe
from backhaul_server.engine.rules import Array

Gradients = dict[Node, Array]


class Tape:
    """A reverse-mode tape on an engine. Not thread-safe: one thread owns it.

    >>> import numpy as np
    >>> tape = Tape(Engine())
    >>> x = tape.leaf(np.array([1.0, 2.0]))
    >>> loss = tape.apply("sum", [tape.apply("multiply", [x, x])])
    >>> tape.pullback(loss)[0][x]
    array([2., 4.])
    """

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self._serial = 0
        self._has_failed = False
        self.has_tangent = False

    # Recording

    def leaf(self, value: Array, tangent: Array | None = None) -> Node:
        """A node that gradients are taken for, with its tangent where hvp is to have one.

        Raises:
            InvalidArgument: DTYPE_NOT_SUPPORTED, TANGENT_DTYPE_MISMATCH.
            TangentShapeMismatch: the tangent has another shape.
        """
        kind = self.engine.aval(value)
        check_leaf(kind, None if tangent is None else self.engine.aval(tangent))
        node = self._node(value, kind, requires_grad=True)
        if tangent is not None:
            node.tangent = tangent
            self.has_tangent = True
        return node

    def leaf_of(self, value: Node, tangent: Node | None = None) -> Node:
        """A leaf with the value of a node, and the value of another as its tangent.

        It shares their arrays and keeps nothing else of them. A failed node makes a failed leaf.

        Raises:
            InvalidArgument, TangentShapeMismatch: as `leaf`.
        """
        error = value.error if tangent is None else value.error or tangent.error
        if error is None:
            return self.leaf(value.value, None if tangent is None else tangent.value)
        node = self._node(None, value.aval, requires_grad=True)
        node.error = error
        return node

    def constant(self, value: Array) -> Node:
        """A node that no gradient is taken for."""
        return self._node(value, self.engine.aval(value))

    def apply(self, name: str, operands: Sequence[Node], **attributes: Any) -> Any:
        """Run an op of the catalog: its result's node, or a tuple of them for several results.

        Raises:
            InvalidArgument: an unknown op, or operands or attributes that cannot be right. An op that
                fails on its data does not raise: its node carries the error (`Node.error`).
        """
        call = self.engine.prepare(name, attributes, tuple(node.aval for node in operands))
        nodes = self.run(call, operands)
        return nodes[0] if len(call.results) == 1 else nodes

    def run(self, call: PreparedCall, operands: Sequence[Node]) -> tuple[Node, ...]:
        """Run a prepared call. A failed operand, or an error on the data, makes failed nodes."""
        if self._has_failed:
            for node in operands:
                if node.error is not None:
                    return self._failed(call, operands, node.error)
        values, needs = [], []
        for node in operands:
            values.append(node.value)
            needs.append(node.requires_grad)
        if call.casts:
            values = self._cast(call, values)
        residual = None
        try:
            if call.keeps:
                result, residual = call.forward(*values, needs=needs)
            else:
                result = call.forward(*values)
        except AutodiffError as error:
            error.details.setdefault("op", call.name)
            return self._failed(call, operands, error)
        if not call.flows or True not in needs:
            if not call.several:
                return (self._node(result, call.results[0]),)
            pairs = zip(result, call.results, strict=True)
            return tuple([self._node(value, kind) for value, kind in pairs])
        self._serial = serial = self._serial + 1
        node = Node(
            call, tuple(operands), result, call.results[0], True, serial, values, needs, residual
        )
        return self._several(node, call) if call.several else (node,)

    # Questions

    def pullback(
        self,
        loss: Node,
        cotangents: Sequence[Array] = (),
        wrt: Sequence[Node] | None = None,
    ) -> list[Gradients]:
        """Gradients: one set a cotangent, or one for the cotangent 1 when none is given.

        Args:
            loss: a node that requires a gradient; of one element and real when no cotangent is given.
            cotangents: of the loss's shape and dtype; answered are gradients of Re sum(conj(ct) loss).
            wrt: the nodes wanted, zeros where the loss does not reach one; all reached leaves for None.

        Raises:
            MissingNode, NonScalarLoss, InvalidArgument (COMPLEX_LOSS, COTANGENT_MISMATCH).
        """
        self._check_loss(loss, cotangents)
        return passes.pullback(self.engine, loss, cotangents, wrt)

    def hvp(
        self,
        loss: Node,
        directions: Sequence[Mapping[Node, Array]] = (),
        wrt: Sequence[Node] | None = None,
        linear: Sequence[Node] = (),
    ) -> list[tuple[Gradients, Gradients]]:
        """(gradients, H·v) pairs: one a direction, or one along the leaves' own tangents.

        Args:
            loss: a real node of one element that requires a gradient.
            directions: leaves and their tangents; leaves left out have a zero tangent.
            wrt: as in `pullback`.
            linear: nodes that are taken as linear functions of what they were computed from, so that
                H·v is the Gauss-Newton product.

        Raises:
            MissingNode, NonScalarLoss, TangentShapeMismatch, HvpNotSupported, InvalidArgument
            (COMPLEX_LOSS, TANGENT_DTYPE_MISMATCH, HVP_WITHOUT_TANGENT, INVALID_VALUE).
        """
        self._check_loss(loss, ())
        self._check_directions(directions)
        for each in linear:
            if each.error is not None:
                raise each.error
            check_requires_grad("node of linear", describe(each))
        return passes.hvp(self.engine, loss, directions, wrt, linear)

    def pushforward(
        self, output: Node, directions: Sequence[Mapping[Node, Array]] = ()
    ) -> list[Array]:
        """The output's tangents, J·v: one a direction, or one along the leaves' own tangents.

        Args:
            output: a node that requires a gradient, of any shape and dtype.
            directions: as in `hvp`.

        Raises:
            MissingNode, TangentShapeMismatch, HvpNotSupported, InvalidArgument (TANGENT_DTYPE_MISMATCH,
            HVP_WITHOUT_TANGENT, INVALID_VALUE).
        """
        if output.error is not None:
            raise output.error
        check_requires_grad("output", describe(output))
        self._check_directions(directions)
        return passes.pushforward(self.engine, output, directions)

    def _check_directions(self, directions: Sequence[Mapping[Node, Array]]) -> None:
        described = [
            [(describe(leaf), self.engine.aval(t)) for leaf, t in direction.items()]
            for direction in directions
        ]
        check_directions(described, self.has_tangent)

    def _check_loss(self, loss: Node, cotangents: Sequence[Array]) -> None:
        if loss.error is not None:
            raise loss.error
        check_loss(describe(loss), [self.engine.aval(ct) for ct in cotangents])

    # Making nodes

    def _node(self, value: Array, kind: Aval, requires_grad: bool = False) -> Node:
        self._serial += 1
        return Node(None, (), value, kind, requires_grad, self._serial)

    def _several(self, whole: Node, call: PreparedCall) -> tuple[Node, ...]:
        """A node for each result; they point to the node of all, which is never handed out."""
        nodes = []
        for i, (value, kind) in enumerate(zip(whole.value, call.results, strict=True)):
            node = self._node(value, kind, call.differentiable[i])
            if node.requires_grad:
                node.inputs = (whole,)
                node.output = i
            nodes.append(node)
        return tuple(nodes)

    def _failed(
        self, call: PreparedCall, operands: Sequence[Node], error: AutodiffError
    ) -> tuple[Node, ...]:
        self._has_failed = True
        requires_grad = any(node.requires_grad for node in operands)
        nodes = tuple(
            self._node(None, kind, requires_grad and flows)
            for kind, flows in zip(call.results, call.differentiable, strict=True)
        )
        for node in nodes:
            node.error = error
        return nodes

    def _cast(self, call: PreparedCall, values: Sequence[Array]) -> list[Array]:
        """Operands of integer and bool dtype in the dtype that is computed in."""
        return [
            value if dtype is None else self.engine.cast(value, dtype)
            for value, dtype in zip(values, call.casts, strict=True)
        ]
