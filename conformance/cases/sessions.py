"""A session over several requests: sequence numbers, nodes of earlier blocks, several results."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from conformance.cases.building import CaseBuilder
from conformance.vector import Vector


def vectors(corpus: Path) -> list[Vector]:
    """Cases sent a call at a time; the corpus is not asked."""
    rng = np.random.default_rng(13)
    x, v = rng.normal(size=(3, 3)), rng.normal(size=(3, 3))
    made = []

    case = CaseBuilder("a-chain-a-block-each", split=True)
    a = node = case.leaf(x, v)
    for op in ("sin", "exp", "square", "tanh"):
        node = case.call(op, node)
    loss = case.call("sum", node)
    case.values(node, loss)
    case.pullback(loss, [a])
    case.hvp(loss, [a])
    made.append(case.vector())

    case = CaseBuilder("operands-from-several-blocks", split=True)
    a, b, c = case.leaf(x, v), case.leaf(v), case.constant(np.arange(3.0))
    product = case.call("matmul", b, a)
    total = case.call("add", product, a)
    loss = case.call("einsum", total, product, c, a, subscripts="ij,ij,j,ji->")
    case.values(loss, total, c)
    case.pullback(loss, [b, a])
    case.hvp(loss, [a, b])
    made.append(case.vector())

    case = CaseBuilder("an-operand-twice", split=True)
    a = case.leaf(x, v)
    loss = case.call("sum", case.call("multiply", a, a))
    case.values(loss)
    case.pullback(loss, [a])
    made.append(case.vector())

    case = CaseBuilder("several-results-of-a-block-before", split=True)
    a = case.leaf(x, v)
    row = case.call("unstack", a, axis=0, results=3)
    loss = case.call("sum", case.call("multiply", row, row + 2))
    case.values(row + 1, loss)
    case.pullback(loss, [a])
    case.hvp(loss, [a])
    made.append(case.vector())

    for split in (False, True):
        case = CaseBuilder(f"no-calls-split-{split}".lower(), split=split)
        case.values(case.leaf(x), case.constant(7))
        made.append(case.vector(exact=True))

    for split in (False, True):
        case = CaseBuilder(f"a-chain-of-fifty-split-{split}".lower(), split=split)
        a = node = case.leaf(x / 10, v)
        for _ in range(50):
            node = case.call("sin", node)
        loss = case.call("sum", node)
        case.values(loss)
        case.pullback(loss, [a])
        case.hvp(loss, [a])
        made.append(case.vector())

    case = CaseBuilder("an-error-in-a-later-block", split=True)
    a = case.leaf(x)
    total = case.call("sum", a, axis=0)
    case.values(case.call("einsum", total, a, subscripts="ij,jk->ik"))
    made.append(case.refusal("EINSUM_RANK", "INVALID_ARGUMENT"))
    return made
