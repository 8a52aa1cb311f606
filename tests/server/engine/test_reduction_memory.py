"""What ops over and along axes take is not more than is predicted."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tests.traced import traced

from backhaul_proto.catalog.avals import aval
from backhaul_server.engine.dual import Dual, dual
from backhaul_server.engine.engine import Engine

ENGINE = Engine()
NAMES = (
    "sum",
    "mean",
    "prod",
    "max",
    "min",
    "var",
    "std",
    "median",
    "logsumexp",
    "softmax",
    "log_softmax",
    "linalg.vector_norm",
    "sort",
    "cumulative_sum",
    "cumulative_prod",
    "cumulative_logsumexp",
    "diff",
    "all",
    "count_nonzero",
    "argmax",
    "argsort",
)
CALLS: list[tuple[str, dict[str, Any]]] = [
    *((name, {"axis": axis}) for name in NAMES for axis in (0, 1)),
    ("prod", {}),
    ("median", {}),
    ("quantile", {"q": 0.3, "axis": 0}),
    ("cumulative_prod", {"axis": 1, "reverse": True}),
    *(
        ("linalg.vector_norm", {"axis": 1, "ord": order})
        for order in (0, 1, 3, -1, np.inf, -np.inf)
    ),
]


@pytest.mark.parametrize(("name", "attributes"), CALLS)
def test_no_more_is_taken_than_predicted(name: str, attributes: dict[str, Any]) -> None:
    x = np.random.default_rng(0).uniform(0.5, 1.5, (300, 400))
    call = ENGINE.prepare(name, attributes, (aval(x.shape, x.dtype),))
    needs = {"needs": [True]} if call.keeps else {}
    spare = x.nbytes // 10  # small arrays and Python's own objects

    result = call.forward(x, **needs)
    assert _peak(lambda: call.forward(x, **needs)) <= call.need.value + call.need.kept + spare
    if not call.flows:
        return
    y, residual = result if call.keeps else (result, None)
    kept = {"residual": residual} if call.keeps else {}
    ct, dx = np.ones(y.shape), np.ones(x.shape)

    def gradient() -> Any:
        return call.cotangents(ENGINE.plain, ct, y, (x,), (True,), **kept)

    def hvp() -> Any:
        assert call.jvp is not None
        dy = call.jvp(ENGINE.plain, y, x, dx, **kept)
        moved = {"residual": dy[1]} if call.keeps else {}
        duals = dual(y, dy[0] if call.keeps else dy), (Dual(x, dx),)
        return dy, call.cotangents(ENGINE.duals, Dual(ct, ct), *duals, (True,), **moved)

    assert _peak(gradient) <= call.need.gradient + spare
    assert _peak(hvp) <= call.need.hvp + spare


def _peak(job: Callable[[], Any]) -> int:
    """Bytes at the peak of the job, its result included; what it makes the first time is made before."""
    job()
    return traced(job).peak
