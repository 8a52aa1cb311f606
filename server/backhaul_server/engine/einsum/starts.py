"""Contraction orders to begin a search with: opt_einsum's greedy search, and eliminations, with noise.

The greedy search depends much on how a pair's cost weighs the result against the operands (Gray and Kourtis
2021, Hyper-optimized tensor network contraction, appendix A), so it is run with several weights, and on
altered sizes.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any, cast

import opt_einsum

from backhaul_server.engine.einsum.elimination import eliminate
from backhaul_server.engine.einsum.layout import Ints
from backhaul_server.engine.einsum.trees import Labels, Network

Cost = Callable[..., float]


def single_assignment(path: Sequence[Ints], count: int) -> list[Ints]:
    """An opt_einsum path, which counts in the list of what is left, in single-assignment form."""
    left, order = list(range(count)), []
    for number, step in enumerate(path):
        order.append(tuple(left[position] for position in step))
        for position in sorted(step, reverse=True):
            del left[position]
        left.append(count + number)
    return order


class Starts:
    """Orders for the operands with these labels, and sizes of labels from one up."""

    def __init__(
        self, members: Sequence[Labels], kept: Labels, sizes: dict[int, int], network: Network
    ) -> None:
        self._members, self._kept, self._network = members, kept, network
        self._seen = (sizes, _flattened(sizes), _thinned(members, kept, sizes))

    def auto(self) -> list[Ints]:
        """What opt_einsum chooses by itself."""
        auto = cast(Any, opt_einsum.paths.auto)  # typed for labels that are strings; any will do
        path = auto(list(self._members), self._kept, self._seen[0], None)
        return single_assignment(path, len(self._members))

    def greedy(self, trial: int, rng: random.Random) -> list[Ints]:
        """One by pairs; the first without noise."""
        search = cast(Any, opt_einsum.paths.ssa_greedy_optimize)
        sizes = self._seen[trial % len(self._seen)]
        cost = _noisy_cost(rng) if trial else "memory-removed"
        order: list[Ints] = search(list(self._members), self._kept, sizes, cost_fn=cost)
        return order

    def elimination(self, trial: int, rng: random.Random) -> list[Ints]:
        """One by labels; the first without noise."""
        return eliminate(self._network, rng, 10 ** rng.uniform(-1.0, 0.5) if trial else 0.0)


def _flattened(sizes: dict[int, int]) -> dict[int, int]:
    """Sizes nearer to each other: then the number of axes counts for more."""
    return {label: math.isqrt(size - 1) + 1 for label, size in sizes.items()}


def _thinned(members: Sequence[Labels], kept: Labels, sizes: dict[int, int]) -> dict[int, int]:
    """Sizes with labels that many operands share made small.

    Such a label (a batch) goes along whatever is done first, and hides from the greedy search what
    else differs between the pairs.
    """
    counts = Counter(label for each in (*members, kept) for label in each)
    return {label: min(size, 2) if counts[label] > 3 else size for label, size in sizes.items()}


def _noisy_cost(rng: random.Random) -> Cost:
    """How good a pair is: the logarithm of its result's size less the operands', with Gumbel noise."""
    weight, temperature = rng.uniform(0.1, 4.0), 10 ** rng.uniform(-3.0, 0.0)

    def cost(result: int, first: int, second: int, *_: object) -> float:
        removed = result - weight * (first + second)
        noise = -math.log(-math.log(rng.uniform(1e-12, 1 - 1e-12)))
        return math.copysign(math.log1p(abs(removed)), removed) - temperature * noise

    return cost
