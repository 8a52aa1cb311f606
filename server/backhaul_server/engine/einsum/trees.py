"""Contraction trees in the making: what the searches for an order of contraction change.

Labels are bits of an integer here, so sets of them are joined and compared in one operation each.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from backhaul_server.engine.einsum.layout import Ints

Labels = frozenset[int]

WRITE: Final = 32.0
"""Writing an element of a result costs about as much as so many multiplications."""
LARGE: Final = 2.0**27
"""Elements of a result (1 GiB of float64) from which on size costs more than in proportion."""
_KEPT: Final = 2**16
_MOST: Final = 1e150
"""A volume that is told of all larger ones too, so that no cost is infinite."""


class Volumes(dict[int, float]):
    """The number of elements of an array with a set of labels; computed when first asked for."""

    def __init__(self, sizes: Sequence[int]) -> None:
        super().__init__()
        groups: dict[int, int] = {}
        for bit, size in enumerate(sizes):
            groups[size] = groups.get(size, 0) | 1 << bit
        self._groups = [(mask, float(size)) for size, mask in groups.items() if size > 1]

    def __missing__(self, labels: int) -> float:
        if len(self) >= _KEPT:
            self.clear()
        volume = 1.0
        try:
            for mask, size in self._groups:
                if common := labels & mask:
                    volume *= size ** common.bit_count()
        except OverflowError:
            volume = _MOST
        volume = min(volume, _MOST)
        self[labels] = volume
        return volume


class Written(dict[int, float]):
    """What it costs to write a result with a set of labels, in multiplications."""

    def __init__(self, volumes: Volumes, weight: float) -> None:
        super().__init__()
        self._volumes = volumes
        self._weight = weight

    def __missing__(self, labels: int) -> float:
        if len(self) >= _KEPT:
            self.clear()
        volume = self._volumes[labels]
        self[labels] = cost = self._weight * volume * max(1.0, volume / LARGE)
        return cost


@dataclass(frozen=True, slots=True)
class Network:
    """The operands of a contraction.

    Attributes:
        operands: the labels of each.
        kept: labels of the result.
        volumes: of arrays by labels.
        written: the costs of results by labels.
    """

    operands: tuple[int, ...]
    kept: int
    volumes: Volumes
    written: Written

    @classmethod
    def of(
        cls,
        members: Sequence[Labels],
        kept: Labels,
        sizes: Mapping[int, int],
        write: float = WRITE,
    ) -> Network:
        """The network of operands with these labels; ``write`` is what an element of a result costs."""
        bits = {
            label: bit for bit, label in enumerate(sorted({x for each in members for x in each}))
        }
        volumes = Volumes([sizes[label] for label in bits])
        return cls(
            tuple(sum(1 << bits[label] for label in each) for each in members),
            sum(1 << bits[label] for label in kept if label in bits),
            volumes,
            Written(volumes, write),
        )


@dataclass(slots=True)
class Tree:
    """A tree of pairs: nodes below ``len(network.operands)`` are operands, others have two children.

    Attributes:
        network: what is contracted.
        left: the first child of each node; of operands, the node itself.
        right: the second child.
        labels: of each node's array.
        root: the node that is the result.
    """

    network: Network
    left: list[int]
    right: list[int]
    labels: list[int]
    root: int

    @classmethod
    def of(cls, network: Network, order: Iterable[Ints]) -> Tree:
        """The tree of an order in single-assignment form. Steps of more than two go in pairs."""
        count = len(network.operands)
        left, right = list(range(count)), list(range(count))
        below = list(network.operands)
        results = list(range(count))
        for first, *others in order:
            node = results[first]
            for position in others:
                left.append(node)
                right.append(results[position])
                below.append(below[node] | below[right[-1]])
                node = len(left) - 1
            results.append(node)
        # A node keeps those labels of the operands below it that are needed outside.
        outside = [network.kept] * len(left)
        for node in range(len(left) - 1, count - 1, -1):
            outside[left[node]] = outside[node] | below[right[node]]
            outside[right[node]] = outside[node] | below[left[node]]
        inner = [mine & others for mine, others in zip(below, outside, strict=True)][count:]
        return cls(network, left, right, [*network.operands, *inner], len(left) - 1)

    def copy(self) -> Tree:
        """A tree that may be changed on its own."""
        return Tree(self.network, [*self.left], [*self.right], [*self.labels], self.root)

    def cost(self) -> float:
        """What all contractions cost, in multiplications."""
        labels, left, right = self.labels, self.left, self.right
        volumes, written = self.network.volumes, self.network.written
        return sum(
            volumes[labels[left[node]] | labels[right[node]]] + written[labels[node]]
            for node in range(len(self.network.operands), len(labels))
        )

    def order(self) -> list[Ints]:
        """The order in single-assignment form: a result is made just before it is needed."""
        count = len(self.network.operands)
        names: dict[int, int] = {}
        order: list[Ints] = []
        for node in self.inner():
            pair = (self.left[node], self.right[node])
            order.append(tuple(sorted(names.get(child, child) for child in pair)))
            names[node] = count + len(names)
        return order

    def inner(self) -> list[int]:
        """The nodes with children, each after its own."""
        count = len(self.network.operands)
        found, waiting = [], [self.root]
        while waiting:
            node = waiting.pop()
            if node >= count:
                found.append(node)
                waiting += (self.left[node], self.right[node])
        return found[::-1]
