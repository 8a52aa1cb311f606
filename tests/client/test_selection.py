"""clip takes NumPy's and the array API's arguments, and keeps the dtype without a bound."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import backhaul as bh

VALUES = np.array([-2.0, -1.0, 0.5, 3.0])


@pytest.mark.parametrize("dtype", ["f4", "f8", "i1", "u2", "i8", "?"])
def test_a_bound_may_be_left_out(dtype: str) -> None:
    values = np.abs(VALUES).astype(dtype) if dtype in ("u2", "?") else VALUES.astype(dtype)
    x = bh.Tape().constant(values)
    one = values.dtype.type(1)
    for bounds in ((None, None), (one, None), (None, one)):
        got = bh.clip(x, *bounds)
        assert got.dtype == values.dtype
        expected = values if bounds == (None, None) else np.clip(values, *bounds)
        np.testing.assert_array_equal(got.numpy(), expected)


def test_bounds_by_either_name() -> None:
    x = bh.Tape().leaf(VALUES)
    calls: list[Any] = [
        bh.clip(x, -1, 1),
        bh.clip(x, a_min=-1, a_max=1),
        bh.clip(x, min=-1, max=1),
        bh.clip(x, -1, max=1),
        x.clip(-1, 1),
        np.clip(x, -1, 1),
    ]
    for each in calls:
        np.testing.assert_array_equal(each.numpy(), [-1.0, -1.0, 0.5, 1.0])
    with pytest.raises(bh.InvalidArgument, match="two names") as error:
        bh.clip(x, -1, min=0)
    assert error.value.reason == "INVALID_ATTRIBUTE"


def test_gradients_flow_to_bounds() -> None:
    tape = bh.Tape()
    x, lower, upper = tape.leaf(VALUES), tape.leaf(-1.5), tape.leaf([1.0, 1.0, 0.0, 1.0])
    grads = tape.pullback(bh.sum(bh.clip(x, lower, upper)))
    np.testing.assert_array_equal(grads[x], [0, 1, 0, 0])
    assert grads[lower] == 1.0
    np.testing.assert_array_equal(grads[upper], [0, 0, 1, 1])


def test_a_missing_bound_stays_weak_beside_the_other() -> None:
    x = bh.Tape().leaf(VALUES.astype("f4"))
    assert bh.clip(x, None, 1.0).dtype == np.dtype("f4")
    assert bh.clip(x, np.float64(0.0), None).dtype == np.dtype("f8")
