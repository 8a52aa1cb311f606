"""The searches for an order that a user may ask for by name: opt_einsum's, exact ones, cotengra's.

All are bounded in time, since a server has one thread for all who compute, and find the same order again.
"""

from __future__ import annotations

import importlib
import random
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, cast

import opt_einsum

from backhaul_proto.errors import make_error
from backhaul_server.engine.einsum.layout import Ints
from backhaul_server.engine.einsum.reoptimisation import best_tree
from backhaul_server.engine.einsum.starts import Starts, single_assignment
from backhaul_server.engine.einsum.trees import Labels, Network, Tree

Search = Callable[[Sequence[Labels], Labels, dict[int, int]], list[Ints]]

_MOST_CONNECTED: Final = 1024
"""Sets of operands that hang together, whose pairs opt_einsum's dynamic programming goes through."""
_MOST_STEPS: Final = 20_000
"""Steps of greedy searches in all: some seconds."""


def find_named(
    name: str, members: Sequence[Labels], kept: Labels, sizes: dict[int, int]
) -> list[Ints]:
    """The order that the search of this name finds, in single-assignment form.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE when it is not installed, or would take too long.
    """
    return _SEARCHES[name](members, kept, sizes)


def _naive(members: Sequence[Labels], kept: Labels, sizes: dict[int, int]) -> list[Ints]:
    """From left to right."""
    count = len(members)
    return [(0, 1), *((step, count + step - 2) for step in range(2, count))]


def _optimal(members: Sequence[Labels], kept: Labels, sizes: dict[int, int]) -> list[Ints]:
    """The fewest multiplications, outer products on the way included."""
    return best_tree(Network.of(members, kept, sizes, write=0.0)).order()


def _random_greedy(trials: int) -> Search:
    """The cheapest of several greedy searches with noise; of fewer where there are many operands."""

    def search(members: Sequence[Labels], kept: Labels, sizes: dict[int, int]) -> list[Ints]:
        network = Network.of(members, kept, sizes)
        starts = Starts(members, kept, sizes, network)
        orders = (
            starts.greedy(trial, random.Random(trial))
            for trial in range(min(trials, 1 + _MOST_STEPS // len(members)))
        )
        return min(orders, key=lambda order: Tree.of(network, order).cost())

    return search


def _opt_einsum(name: str) -> Search:
    def search(members: Sequence[Labels], kept: Labels, sizes: dict[int, int]) -> list[Ints]:
        find = cast(Any, opt_einsum.paths.get_path_fn(name))
        return single_assignment(find(list(members), kept, sizes, None), len(members))

    return search


def _dynamic_programming(
    members: Sequence[Labels], kept: Labels, sizes: dict[int, int]
) -> list[Ints]:
    if _connected_sets(members, _MOST_CONNECTED) > _MOST_CONNECTED:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"einsum: optimize='dp' goes through all sets of operands that hang together by labels, and of "
            f"these {len(members)} operands more than {_MOST_CONNECTED} do. Leave optimize= out or take "
            "'auto-hq'; or find a path where you are and give that.",
            op="einsum",
            attribute="optimize",
            expected=f"at most {_MOST_CONNECTED}",
        )
    return _opt_einsum("dp")(members, kept, sizes)


def _connected_sets(members: Sequence[Labels], enough: int) -> int:
    """How many sets of operands hang together by labels; counted until there are more than enough."""
    near = [
        sum(1 << other for other, labels in enumerate(members) if labels & each) for each in members
    ]
    seen = {1 << place: mask for place, mask in enumerate(near)}
    waiting = list(seen.items())
    while waiting and len(seen) <= enough:
        group, reached = waiting.pop()
        rest = reached & ~group
        while rest:
            bit = rest & -rest
            rest ^= bit
            if group | bit not in seen:
                seen[group | bit] = reached | near[bit.bit_length() - 1]
                waiting.append((group | bit, seen[group | bit]))
    return len(seen)


def _cotengra(members: Sequence[Labels], kept: Labels, sizes: dict[int, int]) -> list[Ints]:
    """Its random greedy search, and its reconfiguration of subtrees of what that finds."""
    try:
        cotengra: Any = importlib.import_module("cotengra")
    except ImportError:
        raise make_error(
            "INVALID_ATTRIBUTE",
            "einsum: optimize='cotengra' needs a package that the server does not have. Install "
            "backhaul[cotengra] there, or leave optimize= out.",
            op="einsum",
            attribute="optimize",
        ) from None
    inputs, output = [tuple(sorted(each)) for each in members], tuple(sorted(kept))
    trials = max(1, min(32, _MOST_STEPS // 4 // len(members)))
    greedy = cotengra.RandomGreedyOptimizer(max_repeats=trials, seed=0, accel=False, parallel=False)
    path = greedy(inputs, output, sizes)
    tree = cotengra.ContractionTree.from_path(inputs, output, sizes, path=path)
    tree.subtree_reconfigure_(seed=0, maxiter=100)
    return single_assignment([tuple(step) for step in tree.get_path()], len(members))


_SEARCHES: Final[Mapping[str, Search]] = {
    "naive": _naive,
    "greedy": _opt_einsum("greedy"),
    "random-greedy": _random_greedy(32),
    "random-greedy-128": _random_greedy(128),
    "branch-1": _opt_einsum("branch-1"),
    "branch-2": _opt_einsum("branch-2"),
    "branch-all": _opt_einsum("branch-all"),
    "dp": _dynamic_programming,
    "optimal": _optimal,
    "cotengra": _cotengra,
}
