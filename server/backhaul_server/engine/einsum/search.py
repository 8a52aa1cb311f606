"""The search for an order of contraction.

Many trees are made, by elimination and by pairs, each with noise. Each is annealed, and then put in order
exactly, a few contractions at a time; the cheapest is annealed further. What a tree costs is told in
multiplications, with what is written weighed in (`trees`): so among trees of about as many multiplications
one with smaller results is taken.

The same expression gives the same order in every process: random numbers are seeded, how long to search
follows from estimated costs and not from a clock, and labels are integers, whose hashes, and so the order of
sets of them, are the same everywhere.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Final

from backhaul_server.engine.einsum.annealing import anneal
from backhaul_server.engine.einsum.layout import Ints, Sizes
from backhaul_server.engine.einsum.named import find_named
from backhaul_server.engine.einsum.reoptimisation import SIZE, best_tree, reoptimise
from backhaul_server.engine.einsum.starts import Starts
from backhaul_server.engine.einsum.trees import Labels, Network, Tree
from backhaul_server.engine.interruption import Watched

_SECONDS: Final = 1e-9
"""How long to search for each multiplication of what is found.

Some four times as long as value and gradient take: an order is kept, and mostly used often.
"""
_MOST: Final = 4.0
"""How long to search at most, in seconds."""

_PLANNED: Final = 2e-4
"""How long planning an operand's step takes anyhow: a search may take as long, however small all is."""

# What the parts of a search take, in seconds; measured.
_START: Final = 1e-4  # a start, per operand
_SCAN: Final = 2e-7  # a start, per pair of operands
_MOVE: Final = 1e-6  # of annealing
_SPLIT: Final = 2e-7  # of exact search

_UNWATCHED: Final = 100
"""Operands up to which a single search of opt_einsum need not be stopped: it takes some 0.1 s."""

_SWEEPS: Final = 100  # of annealing, for a new tree; ten times as many for the best one
_NEW: Final = 0.6  # the part of the time for new trees


def find_order(
    members: Sequence[Labels], kept: Labels, sizes: Sizes, search: str | None = None
) -> list[Ints]:
    """An order as an opt_einsum path in single-assignment form: the k-th result is ``len(members) + k``.

    Args:
        members: the labels of each operand.
        kept: labels that the result has.
        sizes: of the labels.
        search: a name of ``optimize.LIMITS``; None for the search described above.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE when the named search is not installed, or would take too long.
    """
    if len(members) == 2:
        return [(0, 1)]
    size_of = {label: max(sizes[label], 1) for each in members for label in each}
    if len(members) > _UNWATCHED:
        size_of = Watched(size_of)
    if search is not None and search != "auto-hq":
        return find_named(search, members, kept, size_of)
    network = Network.of(members, kept, size_of)
    if len(members) <= SIZE:
        return best_tree(network).order()
    starts = Starts(members, kept, size_of, network)
    found = _Search(network, starts.auto(), patient=search is not None)
    found.refine(found.best.copy(), 0, random.Random(0))
    trial = 0
    cost = (_START + _SCAN * len(members)) * len(members)
    while found.goes_on(_NEW, cost):
        rng = random.Random(trial)
        start = starts.greedy if trial % 2 else starts.elimination
        order = start(trial // 2, rng)
        found.spent += cost
        found.refine(Tree.of(network, order), _SWEEPS, rng)
        trial += 1
    while found.goes_on(1.0, 0.0):
        found.refine(found.best.copy(), 10 * _SWEEPS, random.Random(trial))
        trial += 1
    return found.best.order()


class _Search:
    """The cheapest tree so far, and for how long was searched (by estimate)."""

    def __init__(self, network: Network, first: list[Ints], patient: bool) -> None:
        self.best = Tree.of(network, first)
        self.spent = 0.0
        self._least = self.best.cost()
        self._patient = patient

    def goes_on(self, share: float, cost: float) -> bool:
        """Whether what costs so much can be done in a share of the time."""
        return self.spent + cost < share * self._time()

    def refine(self, tree: Tree, sweeps: int, rng: random.Random) -> None:
        """Make a tree cheaper, and keep it if it is the cheapest."""
        nodes = len(tree.network.operands)
        left = max(self._time() - self.spent, 0.0)
        sweeps = min(sweeps, int(left / (2 * nodes * _MOVE)))
        anneal(tree, sweeps, rng)
        splits = reoptimise(tree, int(left / _SPLIT))
        # A little at least, or there would be no end where nothing can be done in the time left.
        self.spent += (sweeps + 1) * nodes * _MOVE + splits * _SPLIT
        if (cost := tree.cost()) < self._least:
            self.best, self._least = tree, cost

    def _time(self) -> float:
        """How long to search. For what is computed soon that is not long, unless it was asked for."""
        if self._patient:
            return _MOST
        planning = _PLANNED * len(self.best.network.operands)
        return min(_MOST, planning + _SECONDS * self._least)
