"""What the rules of ops along axes share."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from backhaul_proto.catalog.avals import Aval, Shape
from backhaul_proto.catalog.shapes import canonical_axes, canonical_axis, reduced_shape
from backhaul_server.engine.memory import Need
from backhaul_server.engine.rules import Array, Namespace, Rule

Axes = tuple[int, ...]


class OneOperand(Rule):
    """Base of both kinds of rules below: what they take is told by how many arrays of x's size there are."""

    takes: tuple[int, int, int] = (0, 1, 2)
    """Arrays of the size of x at the peak: beside the value, for its gradient, for H·v. As measured."""

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        x, made = operands[0].nbytes, sum(each.nbytes for each in results)
        value, gradient, hvp = (count * x for count in self.takes)
        return Need(value=value + made, kept=0, gradient=gradient + made, hvp=hvp + 3 * made)


class Reduction(OneOperand):
    """Base of rules that reduce over axes. They are handed all of the axes, counted from the front."""

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        return self, {
            **attributes,
            "axis": canonical_axes(attributes.get("axis"), avals[0].ndim),
        }


class AlongAxis(OneOperand):
    """Base of rules that run along one axis. They are handed it counted from the front."""

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        axis = canonical_axis(attributes.get("axis", -1), avals[0].ndim)
        return self, {**attributes, "axis": axis}


def kept_shape(shape: Shape, axis: Axes) -> Shape:
    """The shape after a reduction in which the axes stay, with size 1."""
    return reduced_shape(shape, axis, True)


def kept(F: Namespace, y: Array, x: Array, axis: Axes) -> Array:
    """A result of a reduction of x, or its cotangent, so that it broadcasts against x."""
    return F.reshape(y, shape=kept_shape(x.shape, axis))


def size_over(shape: Shape, axis: Axes) -> int:
    """How many elements one result is made of."""
    return math.prod(shape[i] for i in axis)


def shared(F: Namespace, x: Array, value: Array, axis: Axes) -> tuple[Array, Array]:
    """Where x is the value that was chosen over the axes, and by how many elements that is so.

    A NaN is chosen by all the NaNs there are. Neither result has a tangent.
    """
    chosen = F.logical_or(F.equal(x, value), F.isnan(x))
    count = F.xp.sum(F.xp.astype(chosen, F.xp.int8), axis=axis, keepdims=True)
    return chosen, F.xp.astype(count, x.dtype)
