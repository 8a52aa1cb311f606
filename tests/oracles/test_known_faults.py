"""Derivatives that others got wrong, right here: value, gradient and H·v at the reported points."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
from tests.oracles.faults import Fault
from tests.oracles.known_faults import FAULTS

import backhaul as bh
from backhaul_proto.errors import BackhaulError

Array = np.ndarray[Any, Any]


@pytest.fixture(scope="module")
def embedded() -> Iterator[bh.Connection]:
    with bh.connect("embedded") as connection:
        yield connection


def point(given: Any) -> Array:
    return np.asarray(given, complex if np.iscomplexobj(given) else float)


@pytest.mark.parametrize("fault", FAULTS, ids=lambda each: f"{each.name} {each.origin}")
def test_a_fault_of_others(fault: Fault, embedded: bh.Connection) -> None:
    points = [point(x) for x in fault.at]
    directions = fault.along or [np.ones_like(x) for x in points]
    with bh.Tape(embedded) as tape:
        leaves = [
            tape.leaf_with_tangent(x, np.asarray(v, x.dtype))
            for x, v in zip(points, directions, strict=True)
        ]
        if fault.refused:
            with pytest.raises(BackhaulError) as error:
                refused(fault, tape, leaves)
            assert error.value.reason == fault.refused
            return
        result = fault.loss(*leaves)
        total = summed(result)
        gradients = tape.pullback(total, wrt=leaves)
        close(fault, [gradients[leaf] for leaf in leaves], fault.gradients)
        if fault.value is not None:
            close(fault, [result.numpy()], [fault.value])
        if fault.products is not None:
            moved = tape.hvp(total, wrt=leaves)
            close(fault, [moved.gradients[leaf] for leaf in leaves], fault.gradients)
            close(fault, [moved.hvp[leaf] for leaf in leaves], fault.products)


def refused(fault: Fault, tape: bh.Tape, leaves: list[Any]) -> None:
    total = summed(fault.loss(*leaves))
    if fault.value is not None:
        np.testing.assert_array_equal(total.numpy(), fault.value)
    tape.pullback(total, wrt=leaves)


def summed(result: Any) -> Any:
    return bh.sum(bh.real(result))


def close(fault: Fault, found: list[Array], expected: Any) -> None:
    for got, right in zip(found, expected, strict=True):
        right = np.asarray(right)
        assert got.shape == right.shape or not right.size
        scale = max(1.0, float(np.max(np.abs(right[np.isfinite(right)]), initial=0)))
        np.testing.assert_allclose(got, right, fault.tolerance, fault.tolerance * scale)
