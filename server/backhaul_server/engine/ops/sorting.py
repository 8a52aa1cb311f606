"""Rules of ops that put elements into order along an axis."""

from __future__ import annotations

from typing import Any

from backhaul_server.engine.ops.reducing import AlongAxis
from backhaul_server.engine.rules import Array, Namespace, NotDifferentiable, Rule, rule


@rule("sort")
class Sort(AlongAxis):
    """y is x in order: a permutation, which its inverse undoes."""

    function = "sort"
    takes = (0, 4, 6)

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, axis: int) -> Array:
        return F.permute_along_axis(dx, F.argsort(x, axis=axis), axis=axis)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, axis: int) -> Any:
        def of_x() -> Array:
            order = F.argsort(x, axis=axis)
            return F.permute_along_axis(ct, order, axis=axis, inverse=True)

        return (of_x,)


@rule("argsort")
class ArgSort(AlongAxis, NotDifferentiable):
    """y is where the elements stand that sort gives; equals in their order."""

    def forward(self, xp: Any, x: Array, axis: int) -> Array:
        return xp.argsort(x, axis=axis, stable=True)


@rule("permute_along_axis")
class PermuteAlongAxis(Rule):
    """y[i] = x[order[i]], or y[order[i]] = x[i] as the inverse, which undoes it."""

    def forward(self, xp: Any, x: Array, order: Array, axis: int, inverse: bool = False) -> Array:
        permute = xp.put_in_order if inverse else xp.take_along_axis
        return permute(x, order, axis=axis)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        order: Array,
        dx: Array,
        dorder: None,
        axis: int,
        inverse: bool = False,
    ) -> Array:
        return F.permute_along_axis(dx, order, axis=axis, inverse=inverse)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        x: Array,
        order: Array,
        axis: int,
        inverse: bool = False,
    ) -> Any:
        return (
            lambda: F.permute_along_axis(ct, order, axis=axis, inverse=not inverse),
            lambda: None,
        )
