"""Rules of ops that run along an axis: cumulative sums and products, differences."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_server.engine.ops.reducing import AlongAxis
from backhaul_server.engine.rules import Array, Linear, Namespace, Rule, plus, rule


class _Cumulative(AlongAxis):
    """Base of what accumulates along an axis, from its beginning or its end."""

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        return super().prepare(avals, {"axis": 0, **attributes})

    def forward(self, xp: Any, x: Array, axis: int, reverse: bool = False) -> Array:
        accumulate = getattr(xp, self.name)
        if reverse:
            return xp.flip(accumulate(xp.flip(x, axis=axis), axis=axis), axis=axis)
        return accumulate(x, axis=axis)


@rule("cumulative_sum")
class CumulativeSum(_Cumulative, Linear):
    """y[i] sums x up to i; the adjoint sums from the other end."""

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: int, reverse: bool = False
    ) -> Any:
        return (lambda: F.cumulative_sum(ct, axis=axis, reverse=not reverse),)


@rule("cumulative_prod")
class CumulativeProd(_Cumulative):
    """y[i] = y[i - 1] x[i], so dy[i] = x[i] dy[i - 1] + y[i - 1] dx[i]: no division, so that 0 may be one."""

    takes = (0, 4, 10)

    def jvp(
        self, F: Namespace, y: Array, x: Array, dx: Array, axis: int, reverse: bool = False
    ) -> Array:
        before = F.shift_along_axis(y, axis=axis, fill=1.0, reverse=reverse)
        return F.linear_recurrence(x, F.multiply(before, dx), axis=axis, reverse=reverse)

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, axis: int, reverse: bool = False
    ) -> Any:
        def of_x() -> Array:
            before = F.shift_along_axis(y, axis=axis, fill=1.0, reverse=reverse)
            following = F.shift_along_axis(F.conj(x), axis=axis, reverse=not reverse)
            back = F.linear_recurrence(following, ct, axis=axis, reverse=not reverse)
            return F.multiply(F.conj(before), back)

        return (of_x,)


@rule("linear_recurrence")
class LinearRecurrence(Rule):
    """y[i] = a[i] y[i - 1] + b[i], so dy[i] = a[i] dy[i - 1] + (da[i] y[i - 1] + db[i])."""

    function = "linear_recurrence"

    def jvp(
        self,
        F: Namespace,
        y: Array,
        a: Array,
        b: Array,
        da: Array,
        db: Array,
        axis: int,
        reverse: bool = False,
    ) -> Array:
        if da is not None:
            da = F.multiply(da, F.shift_along_axis(y, axis=axis, reverse=reverse))
        return F.linear_recurrence(a, plus(F, da, db), axis=axis, reverse=reverse)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        a: Array,
        b: Array,
        axis: int,
        reverse: bool = False,
    ) -> Any:
        following = F.shift_along_axis(F.conj(a), axis=axis, reverse=not reverse)
        back = F.linear_recurrence(following, ct, axis=axis, reverse=not reverse)
        before = F.shift_along_axis(y, axis=axis, reverse=reverse)
        return (lambda: F.multiply(back, F.conj(before)), lambda: back)


@rule("shift_along_axis")
class ShiftAlongAxis(Rule):
    """y[i] = x[i - 1] after a constant, or x[i + 1] before one; the adjoint shifts back."""

    def forward(
        self, xp: Any, x: Array, axis: int, fill: float = 0.0, reverse: bool = False
    ) -> Array:
        n = x.shape[axis]
        if not n:
            return x
        part = slice(1, n) if reverse else slice(0, n - 1)
        stays = x[(*(slice(None),) * axis, part, ...)]
        edge = xp.full((*x.shape[:axis], 1, *x.shape[axis + 1 :]), fill, dtype=x.dtype)
        return xp.concat([stays, edge] if reverse else [edge, stays], axis=axis)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        dx: Array,
        axis: int,
        fill: float = 0.0,
        reverse: bool = False,
    ) -> Array:
        return F.shift_along_axis(dx, axis=axis, reverse=reverse)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        x: Array,
        axis: int,
        fill: float = 0.0,
        reverse: bool = False,
    ) -> Any:
        return (lambda: F.shift_along_axis(ct, axis=axis, reverse=not reverse),)


@rule("diff")
class Diff(AlongAxis, Linear):
    """y[i] = x[i + 1] - x[i], n times."""

    function = "diff"
    takes = (1, 2, 4)

    def prepare(
        self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]
    ) -> tuple[Rule, dict[str, Any]]:
        found, keywords = super().prepare(avals, attributes)
        most = avals[0].shape[keywords["axis"]]  # no more: NumPy counts through them
        return found, {**keywords, "n": min(keywords["n"], most)}

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, n: int, axis: int) -> Any:
        return (lambda: F.diff_adjoint(ct, n=n, axis=axis),)


@rule("diff_adjoint")
class DiffAdjoint(Linear):
    """y[i] = x[i - 1] - x[i], with 0 beyond both ends, n times."""

    def forward(self, xp: Any, x: Array, n: int, axis: int) -> Array:
        beyond = xp.zeros((*x.shape[:axis], n, *x.shape[axis + 1 :]), dtype=x.dtype)
        differences = xp.diff(xp.concat([beyond, x, beyond], axis=axis), n=n, axis=axis)
        return -differences if n % 2 else differences

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, n: int, axis: int) -> Any:
        return (lambda: F.diff(ct, n=n, axis=axis),)
