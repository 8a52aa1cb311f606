"""The values of many tensors in one trip."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.client.flaky import flaky

import backhaul as bh


def test_one_trip_for_all_that_is_not_known() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(np.arange(3.0))
        y, z = x + x, x * x
        before = transport.calls.total()
        assert [v.tolist() for v in bh.fetch(z, x, y, z)] == [
            [0.0, 1.0, 4.0],
            [0.0, 1.0, 2.0],
            [0.0, 2.0, 4.0],
            [0.0, 1.0, 4.0],
        ]
        assert transport.calls.total() == before + 1
        bh.fetch(y, z, x)
        assert transport.calls.total() == before + 1
        assert bh.fetch() == []


def test_arrays_are_the_callers_own() -> None:
    for n in (3, 100_000):  # kept with the tensor, and not
        x = bh.Tape().leaf(np.ones(n))
        y = x + x
        first, second = bh.fetch(y, y)
        first[:] = 7.0
        assert second[0] == 2.0
        assert bh.fetch(y)[0][0] == 2.0


def test_constants_that_share_a_node() -> None:
    tape = bh.Tape()
    content = np.arange(20_000.0)
    one, two = tape.constant(content), tape.constant(content.copy())
    a, b = bh.fetch(one, two)
    a[:] = 0.0
    np.testing.assert_array_equal(b, content)


def test_tensors_of_several_tapes() -> None:
    x, y = bh.Tape().leaf(1.0), bh.Tape().leaf(2.0)
    assert [float(v) for v in bh.fetch(x + 1.0, y + 1.0, x)] == [2.0, 3.0, 1.0]


def test_what_is_refused() -> None:
    tape = bh.Tape()
    x = tape.leaf(1.0)
    given: list[Any] = [1.0, [x], np.ones(2), None]
    for each in given:
        with pytest.raises(bh.InvalidArgument):
            bh.fetch(x, each)
    gone = x + x
    tape.release(gone)
    with pytest.raises(bh.MissingNode):
        bh.fetch(x, gone)
