"""Contraction trees by elimination: labels are summed one after the other.

All arrays with a label are multiplied, then it is summed. Next comes the label for which that gives
the smallest product: the min-degree rule of sparse factorisation, here by volume. Where labels stand in many
operands, as those of graphical models do, this finds what a search by pairs does not (Dechter 1999,
Bucket elimination).
"""

from __future__ import annotations

import math
import random
from collections.abc import Iterator

from backhaul_server.engine.einsum.layout import Ints
from backhaul_server.engine.einsum.trees import Network
from backhaul_server.engine.interruption import checkpoint


def eliminate(network: Network, rng: random.Random, noise: float) -> list[Ints]:
    """An order of pairs in single-assignment form.

    Args:
        network: what is contracted.
        rng: the source of noise.
        noise: how much of it there is in the choice of labels, as the scale of a factor's logarithm.
    """
    volumes = network.volumes
    arrays = dict(enumerate(network.operands))
    order: list[Ints] = []
    joined = _joined(network)
    bias = {bit: noise * rng.gauss(0.0, 1.0) for bit in joined}
    scores = {bit: math.log2(volumes[labels]) + bias[bit] for bit, labels in joined.items()}

    def multiply(numbers: list[int]) -> int:
        """Small arrays first, each with what gives the smallest product."""
        while len(numbers) > 1:
            numbers.sort(key=lambda number: volumes[arrays[number]])
            checkpoint()
            first = numbers.pop(0)
            labels = arrays.pop(first)
            second = min(numbers, key=lambda number: volumes[arrays[number] | labels])
            numbers.remove(second)
            order.append((first, second))
            result = len(network.operands) + len(order) - 1
            arrays[result] = labels | arrays.pop(second)
            numbers.append(result)
        return numbers[0]

    while scores:
        checkpoint()
        bit = min(scores, key=scores.__getitem__)
        del scores[bit]
        result = multiply([number for number, labels in arrays.items() if labels & bit])
        arrays[result] &= ~bit
        touched = joined.pop(bit)
        touched &= ~bit
        for other in _bits(touched & ~network.kept):
            joined[other] = (joined[other] | touched) & ~bit
            scores[other] = math.log2(volumes[joined[other]]) + bias[other]
    multiply(list(arrays))
    return order


def _joined(network: Network) -> dict[int, int]:
    """For each label that is summed, the labels of all operands that have it."""
    joined: dict[int, int] = {}
    for operand in network.operands:
        for bit in _bits(operand & ~network.kept):
            joined[bit] = joined.get(bit, 0) | operand
    return joined


def _bits(labels: int) -> Iterator[int]:
    while labels:
        bit = labels & -labels
        labels ^= bit
        yield bit
