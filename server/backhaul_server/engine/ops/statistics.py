"""Rules of ops that describe elements over axes: mean, variance, quantiles."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.memory import Need
from backhaul_server.engine.ops.reducing import Axes, Reduction, kept, kept_shape, shared, size_over
from backhaul_server.engine.rules import Array, Linear, Namespace, Rule, plus, rule


@rule("mean")
class Mean(Reduction, Linear):
    """y is the mean of x over axes; the adjoint repeats, divided by their number."""

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        total, count = xp.sum(x, axis=axis, keepdims=keepdims), size_over(x.shape, axis)
        return total / count if count else total * math.nan

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: Axes, keepdims: bool = False
    ) -> Any:
        def of_x() -> Array:
            share = F.divide(kept(F, ct, x, axis), size_over(x.shape, axis) or 1)
            return F.broadcast_to(share, shape=x.shape)

        return (of_x,)


@rule("centred")
class Centred(Linear):
    """y = x - mean(x): a projection, its own adjoint."""

    def forward(self, xp: Any, x: Array, axis: Axes) -> Array:
        return _centred(xp, x, axis)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, axis: Axes) -> Any:
        return (lambda: F.centred(ct, axis=axis),)


def _centred(xp: Any, x: Array, axis: Axes) -> Array:
    """A new array of the elements less their mean.

    They are taken less the first of them before: so equal ones give exactly 0 however many they are, and
    those far from 0 keep the digits in which they differ.
    """
    first = tuple(slice(0, 1) if i in axis else slice(None) for i in range(len(x.shape)))
    y = x - x[first]
    y -= xp.sum(y, axis=axis, keepdims=True) / (size_over(x.shape, axis) or 1)
    return y


@rule("var")
class Var(Reduction):
    """y = sum |c|**2 / d with c = x - mean(x), so dy = 2 sum Re(conj(c) dx) / d: the mean's part is 0."""

    takes = (1, 2, 6)

    def forward(
        self, xp: Any, x: Array, axis: Axes, correction: float = 0.0, keepdims: bool = False
    ) -> Array:
        c = _centred(xp, x, axis)
        c *= xp.conj(c)
        total = xp.sum(xp.real(c), axis=axis, keepdims=keepdims)
        divisor = size_over(x.shape, axis) - correction
        if divisor > 0:
            return total / divisor
        return xp.where(total > 0, total + math.inf, total * math.nan)  # as NumPy's

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        dx: Array,
        axis: Axes,
        correction: float = 0.0,
        keepdims: bool = False,
    ) -> Array:
        slope = self._slope(F, y, x, axis, correction)
        return F.sum(F.real(F.multiply(F.conj(slope), dx)), axis=axis, keepdims=keepdims)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        x: Array,
        axis: Axes,
        correction: float = 0.0,
        keepdims: bool = False,
    ) -> Any:
        return (lambda: F.multiply(kept(F, ct, x, axis), self._slope(F, y, x, axis, correction)),)

    def _slope(self, F: Namespace, y: Array, x: Array, axis: Axes, correction: float) -> Array:
        return F.multiply(F.centred(x, axis=axis), 2.0 * _reciprocal(x, axis, correction))


@rule("std")
class Std(Var):
    """y = sqrt(var), so dy = sum Re(conj(c) dx) / (d y), and 0 where y is."""

    takes = (1, 3, 6)

    def forward(
        self, xp: Any, x: Array, axis: Axes, correction: float = 0.0, keepdims: bool = False
    ) -> Array:
        return xp.sqrt(super().forward(xp, x, axis, correction, keepdims))

    def _slope(self, F: Namespace, y: Array, x: Array, axis: Axes, correction: float) -> Array:
        y = kept(F, y, x, axis)
        zero = F.equal(y, 0)
        direction = F.divide(F.centred(x, axis=axis), F.where(zero, 1.0, y))
        return F.where(zero, 0.0, F.multiply(direction, _reciprocal(x, axis, correction)))


def _reciprocal(x: Array, axis: Axes, correction: float) -> float:
    """1 / d, what the sum of squares is divided by."""
    divisor = size_over(x.shape, axis) - correction
    return 1 / divisor if divisor > 0 else math.nan


@rule("quantile")
class Quantile(Reduction):
    """y = (1 - t) low + t high, of the two elements that share q of all lies between.

    Elements equal to one of the two share its derivative evenly. The two are kept.
    """

    keeps = True
    takes = (2, 3, 6)

    def forward(
        self, xp: Any, x: Array, q: float, axis: Axes, keepdims: bool = False
    ) -> tuple[Array, tuple[Array, Array]]:
        shape = kept_shape(x.shape, axis)
        rest = tuple(i for i in range(x.ndim) if i not in axis)
        count = size_over(x.shape, axis)
        if not x.size:  # then so is the result: there is nothing to choose
            low = high = y = xp.zeros(shape, dtype=x.dtype)
        else:
            ranked = xp.sort(xp.reshape(xp.permute_dims(x, (*rest, *axis)), (-1, count)), axis=-1)
            rank, t = _rank(q, count)
            is_nan, last = xp.isnan(ranked[:, -1]), ranked[:, -1]  # NaN is sorted last
            low = xp.where(is_nan, last, ranked[:, rank])
            high = xp.where(is_nan, last, ranked[:, rank + (t > 0)])
            y = low * (1 - t) + high * t if t else low
            low, high = (xp.reshape(each, shape) for each in (low, high))
        final = shape if keepdims else tuple(x.shape[i] for i in rest)
        return xp.reshape(y, final), (low, high)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        dx: Array,
        q: float,
        axis: Axes,
        keepdims: bool = False,
        *,
        residual: tuple[Array, Array],
    ) -> tuple[Array, tuple[Array, Array]]:
        def moved(value: Array, weight: float) -> Array:
            chosen, count = shared(F, x, value, axis)
            total = F.sum(F.where(chosen, dx, 0.0), axis=axis, keepdims=True)
            return F.divide(F.multiply(total, weight), count)

        dy = plus(F, *(moved(*each) for each in self._weighted(x, q, axis, residual)))
        return F.reshape(dy, shape=y.shape), residual

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        x: Array,
        q: float,
        axis: Axes,
        keepdims: bool = False,
        *,
        residual: tuple[Array, Array],
    ) -> Any:
        def sent(value: Array, weight: float) -> Array:
            chosen, count = shared(F, x, value, axis)
            share = F.divide(F.multiply(kept(F, ct, x, axis), weight), count)
            return F.where(chosen, share, 0.0)

        return (lambda: plus(F, *(sent(*each) for each in self._weighted(x, q, axis, residual))),)

    def need(self, operands: tuple[Aval, ...], results: tuple[Aval, ...], **keywords: Any) -> Need:
        return replace(super().need(operands, results), kept=2 * results[0].nbytes)

    def _weighted(
        self, x: Array, q: float, axis: Axes, residual: tuple[Array, Array]
    ) -> list[tuple[Array, float]]:
        """The elements that y is made of, with their weights."""
        low, high = residual
        _, t = _rank(q, size_over(x.shape, axis))
        return [(low, 1 - t), (high, t)] if t else [(low, 1.0)]


def _rank(q: float, count: int) -> tuple[int, float]:
    """How many elements stand before the lower of the two, and how far on the way to the next y is."""
    place = q * max(count - 1, 0)
    return int(place), place % 1.0


@rule("median")
class Median(Quantile):
    """y is the quantile in the middle."""

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        return super().prepare(avals, {"q": 0.5, **attributes})
