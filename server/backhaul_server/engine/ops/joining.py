"""Rules of ops that join arrays, or take one apart: all linear."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import accumulate, pairwise
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.joining import split_sizes
from backhaul_proto.catalog.ops import Ints
from backhaul_proto.catalog.shapes import canonical_axis
from backhaul_server.engine.rules import Array, Linear, Namespace, Rule, rule, zeros_like

Prepared = tuple[Rule, dict[str, Any]]


@rule("stack")
class Stack(Rule):
    """y joins arrays along a new axis."""

    def forward(self, xp: Any, *arrays: Array, axis: int) -> Array:
        return xp.stack(arrays, axis=axis)

    def jvp(self, F: Namespace, y: Array, *both: Array, axis: int) -> Array:
        return F.stack(*_filled(F, both), axis=axis)

    def cotangents(
        self, F: Namespace, ct: Array, y: Array, operands: Any, needs: Any, **keywords: Any
    ) -> Any:
        parts = F.unstack(ct, axis=keywords["axis"])
        return [part if need else None for part, need in zip(parts, needs, strict=True)]


@rule("unstack")
class Unstack(Linear):
    """The arrays that x consists of along an axis."""

    function = "unstack"

    def vjp(self, F: Namespace, ct: Any, y: Any, x: Array, axis: int) -> Any:
        return (lambda: F.stack(*_whole(F, ct, y), axis=axis),)


@rule("concat")
class Concat(Rule):
    """y joins arrays along an axis."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        return self, {"axis": canonical_axis(attributes["axis"], avals[0].ndim)}

    def forward(self, xp: Any, *arrays: Array, axis: int) -> Array:
        return xp.concat(arrays, axis=axis)

    def jvp(self, F: Namespace, y: Array, *both: Array, axis: int) -> Array:
        return F.concat(*_filled(F, both), axis=axis)

    def cotangents(
        self, F: Namespace, ct: Array, y: Array, operands: Any, needs: Any, **keywords: Any
    ) -> Any:
        axis = keywords["axis"]
        parts = F.split(ct, sizes=tuple(x.shape[axis] for x in operands), axis=axis)
        return [part if need else None for part, need in zip(parts, needs, strict=True)]


@rule("split")
class Split(Linear):
    """The parts of x along an axis; the adjoint joins them."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        (x,) = avals
        axis = canonical_axis(attributes["axis"], x.ndim)
        sizes = split_sizes(x.shape[axis], attributes["indices_or_sections"])
        return self, {"sizes": sizes, "axis": axis}

    def forward(self, xp: Any, x: Array, sizes: Ints, axis: int) -> tuple[Array, ...]:
        before = (slice(None),) * axis
        points = accumulate(sizes, initial=0)
        return tuple(x[(*before, slice(start, end), ...)] for start, end in pairwise(points))

    def vjp(self, F: Namespace, ct: Any, y: Any, x: Array, sizes: Ints, axis: int) -> Any:
        return (lambda: F.concat(*_whole(F, ct, y), axis=axis),)


def _filled(F: Namespace, both: Sequence[Array]) -> list[Array]:
    """The tangents of operands, zeros for those without; they follow the operands."""
    arrays, tangents = both[: len(both) // 2], both[len(both) // 2 :]
    return _whole(F, tangents, arrays)


def _whole(F: Namespace, parts: Sequence[Array | None], like: Sequence[Array]) -> list[Array]:
    """The parts, zeros in the place of those that are None."""
    return [zeros_like(F, x) if part is None else part for part, x in zip(parts, like, strict=True)]
