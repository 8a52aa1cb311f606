"""By ExecuteStream: arrays that take several chunks each way, and those that take none."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from conformance.cases.building import CaseBuilder
from conformance.vector import Vector


def vectors(corpus: Path) -> list[Vector]:
    """Small enough for a repository, large enough for a few chunks of 64 KiB; the corpus is not asked."""
    rng = np.random.default_rng(11)
    # Multiples of 1/16, whose sums and products are exact in any order.
    x = np.round(rng.normal(size=(97, 101)) * 16) / 16
    made = []

    case = CaseBuilder("a-large-leaf-and-its-value", chunked=True)
    case.values(case.leaf(x))
    made.append(case.vector(exact=True))

    case = CaseBuilder("arrays-that-share-a-chunk", chunked=True)
    sources = [case.leaf(x[:7]), case.constant(np.arange(5)), case.leaf(x[:3].astype("float32"))]
    case.values(*reversed(sources))
    made.append(case.vector(exact=True))

    case = CaseBuilder("an-array-without-elements-among-others", chunked=True)
    sources = [case.leaf(x[:2]), case.leaf(np.zeros((0, 3))), case.constant(True), case.leaf(2.5)]
    case.values(*sources)
    made.append(case.vector(exact=True))

    case = CaseBuilder("gradient-and-hvp-of-a-large-leaf", chunked=True)
    a = case.leaf(x[:40], x[40:80])
    loss = case.call("sum", case.call("square", a))
    case.values(loss)
    case.pullback(loss, [a])
    case.hvp(loss, [a])
    made.append(case.vector())

    case = CaseBuilder("a-cotangent-in-chunks", chunked=True)
    a = case.leaf(x[:30].astype("float32"))
    case.pullback(case.call("square", a), [a], x[30:60].astype("float32"))
    made.append(case.vector())

    case = CaseBuilder("several-streams-of-one-session", chunked=True, split=True)
    a = case.leaf(x[:20], x[20:40])
    half = case.call("multiply", a, a)
    loss = case.call("sum", half)
    case.values(half, loss)
    case.pullback(loss, [a])
    case.hvp(loss, [a])
    made.append(case.vector())

    case = CaseBuilder("an-error-by-stream", chunked=True)
    a = case.leaf(x[:2])
    case.values(case.call_as_sent("no_such_op", [a], {}))
    made.append(case.refusal("UNKNOWN_OP", "UNIMPLEMENTED", op="no_such_op"))
    return made
