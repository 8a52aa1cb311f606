"""Whole programs: those of the corpus that are no single einsum, and the ways to ask."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
from conformance.cases import corpus as corpus_cases
from conformance.cases.building import CaseBuilder
from conformance.vector import Vector

MOST_BYTES: Final = 12000


def vectors(corpus: Path) -> list[Vector]:
    """The corpus's, then our own."""
    made = (
        corpus_cases.checked(case, MOST_BYTES)
        for case in corpus_cases.load(corpus)
        if case["kind"] != "einsum"
    )
    return [*(each for each in made if each is not None), *questions()]


def questions() -> list[Vector]:
    """A cotangent, tangents that come with the question, intermediate nodes, leaves that are not reached."""
    rng = np.random.default_rng(7)
    x, y, v = rng.normal(size=(2, 3)), rng.normal(size=(3, 2)), rng.normal(size=(2, 3))
    made = []

    case = CaseBuilder("pullback-of-an-array-with-a-cotangent")
    a, b = case.leaf(x), case.leaf(y)
    product = case.call("matmul", a, b)
    case.pullback(product, [a, b], rng.normal(size=(2, 2)))
    made.append(case.vector())

    case = CaseBuilder("pullback-with-a-complex-cotangent")
    a = case.leaf(x + 1j * v)
    square = case.call("square", a)
    case.pullback(square, [a], v - 2j * x)
    made.append(case.vector())

    case = CaseBuilder("hvp-along-tangents-of-the-question")
    a, b = case.leaf(x), case.leaf(y)
    loss = case.call("sum", case.call("exp", case.call("matmul", a, b)))
    case.hvp(loss, [a, b], {a: v})
    made.append(case.vector())

    case = CaseBuilder("tangents-of-the-question-in-place-of-the-leaves-own")
    a = case.leaf(x, x)
    loss = case.call("sum", case.call("sin", a))
    case.hvp(loss, [a], {a: v})
    made.append(case.vector())

    case = CaseBuilder("gradient-of-an-intermediate-node")
    a = case.leaf(x)
    middle = case.call("exp", a)
    loss = case.call("sum", case.call("square", middle))
    case.pullback(loss, [middle, a])
    made.append(case.vector())

    case = CaseBuilder("a-leaf-that-is-not-reached-has-zeros")
    a, b = case.leaf(x, v), case.leaf(y)
    loss = case.call("sum", case.call("square", a))
    case.pullback(loss, [b, a])
    case.hvp(loss, [b, a])
    made.append(case.vector())

    case = CaseBuilder("loss-of-one-element-with-axes")
    a = case.leaf([[1.5]], [[2.0]])
    loss = case.call("square", a)
    case.pullback(loss, [a])
    case.hvp(loss, [a])
    made.append(case.vector())

    case = CaseBuilder("a-node-asked-twice")
    a = case.leaf(x)
    loss = case.call("sum", case.call("cos", a))
    case.values(loss, a, loss)
    case.pullback(loss, [a])
    made.append(case.vector())
    return made
