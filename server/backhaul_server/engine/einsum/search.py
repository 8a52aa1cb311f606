"""The search for an order of contraction.

Many trees are made, by opt_einsum's greedy search and by elimination, each with noise. Each is annealed and
then put in order exactly, a few contractions at a time; the cheapest is annealed further. The greedy search
depends much on how a pair's cost weighs the result against the operands (Gray and Kourtis 2021,
Hyper-optimized tensor network contraction, appendix A), so it is run with several weights, and on altered
sizes.

What a tree costs is told in multiplications, with what is written weighed in (`trees`); so among trees of
about as many multiplications one with smaller results is taken.

The same expression gives the same order in every process: random numbers are seeded, how long to search
follows from estimated costs and not from a clock, and labels are integers, whose hashes, and so the order of
sets of them, are the same everywhere.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import opt_einsum

from backhaul_server.engine.einsum.annealing import anneal
from backhaul_server.engine.einsum.elimination import eliminate
from backhaul_server.engine.einsum.layout import Ints, Sizes
from backhaul_server.engine.einsum.reoptimisation import SIZE, best_tree, reoptimise
from backhaul_server.engine.einsum.trees import Labels, Network, Tree

Cost = Callable[..., float]

_SECONDS: Final = 2e-9
"""How long to search for each multiplication of what is found: about as long as value and gradient take."""
_MOST: Final = 4.0
"""How long to search at most, in seconds."""

# What the parts of a search take, in seconds; measured.
_START: Final = 2e-4  # a greedy search or an elimination, per operand
_MOVE: Final = 1e-6  # of annealing
_SPLIT: Final = 2e-7  # of exact search

_SWEEPS: Final = 100  # of annealing, for a new tree; ten times as many for the best one
_NEW: Final = 0.6  # the part of the time for new trees


def find_order(members: Sequence[Labels], kept: Labels, sizes: Sizes) -> list[Ints]:
    """An order as an opt_einsum path in single-assignment form: the k-th result is ``len(members) + k``.

    Args:
        members: the labels of each operand.
        kept: labels that the result has.
        sizes: of the labels.
    """
    if len(members) == 2:
        return [(0, 1)]
    size_of = label_sizes(members, sizes)
    network = Network.of(members, kept, size_of)
    if len(members) <= SIZE:
        return best_tree(network).order()
    search = _Search(network, _first(members, kept, size_of))
    starts = _Starts(members, kept, size_of, network)
    trial = 0
    while search.goes_on(_NEW):
        rng = random.Random(trial)
        search.spent += _START * len(members)
        search.refine(starts.tree(trial, rng), _SWEEPS, rng)
        trial += 1
    while search.goes_on(1.0):
        search.refine(search.best.copy(), 10 * _SWEEPS, random.Random(trial))
        trial += 1
    return search.best.order()


def label_sizes(members: Sequence[Labels], sizes: Sizes) -> dict[int, int]:
    """The size of each label that the members have; where there is nothing it counts as one."""
    return {label: max(sizes[label], 1) for each in members for label in each}


def single_assignment(path: Sequence[Ints], count: int) -> list[Ints]:
    """An opt_einsum path, which counts in the list of what is left, in single-assignment form."""
    left, order = list(range(count)), []
    for number, step in enumerate(path):
        order.append(tuple(left[position] for position in step))
        for position in sorted(step, reverse=True):
            del left[position]
        left.append(count + number)
    return order


class _Search:
    """The cheapest tree so far, and for how long was searched (by estimate)."""

    def __init__(self, network: Network, first: list[Ints]) -> None:
        self.best = Tree.of(network, first)
        self.spent = 0.0
        self._least = self.best.cost()

    def goes_on(self, share: float) -> bool:
        """Whether less than a share of the time is spent; cheaper contractions get less of it."""
        return self.spent < share * min(_MOST, _SECONDS * self._least)

    def refine(self, tree: Tree, sweeps: int, rng: random.Random) -> None:
        """Make a tree cheaper, and keep it if it is the cheapest."""
        nodes = len(tree.network.operands)
        left = max(min(_MOST, _SECONDS * self._least) - self.spent, 0.0)
        sweeps = min(sweeps, int(left / (2 * nodes * _MOVE)))
        anneal(tree, sweeps, rng)
        self.spent += sweeps * nodes * _MOVE
        self.spent += _SPLIT * reoptimise(tree, int(left / _SPLIT))
        if (cost := tree.cost()) < self._least:
            self.best, self._least = tree, cost


def _first(members: Sequence[Labels], kept: Labels, sizes: Mapping[int, int]) -> list[Ints]:
    auto = cast(
        Any, opt_einsum.paths.auto
    )  # typed for labels that are strings; any hashable will do
    return single_assignment(auto(list(members), kept, sizes, None), len(members))


class _Starts:
    """Trees to begin with."""

    def __init__(
        self, members: Sequence[Labels], kept: Labels, sizes: dict[int, int], network: Network
    ) -> None:
        self._members, self._kept, self._network = members, kept, network
        self._seen = (sizes, _flattened(sizes), _thinned(members, kept, sizes))

    def tree(self, trial: int, rng: random.Random) -> Tree:
        """One by elimination, one by pairs, and so on."""
        if trial % 2 == 0:
            noise = 0.0 if trial == 0 else 10 ** rng.uniform(-1.0, 0.5)
            return Tree.of(self._network, eliminate(self._network, rng, noise))
        greedy = cast(Any, opt_einsum.paths.ssa_greedy_optimize)
        seen = self._seen[trial // 2 % len(self._seen)]
        order = greedy(list(self._members), self._kept, seen, cost_fn=_noisy_cost(rng))
        return Tree.of(self._network, order)


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
