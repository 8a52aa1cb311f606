"""The order in which a tree's steps are run: whole subtrees, so that little waits in memory.

Of a step's subtrees the one goes first that needs more room beyond its result, as Liu (1986, On the
storage requirement in the out-of-core multifrontal method) shows to be best among such orders.
"""

from __future__ import annotations

from collections.abc import Sequence

from backhaul_server.engine.einsum.layout import Ints


def subtree_order(reads: Sequence[Ints], leaves: int, elements: Sequence[int]) -> list[int]:
    """The slots of the results in an order in which to make them.

    Args:
        reads: for each step the slots that it reads; each slot is read once.
        leaves: how many slots, the first, are given; the k-th step's result is ``leaves + k``.
        elements: of each slot.
    """
    peaks = [0] * leaves  # elements that stand at once until a slot is made, leaves apart
    first_best: list[Ints] = []
    for slot, read in enumerate(reads, leaves):
        best = tuple(sorted(read, key=lambda each: _size(each, leaves, elements) - peaks[each]))
        waiting = peak = 0
        for each in best:
            peak = max(peak, waiting + peaks[each])
            waiting += _size(each, leaves, elements)
        first_best.append(best)
        peaks.append(max(peak, waiting + elements[slot]))
    order: list[int] = []
    pending = [leaves + len(reads) - 1] if reads else []
    while pending:  # from the last back, so the subtree that goes first comes out last
        slot = pending.pop()
        order.append(slot)
        pending.extend(each for each in first_best[slot - leaves] if each >= leaves)
    return order[::-1]


def _size(slot: int, leaves: int, elements: Sequence[int]) -> int:
    return elements[slot] if slot >= leaves else 0
