"""Exact search within a contraction tree: a few neighbouring contractions are put into their best order.

Dynamic programming over the sets of arrays (Pfeifer, Haegeman and Verstraete 2014, Faster identification of
optimal contraction sequences for tensor networks), applied to subtrees of a tree that another search found
(Gray and Kourtis 2021, Hyper-optimized tensor network contraction).
"""

from __future__ import annotations

import math
from typing import Final

from backhaul_server.engine.einsum.layout import Ints
from backhaul_server.engine.einsum.trees import Network, Tree
from backhaul_server.engine.interruption import checkpoint

Split = tuple[int, int]

SIZE: Final = 8
"""How many arrays are put into their best order at once."""


def reoptimise(tree: Tree, splits: int, size: int = SIZE) -> int:
    """Make the tree cheaper until no subtree of ``size`` leaves can be, or about ``splits`` were tried.

    Returns:
        How many ways to split a set of arrays were tried.
    """
    tried = 0
    solved: set[tuple[int, ...]] = set()
    improved = True
    while improved:
        improved = False
        for node in tree.inner():
            if tried >= splits:
                return tried
            checkpoint()
            inner, leaves = _subtree(tree, node, size)
            if len(leaves) < 3:
                continue
            problem = (tree.labels[node], *sorted(tree.labels[leaf] for leaf in leaves))
            if problem in solved:
                continue
            solved.add(problem)
            tried += 3 ** len(leaves) // 2
            improved |= _improve(tree, inner, leaves)
    return tried


def _subtree(tree: Tree, node: int, size: int) -> tuple[list[int], list[int]]:
    """The dearest contractions that hang together below a node, and what goes into them."""
    count = len(tree.network.operands)
    volumes, labels = tree.network.volumes, tree.labels
    inner = [node]
    leaves = [tree.left[node], tree.right[node]]
    while len(leaves) < size:
        best, most = -1, 0.0
        for place, leaf in enumerate(leaves):
            if leaf >= count:
                cost = volumes[labels[tree.left[leaf]] | labels[tree.right[leaf]]]
                if cost > most:
                    best, most = place, cost
        if best < 0:
            break
        inner.append(leaves[best])
        leaves[best : best + 1] = (tree.left[leaves[best]], tree.right[leaves[best]])
    return inner, leaves


def _improve(tree: Tree, inner: list[int], leaves: list[int]) -> bool:
    """Put the contractions ``inner`` of ``leaves``, the first the last of them, into their best order."""
    labels, left, right = tree.labels, tree.left, tree.right
    volumes, written = tree.network.volumes, tree.network.written
    now = sum(
        volumes[labels[left[node]] | labels[right[node]]] + written[labels[node]] for node in inner
    )
    found = solve(
        tree.network, [labels[leaf] for leaf in leaves], labels[inner[0]], now * (1 - 1e-9)
    )
    if found is None:
        return False
    results, best = found
    names = {1 << place: leaf for place, leaf in enumerate(leaves)}
    free = iter(inner)
    every = (1 << len(leaves)) - 1
    waiting = [every]
    names[every] = next(free)
    while waiting:
        members = waiting.pop()
        node = names[members]
        parts = best[members]
        for part in parts:
            if part not in names:
                names[part] = next(free)
                waiting.append(part)
        left[node], right[node] = names[parts[0]], names[parts[1]]
        labels[node] = results[members]
    return True


def solve(
    network: Network, arrays: list[int], kept: int, limit: float = math.inf
) -> tuple[list[int], dict[int, Split]] | None:
    """The best order of a few arrays, given their labels and those of the result, below a cost.

    Returns:
        The labels of the result of each set of arrays (a bit each), and for those that can be part of
        a best order, the two sets to make it of. None when all orders cost the limit or more.
    """
    volumes, written = network.volumes, network.written
    total = 1 << len(arrays)
    every = total - 1
    joined = [0] * total
    for place, array in enumerate(arrays):
        bit = 1 << place
        for members in range(bit):
            joined[bit | members] = joined[members] | array
    results = [joined[members] & (joined[every ^ members] | kept) for members in range(total)]
    results[every] = kept
    costs = [math.inf] * total
    for place, array in enumerate(arrays):
        costs[1 << place], results[1 << place] = 0.0, array
    best: dict[int, Split] = {}
    for members in range(3, total):
        rest = members & (members - 1)
        if not rest:
            continue
        if not members & 63:
            checkpoint()
        own = written[results[members]]
        least = limit - own
        if least <= 0.0:
            continue
        part = rest
        while part:  # all sets without the lowest member
            other = members ^ part
            cost = costs[part] + costs[other]
            if cost < least:
                cost += volumes[results[part] | results[other]]
                if cost < least:
                    least = cost
                    best[members] = (other, part)
            part = (part - 1) & rest
        if members in best:
            costs[members] = least + own
    return (results, best) if every in best else None


def best_tree(network: Network) -> Tree:
    """The cheapest tree there is. For few operands: the time grows as three to their number."""
    found = solve(network, list(network.operands), network.kept)
    assert found is not None  # only a limit can exclude all
    _, best = found
    count = len(network.operands)
    every = (1 << count) - 1
    needed, waiting = [], [every]
    while waiting:
        members = waiting.pop()
        if members & (members - 1):
            needed.append(members)
            waiting += best[members]
    names = {1 << place: place for place in range(count)}
    order: list[Ints] = []
    for members in reversed(needed):
        order.append(tuple(names[part] for part in best[members]))
        names[members] = count + len(order) - 1
    return Tree.of(network, order)
