"""What a contraction path takes: steps, multiplications and memory, from shapes alone."""

from __future__ import annotations

from collections import Counter
from functools import lru_cache
from math import prod

import numpy as np

from backhaul_proto.catalog.einsum import Einsum, symbol
from backhaul_proto.messages import Contraction, ContractionCost
from backhaul_server.engine.einsum.layout import Ints, volume
from backhaul_server.engine.einsum.tree import Pair, contraction_tree


@lru_cache(maxsize=1024)
def explain(
    einsum: Einsum, dtypes: tuple[np.dtype, ...], result: np.dtype, keep_bytes: int | None
) -> ContractionCost:
    """The steps of an einsum, and its peaks of memory.

    Labels are named by `symbol`, in the order of their first appearance. All
    intermediates are kept, whatever ``keep_bytes`` says.
    """
    sizes = einsum.sizes
    loop = prod(sizes) * max(1, len(einsum.inputs) - 1)
    operands = sum(
        prod(shape) * dtype.itemsize for shape, dtype in zip(einsum.shapes, dtypes, strict=True)
    )
    size = prod(einsum.shape)
    if len(einsum.inputs) == 1:
        made = size * result.itemsize
        same = einsum.inputs[0] == einsum.output
        step = Contraction((0,), _written([*einsum.inputs], einsum.output), 0, size, True)
        value = made + operands
        return ContractionCost(() if same else (step,), loop, size, made, value, 2 * value)
    pairs = _pairs(einsum)
    steps = _steps(einsum, pairs)
    bytes_of = [each.elements * result.itemsize for each in steps]
    kept, largest = sum(bytes_of), max(bytes_of)
    gradient = kept + operands + 2 * largest
    return ContractionCost(
        tuple(steps),
        loop,
        max(each.elements for each in steps),
        kept,
        gradient,
        2 * gradient + kept,
    )


def _pairs(einsum: Einsum) -> list[Pair]:
    standing = Counter(label for term in einsum.inputs for label in set(term))
    standing.update(set(einsum.output))
    terms = [frozenset(label for label in term if standing[label] > 1) for term in einsum.inputs]
    present = frozenset().union(*einsum.inputs)
    output = frozenset(einsum.output) & present
    return contraction_tree(terms, output, einsum.sizes, einsum.groups)


def _steps(einsum: Einsum, pairs: list[Pair]) -> list[Contraction]:
    terms: list[Ints] = list(einsum.inputs)
    left = list(range(len(terms)))
    steps = []
    for number, (first, second, labels) in enumerate(pairs):
        last = number == len(pairs) - 1
        result = einsum.output if last else tuple(sorted(labels))
        positions = tuple(sorted((left.index(first), left.index(second))))
        every = frozenset(terms[first]) | frozenset(terms[second]) | frozenset(result)
        steps.append(
            Contraction(
                positions,
                _written([terms[left[each]] for each in positions], result),
                volume(every, einsum.sizes),
                volume(result, einsum.sizes),
                not last,
            )
        )
        left = [each for each in left if each not in (first, second)] + [len(terms)]
        terms.append(result)
    return steps


def _written(terms: list[Ints], result: Ints) -> str:
    inputs = ",".join("".join(map(symbol, term)) for term in terms)
    return f"{inputs}->{''.join(map(symbol, result))}"
