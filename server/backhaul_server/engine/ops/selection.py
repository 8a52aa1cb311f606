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
        return plus(
            F,
            None if da is None else self._share(F, da, a, b),
            None if db is None else self._share(F, db, b, a),
        )

    def vjp(self, F: Namespace, ct: Array, y: Array, a: Array, b: Array) -> Any:
        return (lambda: self._share(F, ct, a, b), lambda: self._share(F, ct, b, a))

    def _share(self, F: Namespace, ct: Array, a: Array, b: Array) -> Array:
        """What is a's of a tangent or cotangent: all where a is y, half where b is as well."""
        lost, won = self.beaten(F, a, b), self.beaten(F, b, a)
        tied = F.logical_not(F.logical_or(lost, won))
        return F.where(lost, 0.0, F.where(tied, F.multiply(ct, 0.5), ct))

    def beaten(self, F: Namespace, a: Array, b: Array) -> Array:
        """Where y is b and not a."""
        raise NotImplementedError


@rule("maximum")
class Maximum(_Extremum):
    """y = max(a, b); NaN beats numbers."""

    function = "maximum"

    def beaten(self, F: Namespace, a: Array, b: Array) -> Array:
        return F.logical_or(F.less(a, b), _number_beside_nan(F, a, b))


@rule("minimum")
class Minimum(_Extremum):
    """y = min(a, b); NaN beats numbers."""

    function = "minimum"

    def beaten(self, F: Namespace, a: Array, b: Array) -> Array:
        return F.logical_or(F.greater(a, b), _number_beside_nan(F, a, b))


@rule("fmax")
class FMax(_Extremum):
    """y = max(a, b); numbers beat NaN."""

    function = "fmax"

    def beaten(self, F: Namespace, a: Array, b: Array) -> Array:
        return F.logical_or(F.less(a, b), _number_beside_nan(F, b, a))


@rule("fmin")
class FMin(_Extremum):
    """y = min(a, b); numbers beat NaN."""

    function = "fmin"

    def beaten(self, F: Namespace, a: Array, b: Array) -> Array:
        return F.logical_or(F.greater(a, b), _number_beside_nan(F, b, a))


def _number_beside_nan(F: Namespace, a: Array, b: Array) -> Array:
    """Where a is a number and b is NaN."""
    return F.logical_and(F.logical_not(F.isnan(a)), F.isnan(b))
