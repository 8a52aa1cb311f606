"""Rules of ops that repeat, shift or reverse elements: all linear but for pad's constant."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Ints
from backhaul_proto.catalog.repeating import repeat_counts, shifts
from backhaul_proto.catalog.shapes import canonical_axes, canonical_axis
from backhaul_server.engine.ops.indexing import GetItem, at_axis
from backhaul_server.engine.rules import Array, Linear, Namespace, Rule, rule

Prepared = tuple[Rule, dict[str, Any]]


@rule("flip")
class Flip(GetItem):
    """y is x backwards: an index, which is its own adjoint."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        (x,) = avals
        axes = canonical_axes(attributes.get("axis"), x.ndim)
        backwards = tuple(slice(None, None, -1 if i in axes else None) for i in range(x.ndim))
        return self, {"key": (*backwards, ...)}

    def cotangents(
        self, F: Namespace, ct: Array, y: Array, operands: Any, needs: Any, **keywords: Any
    ) -> Any:
        return [F.getitem(ct, **keywords)]


@rule("roll")
class Roll(Linear):
    """y is x shifted; the adjoint shifts it back."""

    function = "roll"

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        (x,) = avals
        axis = attributes.get("axis")
        by = shifts(attributes["shift"], axis, x.ndim)
        if axis is None or not by:  # of 0-d arrays NumPy rolls no axis
            return self, {"shift": by.get(0, 0) % max(x.size, 1), "axis": None}
        places = tuple(shift % max(x.shape[i], 1) for i, shift in by.items())
        return self, {"shift": places, "axis": tuple(by)}

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, shift: Any, axis: Any) -> Any:
        back = -shift if axis is None else tuple(-each for each in shift)
        return (lambda: F.roll(ct, shift=back, axis=axis),)


@rule("tile")
class Tile(Linear):
    """y is x side by side with itself; the adjoint sums the copies."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        reps = attributes["reps"]
        counts = (reps,) if isinstance(reps, int) else reps
        return self, {"reps": (1,) * (avals[0].ndim - len(counts)) + counts}

    def forward(self, xp: Any, x: Array, reps: Ints) -> Array:
        if 0 in reps:  # NumPy's may make a huge array on its way to an empty one
            padded = (1,) * (len(reps) - x.ndim) + tuple(x.shape)
            shape = tuple(n * count for n, count in zip(padded, reps, strict=True))
            return xp.zeros(shape, dtype=x.dtype)
        return xp.tile(x, reps)

    def vjp(self, F: Namespace, ct: Array, y: Array, x: Array, reps: Ints) -> Any:
        shape = (1,) * (len(reps) - len(x.shape)) + tuple(x.shape)
        apart = tuple(n for pair in zip(reps, shape, strict=True) for n in pair)
        copies = tuple(range(0, 2 * len(reps), 2))

        def summed() -> Array:
            return F.reshape(F.sum(F.reshape(ct, shape=apart), axis=copies), shape=x.shape)

        return (summed,)


@rule("repeat")
class Repeat(Linear):
    """y repeats x's elements; the adjoint sums each one's repetitions."""

    def prepare(self, avals: tuple[Aval, ...], attributes: Mapping[str, Any]) -> Prepared:
        (x,) = avals
        axis = attributes.get("axis")
        at = None if axis is None else canonical_axis(axis, x.ndim)
        counts = repeat_counts(attributes["repeats"], x.size if at is None else x.shape[at])
        return self, {"repeats": counts, "axis": at}

    def forward(self, xp: Any, x: Array, repeats: int | Ints, axis: int | None) -> Array:
        return xp.repeat(x, _counts(xp, repeats), axis=axis)

    def vjp(
        self, F: Namespace, ct: Array, y: Array, x: Array, repeats: int | Ints, axis: int | None
    ) -> Any:
        at = 0 if axis is None else axis
        shape = (math.prod(x.shape),) if axis is None else tuple(x.shape)

        def summed() -> Array:
            if isinstance(repeats, int):
                apart = (*shape[: at + 1], repeats, *shape[at + 1 :])
                total = F.sum(F.reshape(ct, shape=apart), axis=at + 1)
            else:
                xp = F.xp
                names = xp.repeat(xp.arange(shape[at]), _counts(xp, repeats))
                zeros = xp.zeros(shape, dtype=ct.dtype)
                total = F.scatter_add(zeros, ct, names, key=at_axis(at))
            return F.reshape(total, shape=x.shape)

        return (summed,)


def _counts(xp: Any, repeats: int | Ints) -> Any:
    return repeats if isinstance(repeats, int) else xp.asarray(repeats, dtype=xp.int64)


@rule("pad")
class Pad(Rule):
    """y has x inside; outside is a constant, or elements of x, to which the adjoint adds those."""

    def forward(
        self, xp: Any, x: Array, pad_width: Sequence[Ints], mode: str, constant_values: float
    ) -> Array:
        if not pad_width:
            return x
        if mode == "constant":
            return xp.pad(x, pad_width, constant_values=constant_values)
        return xp.pad(x, pad_width, mode=mode)

    def jvp(
        self,
        F: Namespace,
        y: Array,
        x: Array,
        dx: Array,
        pad_width: Sequence[Ints],
        mode: str,
        constant_values: float,
    ) -> Array:
        return F.pad(dx, pad_width=pad_width, mode=mode, constant_values=0.0)

    def vjp(
        self,
        F: Namespace,
        ct: Array,
        y: Array,
        x: Array,
        pad_width: Sequence[Ints],
        mode: str,
        constant_values: float,
    ) -> Any:
        if mode != "constant":
            return (lambda: _folded(F, ct, x.shape, pad_width, mode),)
        inside = tuple(
            slice(before, before + n) for n, (before, _) in zip(x.shape, pad_width, strict=True)
        )
        return (lambda: F.getitem(ct, key=(*inside, ...)),)


def _folded(
    F: Namespace, ct: Array, shape: Sequence[int], pad_width: Sequence[Ints], mode: str
) -> Array:
    """What was padded added to the elements it came from, axis by axis: each mode acts on each alone."""
    xp = F.xp
    for axis, (n, widths) in enumerate(zip(shape, pad_width, strict=True)):
        if any(widths):
            origins = xp.pad(xp.arange(n), (tuple(widths),), mode=mode)
            folded = (*ct.shape[:axis], n, *ct.shape[axis + 1 :])
            zeros = xp.zeros(folded, dtype=ct.dtype)
            ct = F.scatter_add(zeros, ct, origins, key=at_axis(axis))
    return ct
