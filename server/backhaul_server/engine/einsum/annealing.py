"""Simulated annealing of a contraction tree.

A move turns three arrays a, b, c that are contracted as ((a, b), c) into ((a, c), b): all that it changes is
the inner result. Moves that cost more are accepted too, ever more seldom (Kalachev, Panteleev and Yung 2021,
Multi-tensor contraction for XEB verification of quantum circuits).
"""

from __future__ import annotations

import random
from typing import Final

from backhaul_server.engine.einsum.trees import Tree
from backhaul_server.engine.interruption import checkpoint

HOT: Final = 0.5
"""The temperature to begin at: there, moves to e times the cost are accepted with probability exp(-2)."""
_COLD: Final = 0.01


def anneal(tree: Tree, sweeps: int, rng: random.Random, hot: float = HOT) -> None:
    """Change the tree by ``sweeps`` rounds of moves, one at each node a round, ever colder.

    In the end it may cost more than before.
    """
    left, right, labels = tree.left, tree.right, tree.labels
    volumes, written = tree.network.volumes, tree.network.written
    count = len(tree.network.operands)
    nodes = range(count, len(labels))
    draw = rng.random
    for sweep in range(sweeps):
        checkpoint()
        temperature = hot * (_COLD / hot) ** (sweep / sweeps)
        for node in nodes:
            inner, c = left[node], right[node]
            if c >= count and (inner < count or draw() < 0.5):
                inner, c = c, inner
            if inner < count:
                continue
            a, b = left[inner], right[inner]
            if draw() < 0.5:
                a, b = b, a
            la, lb, lc, before = labels[a], labels[b], labels[c], labels[inner]
            result = labels[node]
            after = (la | lc) & (lb | result)
            old = volumes[la | lb] + written[before] + volumes[before | lc]
            new = volumes[la | lc] + written[after] + volumes[after | lb]
            if new <= old or new < old * (1.0 - draw()) ** -temperature:
                left[inner], right[inner], labels[inner] = a, c, after
                left[node], right[node] = inner, b
