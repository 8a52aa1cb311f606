"""Rules of ops that choose among their operands.

Cotangents are chosen too, not multiplied with 0 and 1: what stands where nothing was chosen, NaN or
infinite, stays out of the gradient.
"""

from __future__ import annotations

from typing import Any

from backhaul_server.engine.rules import Array, Namespace, Rule, plus, rule


@rule("where")
class Where(Rule):
    """y = a where c, else b."""

    function = "where"

    def jvp(
        self,
        F: Namespace,
        y: Array,
        c: Array,
        a: Array,
        b: Array,
        dc: Array,
        da: Array,
        db: Array,
    ) -> Array:
        if da is None and db is None:
            return None  # only the condition moves
        return F.where(c, 0.0 if da is None else da, 0.0 if db is None else db)

    def vjp(self, F: Namespace, ct: Array, y: Array, c: Array, a: Array, b: Array) -> Any:
        return (lambda: None, lambda: F.where(c, ct, 0.0), lambda: F.where(c, 0.0, ct))


@rule("clip")
class Clip(Rule):
    """y = min(max(x, lower), upper): each element is one of the three, x at its bounds."""

    def forward(self, xp: Any, x: Array, lower: Array, upper: Array) -> Array:
        return xp.minimum(xp.maximum(x, lower), upper)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        lower: Array,
        upper: Array,
        dx: Array,
        dlower: Array,
        dupper: Array,
    ) -> Array:
        below, above = _outside(F, x, lower, upper)
        moved = [0.0 if tangent is None else tangent for tangent in (dx, dlower, dupper)]
        return F.where(above, moved[2], F.where(below, moved[1], moved[0]))

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, lower: Array, upper: Array) -> Any:
        below, above = _outside(F, x, lower, upper)
        return (
            lambda: F.where(F.logical_or(below, above), 0.0, ct),
            lambda: F.where(F.logical_and(below, F.logical_not(above)), ct, 0.0),
            lambda: F.where(above, ct, 0.0),
        )


def _outside(F: Namespace, x: Array, lower: Array, upper: Array) -> tuple[Array, Array]:
    """Where x is below the lower bound, and where what is left of it is above the upper."""
    return F.less(x, lower), F.logical_or(F.greater(x, upper), F.greater(lower, upper))


class _Extremum(Rule):
    """Base of the greater or lesser of a and b. Equals share evenly, and so do two NaNs."""

    def jvp(self, F: Namespace, y: Array, a: Array, b: Array, da: Array, db: Array) -> Array:
        of_a, of_b, tied = self._taken(F, y, a, b)
        moved = plus(
            F,
            None if da is None else F.where(of_a, da, 0.0),
            None if db is None else F.where(of_b, db, 0.0),
        )
        return F.where(tied, F.multiply(moved, 0.5), moved)

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        of_a, of_b, tied = self._taken(F, y, a, b)
        share = F.where(tied, F.multiply(ct, 0.5), ct)
        return (lambda: F.where(of_a, share, 0.0), lambda: F.where(of_b, share, 0.0))

    def _taken(self, F: Namespace, y: Array, a: Array, b: Array) -> tuple[Array, Array, Array]:
        """Where y is a, where it is b, and where it is both."""
        of_a = F.logical_or(F.equal(y, a), self.is_nan_of(F, y, a))
        of_b = F.logical_or(F.equal(y, b), self.is_nan_of(F, y, b))
        return of_a, of_b, F.logical_and(of_a, of_b)

    def is_nan_of(self, F: Namespace, y: Array, x: Array) -> Array:
        """Where y is NaN because x is: NaN equals nothing. Here, one NaN suffices."""
        return F.isnan(x)


@rule("maximum")
class Maximum(_Extremum):
    """y = max(a, b), NaN where one is."""

    function = "maximum"


@rule("minimum")
class Minimum(_Extremum):
    """y = min(a, b), NaN where one is."""

    function = "minimum"


class _NumberFirst(_Extremum):
    """Base of the greater or lesser of a and b in which numbers beat NaN: y is NaN where both are."""

    def is_nan_of(self, F: Namespace, y: Array, x: Array) -> Array:
        return F.isnan(y)


@rule("fmax")
class FMax(_NumberFirst):
    """y = max(a, b), a number where one is."""

    function = "fmax"


@rule("fmin")
class FMin(_NumberFirst):
    """y = min(a, b), a number where one is."""

    function = "fmin"
