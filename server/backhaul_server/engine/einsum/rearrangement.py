"""Lowering of a step with one operand: diagonals, sums, axes moved, added, repeated and dropped.

All of it is linear, and its adjoint is of the same kind: input and output labels change places. So a
sum's adjoint repeats, a diagonal's puts values on a diagonal.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from backhaul_server.engine.einsum.layout import Ints, Sizes, positions
from backhaul_server.engine.rules import Array


@dataclass(frozen=True, slots=True)
class Embedding:
    """Puts the values along one axis onto the diagonal of ``count`` axes, which come last.

    Attributes:
        order: permutation that brings the axis to the end, or None.
        flat: the shape of the result with the diagonal's axes as one.
        step: the distance of the diagonal's elements on that axis.
        shape: the result's shape.
    """

    order: Ints | None
    flat: Ints
    step: int
    shape: Ints

    def __call__(self, xp: Any, x: Array) -> Array:
        if self.order is not None:
            x = xp.permute_dims(x, self.order)
        y = xp.zeros(self.flat, dtype=x.dtype)
        y[..., :: self.step] = x
        return xp.reshape(y, self.shape)


@dataclass(frozen=True, slots=True)
class Rearrangement:
    """The stages of a step with one operand, each left out where there is nothing to do.

    Attributes:
        diagonals: pairs of axes to take the diagonal of, in turn; it becomes the last axis.
        summed: axes to sum over.
        order: permutation of what is left, or None.
        shape: then the shape, with axes of size 1 added or dropped, or None.
        repeated: then the shape to broadcast to, or None.
        embeddings: diagonals to put values on, in turn.
        final: permutation in the end, or None.
    """

    diagonals: tuple[tuple[int, int], ...]
    summed: Ints
    order: Ints | None
    shape: Ints | None
    repeated: Ints | None
    embeddings: tuple[Embedding, ...]
    final: Ints | None

    def __call__(self, xp: Any, x: Array) -> Array:
        for first, second in self.diagonals:
            x = xp.diagonal(x, axis1=first, axis2=second)
        if self.summed:
            x = xp.sum(x, axis=self.summed, dtype=x.dtype)
        if self.order is not None:
            x = xp.permute_dims(x, self.order)
        if self.shape is not None:
            x = xp.reshape(x, self.shape)
        if self.repeated is not None:
            x = xp.broadcast_to(x, self.repeated)
        for embed in self.embeddings:
            x = embed(xp, x)
        return x if self.final is None else xp.permute_dims(x, self.final)


def rearrange(labels: Ints, result: Ints, sizes: Sizes) -> Rearrangement:
    """The lowering from an array with these labels to one with those; both may repeat labels."""
    left, diagonals = _diagonals(labels)
    distinct = tuple(dict.fromkeys(result))
    summed = tuple(
        axis for axis, label in enumerate(left) if label not in distinct and sizes[label] != 1
    )
    left = tuple(label for axis, label in enumerate(left) if axis not in summed)
    dropped = tuple(label for label in left if label not in distinct)  # of size 1
    kept = tuple(label for label in distinct if label in left)
    standing = (*dropped, *kept)
    shape = tuple(sizes[label] if label in left else 1 for label in distinct)
    repeated = tuple(sizes[label] for label in distinct)
    embeddings, embedded = _embeddings(distinct, result, sizes)
    return Rearrangement(
        diagonals=diagonals,
        summed=summed,
        order=positions(left, standing),
        shape=None if standing == distinct else shape,
        repeated=None if shape == repeated else repeated,
        embeddings=embeddings,
        final=_final(embedded, result),
    )


def _diagonals(labels: Ints) -> tuple[Ints, tuple[tuple[int, int], ...]]:
    """Pairs of axes of equal labels in turn, and the labels that are left."""
    left, found = list(labels), []
    for label in dict.fromkeys(labels):
        while left.count(label) > 1:
            first = left.index(label)
            second = left.index(label, first + 1)
            del left[second], left[first]
            left.append(label)
            found.append((first, second))
    return tuple(left), tuple(found)


def _embeddings(distinct: Ints, result: Ints, sizes: Sizes) -> tuple[tuple[Embedding, ...], Ints]:
    """One embedding for each repeated label of the result, and the labels that come out."""
    axes, found = distinct, []
    for label in distinct:
        count, n = result.count(label), sizes[label]
        if count == 1:
            continue
        others = tuple(each for each in axes if each != label)
        outer = tuple(sizes[each] for each in others)
        found.append(
            Embedding(
                order=_to_end(axes, label),
                flat=(*outer, n**count),
                step=sum(n**power for power in range(count)),
                shape=(*outer, *[n] * count),
            )
        )
        axes = (*others, *[label] * count)
    return tuple(found), axes


def _to_end(axes: Ints, label: int) -> Ints | None:
    """The permutation that brings the one axis with this label to the end; others may repeat."""
    at = axes.index(label)
    if at == len(axes) - 1:
        return None
    return (*range(at), *range(at + 1, len(axes)), at)


def _final(axes: Ints, result: Ints) -> Ints | None:
    """The permutation to the result's order; equal labels stay in turn."""
    if axes == result:
        return None
    places: dict[int, list[int]] = {}
    for axis, label in enumerate(axes):
        places.setdefault(label, []).append(axis)
    return tuple(places[label].pop(0) for label in result)
