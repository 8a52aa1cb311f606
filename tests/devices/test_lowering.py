"""What contractions come to on a device: products of matrices, one call for a stack of them."""

from __future__ import annotations

import numpy as np
import pytest
from tests.devices.recorded import RecordedNamespace

from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

PRODUCTS = {"dot", "einsum", "matmul", "multiply", "sum", "vecdot"}


@pytest.mark.parametrize(
    ("subscripts", "shapes", "expected"),
    [
        ("ij,jk->ik", ((20, 30), (30, 40)), {"dot": 1}),
        ("bij,bjk->bik", ((8, 20, 30), (8, 30, 40)), {"matmul": 1}),
        ("ibj,kjb->bik", ((20, 8, 30), (40, 30, 8)), {"matmul": 1}),
        ("aij,jkb->aikb", ((8, 20, 30), (30, 40, 2)), {"dot": 1}),
        ("ij,jk,kl->il", ((20, 30), (30, 40), (40, 50)), {"dot": 2}),
    ],
)
def test_products_of_a_value_and_its_derivatives(
    subscripts: str, shapes: tuple[tuple[int, ...], ...], expected: dict[str, int]
) -> None:
    xp = RecordedNamespace()
    tape = Tape(Engine(xp))
    rng = np.random.default_rng(0)
    leaves = [tape.leaf(xp.from_host(rng.normal(size=each))) for each in shapes]
    xp.counts.clear()
    y = tape.apply("einsum", leaves, subscripts=subscripts)
    assert {name: n for name, n in xp.counts.items() if name in PRODUCTS} == expected
    ct = xp.from_host(rng.normal(size=y.aval.shape))
    xp.counts.clear()
    tape.pullback(y, [ct])
    ((name, times),) = expected.items()
    assert {each: n for each, n in xp.counts.items() if each in PRODUCTS} == {name: 2 * times}
