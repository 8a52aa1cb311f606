"""Elements that a loss does not reach, told from those whose cotangent is zero.

Where ``where(x > 0, sqrt(x), 0)`` does not take the root, the root's cotangent is zero and its derivative
may be infinite. Their product is NaN, though the loss does not depend on that element: its gradient is 0.
A cotangent that is zero does not say as much: in ``sqrt(x)**2`` at 0 it is zero too, and the derivative
is 1. So beside the cotangents go masks of what no path from the loss reaches, from the ops that choose.

Masks are for the pass that is made again when a gradient has NaN: others do not pay for them.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any, Final

from backhaul_proto.catalog.avals import Shape
from backhaul_proto.catalog.ops import CATALOG
from backhaul_proto.catalog.pointwise import is_pointwise
from backhaul_proto.catalog.shapes import canonical_axes, reduced_shape
from backhaul_server.engine.dual import tangent_of, value_of
from backhaul_server.engine.node import Node
from backhaul_server.engine.rules import Array, Namespace
from backhaul_server.engine.scattered import Scattered

_CHOOSING: Final = frozenset(
    ["where", "clip", "relu", "maximum", "minimum", "fmax", "fmin", "max", "min", "getitem"],
)
"""Ops whose cotangents are chosen: what they leave out, the loss does not reach."""

_MOVING: Final = frozenset(
    [
        "broadcast_to",
        "concat",
        "diagonal",
        "expand_dims",
        "flip",
        "linalg.diagonal",
        "matrix_transpose",
        "mean",
        "moveaxis",
        "pad",
        "permute_dims",
        "ravel",
        "repeat",
        "reshape",
        "roll",
        "squeeze",
        "stack",
        "sum",
        "swapaxes",
        "tile",
        "tril",
        "triu",
    ]
)
"""Ops whose cotangents are moved and summed, times positive numbers at most."""


def may_leave_out(order: Iterable[Node]) -> bool:
    """Whether an op of these chooses, so that the loss may not reach all elements."""
    return any(node.call is not None and node.call.name in _CHOOSING for node in order)


def has_nan(xp: Any, found: Iterable[Any]) -> bool:
    """Whether an array, or the value or tangent of a dual, has NaN."""
    return any(
        part is not None and bool(xp.any(xp.isnan(part)))
        for each in found
        for part in (value_of(each), tangent_of(each))
    )


class Unreached:
    """The masks of one reverse pass.

    Args:
        plain: the ops on plain arrays.
    """

    def __init__(self, plain: Namespace) -> None:
        self._plain = plain
        self._masks: dict[Node, Array | None] = {}

    def kept_out(self, F: Namespace, node: Node, sent: Sequence[Any]) -> list[Any]:
        """The cotangents that a node sends, 0 for what the loss does not reach through it."""
        mask = self._masks.pop(node, None)
        kept: list[Any] = []
        for g, each, inner in zip(
            sent, node.inputs, self._of_inputs(node, mask, sent), strict=True
        ):
            if g is None:
                kept.append(g)
                continue
            at = None
            if inner is not None and type(g) is not Scattered:
                at = next((m for m in (inner, mask) if m is not None and m.shape == g.shape), None)
            kept.append(g if at is None else F.where(at, 0.0, g))
            self._arrived(each, inner)
        return kept

    def passed(self, node: Node) -> None:
        """One of several results gives its cotangent to the node of them all: nothing is told of that."""
        self._masks.pop(node, None)
        self._arrived(node.inputs[0], None)

    def _arrived(self, node: Node, mask: Array | None) -> None:
        if node in self._masks:
            before = self._masks[node]
            mask = None if before is None or mask is None else before & mask
        self._masks[node] = mask

    def _of_inputs(
        self, node: Node, mask: Array | None, sent: Sequence[Any]
    ) -> Sequence[Array | None]:
        """For each input, which of its elements are not reached; None: all are, or who knows."""
        call, y = node.call, node.value
        assert call is not None
        none: list[Array | None] = [None] * len(sent)
        if type(y) is tuple:
            return none
        xp = self._plain.xp
        if call.name in _CHOOSING or (mask is not None and call.name in _MOVING):
            ones = xp.ones(y.shape, dtype=y.dtype)
            reached = ones if mask is None else xp.where(mask, xp.zeros_like(ones), ones)
            needs = [g is not None for g in sent]
            kept = {"residual": node.residual} if call.keeps else {}
            found = call.cotangents(self._plain, reached, y, node.operands, needs, **kept)
            return [
                None if g is None else self._is_zero(g, x.aval.shape)
                for g, x in zip(found, node.inputs, strict=True)
            ]
        if mask is None:
            return none
        if is_pointwise(CATALOG[call.name]):
            reached = xp.astype(~mask, xp.float64)
            return [
                None if g is None else self._is_zero(reached, x.aval.shape)
                for g, x in zip(sent, node.inputs, strict=True)
            ]
        axis = getattr(call.cotangents, "keywords", {}).get("axis")
        if axis is not None and len(sent) == 1:
            return [self._along_lanes(mask, node.inputs[0].aval.shape, axis)]
        return none

    def _along_lanes(self, mask: Array, shape: Shape, axis: int | tuple[int, ...]) -> Array | None:
        """The elements whose whole lane along the axes, or its one result, is not reached."""
        xp, axes = self._plain.xp, canonical_axes(axis, len(shape))
        lanes = reduced_shape(shape, axes, True)
        if mask.shape == shape:
            mask = xp.all(mask, axis=axes, keepdims=True)
        elif mask.size != math.prod(lanes):
            return None  # no op of lanes
        return xp.broadcast_to(xp.reshape(mask, lanes), shape)

    def _is_zero(self, g: Any, shape: Shape) -> Array:
        if type(g) is Scattered:
            g = g.added_to(self._plain.xp, None, owned=False)
        if g.shape != shape:
            g = self._plain.unbroadcast(g, shape=shape)
        return g == 0
