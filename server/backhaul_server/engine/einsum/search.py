"""The search for an order of contraction.

opt_einsum's searches do the work. Its greedy one depends much on how a pair's cost weighs the result
against the operands (Gray and Kourtis 2021, Hyper-optimized tensor network contraction, appendix A), so
for many operands it is run with several weights, with noise, and on altered sizes, and the best order
is taken.

The same expression gives the same order in every process: random numbers are seeded, how long to
search follows from estimated costs and not from a clock, and labels are integers, whose hashes, and
so the order of sets of them, are the same everywhere.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final, cast

import opt_einsum

from backhaul_server.engine.einsum.layout import Ints, Sizes

Labels = frozenset[int]
Cost = Callable[..., float]

_FEW: Final = 8  # up to here opt_einsum's own choice is nearly exhaustive
_MAX_TRIALS: Final = 128
_TRIAL_SECONDS: Final = 2e-4  # of one greedy search, per operand; measured
_ELEMENT: Final = (
    32  # writing an element of a result costs about as much as so many multiplications
)
_SECONDS: Final = 1e-9  # value and gradient, per multiplication of the value; measured


def find_order(members: Sequence[Labels], kept: Labels, sizes: Sizes) -> list[Ints]:
    """An order as an opt_einsum path in single-assignment form: the k-th result is ``len(members) + k``.

    Args:
        members: the labels of each operand.
        kept: labels that the result has.
        sizes: of the labels.
    """
    if len(members) == 2:
        return [(0, 1)]
    size_of = {label: max(sizes[label], 1) for each in members for label in each}
    auto, greedy = _searches()
    best = _single_assignment(auto(list(members), kept, size_of, None), len(members))
    if len(members) <= _FEW:
        return best
    least = _estimate(best, members, kept, size_of)
    seen = (size_of, _flattened(size_of), _thinned(members, kept, size_of))
    for trial in range(_MAX_TRIALS):
        if trial * len(members) * _TRIAL_SECONDS > least * _SECONDS:
            break
        cost = _noisy_cost(random.Random(trial))
        order = greedy(list(members), kept, seen[trial % len(seen)], cost_fn=cost)
        if (estimate := _estimate(order, members, kept, size_of)) < least:
            best, least = order, estimate
    return best


def _searches() -> tuple[Callable[..., Any], Callable[..., Any]]:
    # Typed for labels that are strings; any hashable will do.
    return cast(Any, opt_einsum.paths.auto), cast(Any, opt_einsum.paths.ssa_greedy_optimize)


def _single_assignment(path: Iterable[Ints], count: int) -> list[Ints]:
    left, order = list(range(count)), []
    for number, step in enumerate(path):
        order.append(tuple(left[position] for position in step))
        for position in sorted(step, reverse=True):
            del left[position]
        left.append(count + number)
    return order


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


def _estimate(
    order: Iterable[Ints], members: Sequence[Labels], kept: Labels, sizes: dict[int, int]
) -> float:
    """The cost of an order in multiplications."""
    uses = Counter(label for each in (*members, kept) for label in each)
    logs = {label: math.log2(size) for label, size in sizes.items()}
    labels = list(members)
    total = 0.0
    for step in order:
        result = labels[step[0]]
        for operand in step[1:]:
            both = result & labels[operand]
            every = result | labels[operand]
            uses.subtract(both)
            result = every - frozenset(label for label in both if uses[label] == 1)
            total += 2.0 ** sum(logs[label] for label in every)
            total += _ELEMENT * 2.0 ** sum(logs[label] for label in result)
        labels.append(result)
    return total
