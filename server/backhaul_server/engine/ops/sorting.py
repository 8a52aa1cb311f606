"""Rules of ops that put elements into order along an axis."""

from __future__ import annotations

from typing import Any

from backhaul_server.engine.ops.reducing import AlongAxis
from backhaul_server.engine.rules import Array, Namespace, NotDifferentiable, Rule, rule


@rule("sort")
class Sort(AlongAxis):
    """y is x in order: a permutation, which its inverse undoes."""

    function = "sort"

    def jvp(self, F: Namespace, y: Array, x: Array, dx: Array, axis: int) -> Array:
        return F.permute_along_axis(dx, F.argsort(x, axis=axis), axis=axis)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, axis: int) -> Any:
        def of_x() -> Array:
            places = F.argsort(F.argsort(x, axis=axis), axis=axis)
            return F.permute_along_axis(ct, places, axis=axis)

        return (of_x,)


@rule("argsort")
class ArgSort(AlongAxis, NotDifferentiable):
    """y is where the elements stand that sort gives; equals in their order."""

    def forward(self, xp: Any, x: Array, axis: int) -> Array:
        return xp.argsort(x, axis=axis, stable=True)


@rule("permute_along_axis")
class PermuteAlongAxis(Rule):
    """y[i] = x[order[i]]; the inverse permutation undoes it."""

    def forward(self, xp: Any, x: Array, order: Array, axis: int) -> Array:
        return xp.take_along_axis(x, order, axis=axis)

    def jvp(
        self, F: Namespace, y: Array, x: Array, order: Array, dx: Array, dorder: None, axis: int
    ) -> Array:
        return F.permute_along_axis(dx, order, axis=axis)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, order: Array, axis: int) -> Any:
        return (
            lambda: F.permute_along_axis(ct, F.argsort(order, axis=axis), axis=axis),
            lambda: None,
        )
