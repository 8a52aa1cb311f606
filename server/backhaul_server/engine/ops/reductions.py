"""Rules of ops that reduce over axes: sums, products, the greatest and the least, truth."""

from __future__ import annotations

from typing import Any

from backhaul_proto.catalog.shapes import canonical_axes
from backhaul_server.engine.ops.reducing import Axes, OneOperand, Reduction, kept, shared
from backhaul_server.engine.rules import Array, Linear, Namespace, NotDifferentiable, rule


@rule("sum")
class Sum(Linear):
    """y sums x over axes; the adjoint repeats."""

    function = "sum"

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: Any = None, keepdims: bool = False
    ) -> Any:
        axes = canonical_axes(axis, len(x.shape))
        return (lambda: F.broadcast_to(kept(F, ct, x, axes), shape=x.shape),)


@rule("prod")
class Prod(Reduction):
    """y multiplies x over axes, so dy = sum of (product of the others) dx."""

    function = "prod"
    takes = (0, 6, 13)

    def jvp(
        self, F: Namespace, y: Array, x: Array, dx: Array, axis: Axes, keepdims: bool = False
    ) -> Array:
        return F.sum(F.multiply(dx, _others(F, x, axis)), axis=axis, keepdims=keepdims)

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: Axes, keepdims: bool = False
    ) -> Any:
        return (lambda: F.multiply(kept(F, ct, x, axis), F.conj(_others(F, x, axis))),)


def _others(F: Namespace, x: Array, axis: Axes) -> Array:
    """For each element the product of all others over the axes: without division, so that 0 may be one.

    Along one axis it is what stands before times what stands after; the next axis then sees products
    along the first as its elements.
    """
    others = F.xp.ones(x.shape, dtype=x.dtype)
    for each in axis:
        before = F.cumulative_prod(x, axis=each)
        after = F.cumulative_prod(x, axis=each, reverse=True)
        beside = F.multiply(
            F.shift_along_axis(before, axis=each, fill=1.0),
            F.shift_along_axis(after, axis=each, fill=1.0, reverse=True),
        )
        others = beside if each == axis[0] else F.multiply(others, beside)
        if each != axis[-1]:
            x = F.prod(x, axis=(each,), keepdims=True)
    return others


class _Extremum(Reduction):
    """Base of the greatest or least element. Equals share evenly, and so do NaNs; no curvature."""

    takes = (0, 2, 3)

    def jvp(
        self, F: Namespace, y: Array, x: Array, dx: Array, axis: Axes, keepdims: bool = False
    ) -> Array:
        chosen, count = shared(F, x, kept(F, y, x, axis), axis)
        moved = F.sum(F.where(chosen, dx, 0.0), axis=axis, keepdims=keepdims)
        return F.divide(moved, F.reshape(count, shape=y.shape))

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: Axes, keepdims: bool = False
    ) -> Any:
        def of_x() -> Array:
            chosen, count = shared(F, x, kept(F, y, x, axis), axis)
            return F.where(chosen, F.divide(kept(F, ct, x, axis), count), 0.0)

        return (of_x,)


@rule("max")
class Max(_Extremum):
    """y is the greatest element, NaN where there is one."""

    function = "max"


@rule("min")
class Min(_Extremum):
    """y is the least element, NaN where there is one."""

    function = "min"


@rule("all")
class All(NotDifferentiable):
    """y: no element is 0."""

    function = "all"


@rule("any")
class Exists(NotDifferentiable):
    """y: some element is not 0."""

    function = "any"


@rule("count_nonzero")
class CountNonzero(Reduction, NotDifferentiable):
    """y is the number of elements that are not 0."""

    takes = (1, 0, 0)

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        return xp.sum(xp.astype(x != 0, xp.int8), axis=axis, keepdims=keepdims)


@rule("argmax")
class ArgMax(OneOperand, NotDifferentiable):
    """y is where the greatest element stands."""

    function = "argmax"
    takes = (1, 0, 0)


@rule("argmin")
class ArgMin(OneOperand, NotDifferentiable):
    """y is where the least element stands."""

    function = "argmin"
    takes = (1, 0, 0)
