"""Rules of sums of exponentials along axes."""

from __future__ import annotations

import math
from typing import Any

from backhaul_server.engine.ops.reducing import (
    AlongAxis,
    Axes,
    Reduction,
    kept,
    kept_shape,
    size_over,
)
from backhaul_server.engine.rules import Array, Namespace, rule


@rule("logsumexp")
class LogSumExp(Reduction):
    """y = log(sum e**x), so dy = sum softmax(x) dx. Computed from x less its greatest element."""

    takes = (2, 3, 6)

    def forward(self, xp: Any, x: Array, axis: Axes, keepdims: bool = False) -> Array:
        shape = kept_shape(x.shape, axis)
        if not size_over(x.shape, axis):
            y = xp.full(shape, -math.inf, dtype=x.dtype)
        else:
            top = xp.max(xp.real(x), axis=axis, keepdims=True)
            top = xp.where(xp.isinf(top), 0.0, top)
            total = xp.sum(xp.exp(xp.subtract(x, top)), axis=axis, keepdims=True)
            none = total == 0
            y = xp.where(none, -math.inf, xp.add(xp.log(xp.where(none, 1.0, total)), top))
        if keepdims:
            return y
        return xp.reshape(y, tuple(n for i, n in enumerate(x.shape) if i not in axis))

    def jvp(
        self, F: Namespace, y: Array, x: Array, dx: Array, axis: Axes, keepdims: bool = False
    ) -> Array:
        return F.sum(F.multiply(_shares(F, y, x, axis), dx), axis=axis, keepdims=keepdims)

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: Axes, keepdims: bool = False
    ) -> Any:
        return (lambda: F.multiply(kept(F, ct, x, axis), F.conj(_shares(F, y, x, axis))),)


def _shares(F: Namespace, y: Array, x: Array, axis: Axes) -> Array:
    """The softmax of x, which keeps digits that y has lost by rounding.

    Where y is infinite it is the limit of that: even among elements that are infinite too. Where y is
    -inf, so that all of them are, it is 0: as in log(sum 0 e**x).
    """
    infinite = F.isinf(kept(F, y, x, axis))
    shares = F.softmax(x, axis=axis)
    if not F.xp.any(infinite):
        return shares
    top = F.equal(x, math.inf)
    count = F.xp.sum(F.xp.astype(top, x.dtype), axis=axis, keepdims=True)
    return F.where(infinite, F.where(top, F.divide(1.0, F.maximum(count, 1.0)), 0.0), shares)


@rule("softmax")
class Softmax(Reduction):
    """y = e**x / sum e**x, so dy = y (dx - sum y dx)."""

    takes = (1, 2, 6)

    def forward(self, xp: Any, x: Array, axis: Axes) -> Array:
        if not x.size:
            return x
        top = xp.max(xp.real(x), axis=axis, keepdims=True)
        shifted = xp.exp(xp.subtract(x, top))
        return xp.divide(shifted, xp.sum(shifted, axis=axis, keepdims=True))

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, axis: Axes) -> Array:
        return _less_the_mean(F, y, dx, axis)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, axis: Axes) -> Any:
        return (lambda: _less_the_mean(F, F.conj(y), ct, axis),)


def _less_the_mean(F: Namespace, shares: Array, d: Array, axis: Axes) -> Array:
    """The shares times d less its mean under them: a symmetric map."""
    mean = F.sum(F.multiply(shares, d), axis=axis, keepdims=True)
    return F.multiply(shares, F.subtract(d, mean))


@rule("log_softmax")
class LogSoftmax(Reduction):
    """y = x - log(sum e**x), so dy = dx - sum e**y dx."""

    takes = (1, 2, 6)

    def forward(self, xp: Any, x: Array, axis: Axes) -> Array:
        if not x.size:
            return x
        shifted = xp.subtract(x, xp.max(xp.real(x), axis=axis, keepdims=True))
        total = xp.sum(xp.exp(shifted), axis=axis, keepdims=True)
        return xp.subtract(shifted, xp.log(total))

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, axis: Axes) -> Array:
        mean = F.sum(F.multiply(F.exp(y), dx), axis=axis, keepdims=True)
        return F.subtract(dx, mean)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, axis: Axes) -> Any:
        def of_x() -> Array:
            total = F.sum(ct, axis=axis, keepdims=True)
            return F.subtract(ct, F.multiply(F.conj(F.exp(y)), total))

        return (of_x,)


@rule("cumulative_logsumexp")
class CumulativeLogSumExp(AlongAxis):
    """y[i] = log(e**y[i - 1] + e**x[i]), so dy[i] = a[i] dy[i - 1] + b[i] dx[i] with a + b = 1."""

    function = "cumulative_logsumexp"
    takes = (0, 5, 12)

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, axis: int) -> Array:
        a, b = self._parts(F, y, x, axis)
        return F.linear_recurrence(a, F.multiply(b, dx), axis=axis)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, axis: int) -> Any:
        def of_x() -> Array:
            a, b = self._parts(F, y, x, axis)
            following = F.shift_along_axis(a, axis=axis, reverse=True)
            return F.multiply(b, F.linear_recurrence(following, ct, axis=axis, reverse=True))

        return (of_x,)

    def _parts(self, F: Namespace, y: Array, x: Array, axis: int) -> tuple[Array, Array]:
        """The shares of what came before and of the element itself; where y is infinite, as `_shares`."""
        gap = F.subtract(F.shift_along_axis(y, axis=axis, fill=-math.inf), x)
        a, b = F.sigmoid(gap), F.sigmoid(F.negative(gap))
        infinite = F.isinf(y)
        if not F.xp.any(infinite):
            return a, b
        top = F.xp.astype(F.equal(x, math.inf), x.dtype)
        count = F.cumulative_sum(top, axis=axis)
        own = F.divide(top, F.maximum(count, 1.0))
        rest = F.where(F.equal(count, 0), 0.0, F.subtract(1.0, own))
        return F.where(infinite, rest, a), F.where(infinite, own, b)
