"""Rules of the norms of vectors, one class for each kind of order.

A norm is real, and tells all by its gradient g: dy = sum Re(conj(g) dx).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, Final

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.ops.reducing import Axes, Reduction, kept, shared, size_over
from backhaul_server.engine.rules import Array, Namespace, Rule, Steps, rule


class _Norm(Reduction):
    """Base of norms with a gradient."""

    takes = (1, 3, 6)

    def gradient(self, F: Namespace, y: Array, x: Array, axis: Axes, **order: float) -> Array:
        """g; y broadcasts against x."""
        raise NotImplementedError

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        dx: Array,
        axis: Axes,
        keepdims: bool = False,
        **order: float,
    ) -> Array:
        g = self.gradient(F, kept(F, y, x, axis), x, axis, **order)
        return F.sum(F.real(F.multiply(F.conj(g), dx)), axis=axis, keepdims=keepdims)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        x: Array,
        axis: Axes,
        keepdims: bool = False,
        **order: float,
    ) -> Any:
        def of_x() -> Array:
            g = self.gradient(F, kept(F, y, x, axis), x, axis, **order)
            return F.multiply(kept(F, ct, x, axis), g)

        return (of_x,)


@rule("linalg.vector_norm")
class Euclidean(_Norm):
    """Order 2: y = sqrt(sum |x|**2), g = x / y, and 0 where y is. Hands other orders to their rules."""

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        _, keywords = super().prepare(avals, attributes)
        order = keywords.pop("ord", 2.0)
        if order in _OF_ORDER:
            return _OF_ORDER[order], keywords
        return _OF_ANY_ORDER, {**keywords, "order": order}

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        squares = xp.real(xp.multiply(x, xp.conj(x)))
        return xp.sqrt(xp.sum(squares, axis=axis, keepdims=keepdims))

    def gradient(self, F: Namespace, y: Array, x: Array, axis: Axes, **order: float) -> Array:
        zero = F.equal(y, 0)
        return F.where(zero, 0.0, F.divide(x, F.where(zero, 1.0, y)))


class _AbsoluteSum(_Norm):
    """Order 1: y = sum |x|, g is the sign of x."""

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        return xp.sum(xp.abs(x), axis=axis, keepdims=keepdims)

    def gradient(self, F: Namespace, y: Array, x: Array, axis: Axes, **order: float) -> Array:
        return F.sign(x)


class _Greatest(_Norm):
    """Order inf: y = max |x|, g is the sign of x where |x| is y, shared evenly."""

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        size = xp.abs(x)
        if not size_over(x.shape, axis):
            return xp.sum(size, axis=axis, keepdims=keepdims)  # the greatest of none is 0
        return xp.max(size, axis=axis, keepdims=keepdims)

    def gradient(self, F: Namespace, y: Array, x: Array, axis: Axes, **order: float) -> Array:
        chosen, count = shared(F, F.abs(x), y, axis)
        return F.where(chosen, F.divide(F.sign(x), count), 0.0)


class _Least(_Greatest):
    """Order -inf: y = min |x|, differentiated as the greatest."""

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        return xp.min(xp.abs(x), axis=axis, keepdims=keepdims)


class _NonZero(Reduction, Steps):
    """Order 0: y is how many elements are not 0."""

    takes = (3, 1, 2)

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        size = xp.abs(x)
        return xp.sum(xp.astype(size != 0, size.dtype), axis=axis, keepdims=keepdims)


class _Power(_Norm):
    """Any other order p: y = (sum |x|**p)**(1/p), g = (|x| / y)**(p - 1) sign(x), and 0 where x or y is."""

    takes = (4, 5, 9)

    def forward(
        self, xp: Any, x: Array, axis: Axes, keepdims: bool = False, *, order: float
    ) -> Array:
        size = xp.abs(x)
        if order < 0:  # 0**order is infinite
            zero = size == 0
            powers = xp.where(zero, math.inf, xp.pow(xp.where(zero, 1.0, size), order))
        else:
            powers = xp.pow(size, order)
        return xp.pow(xp.sum(powers, axis=axis, keepdims=keepdims), 1 / order)

    def gradient(self, F: Namespace, y: Array, x: Array, axis: Axes, **order: float) -> Array:
        zero = F.logical_or(F.equal(x, 0), F.equal(y, 0))
        ratio = F.divide(F.abs(F.where(zero, 1.0, x)), F.where(zero, 1.0, y))
        exponent = F.xp.asarray(order["order"] - 1, dtype=y.dtype)
        slope = F.multiply(F.pow(ratio, exponent), F.sign(x))
        return F.where(zero, 0.0, slope)


_OF_ORDER: Final[Mapping[float, Rule]] = {
    0.0: _NonZero(),
    1.0: _AbsoluteSum(),
    2.0: Euclidean(),
    math.inf: _Greatest(),
    -math.inf: _Least(),
}
_OF_ANY_ORDER: Final = _Power()
