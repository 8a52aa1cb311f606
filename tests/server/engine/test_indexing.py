"""What the engine makes of indices: sums in place, and the adjoint where places repeat."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backhaul_proto.catalog.index import ARRAY
from backhaul_server.engine.add_at import add_at
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

RNG = np.random.default_rng(21)
ENGINE = Engine()

# Large enough that each of the ways of adding is taken.
SHAPE = (7, 40, 30)
MANY = RNG.integers(-7, 7, 200)
KEYS: list[tuple[Any, ...]] = [
    (3, ...),
    (slice(None, None, -2), None, slice(5), ...),
    (MANY, ...),
    (np.arange(7)[::-1].copy(), ...),
    (np.array([0, 1, 2, 3, 4, 5, 5]), ...),
    (slice(1, 5), MANY, ...),
    (slice(None), slice(None, None, 3), MANY, ...),
    (MANY, slice(None), MANY, ...),
    (2, slice(None), MANY, ...),
    (slice(None), np.int64(2), MANY, ...),
    (MANY[:, None], MANY[None, :20], ...),
    (MANY, MANY, MANY, ...),
    (None, slice(None), MANY, None, slice(3), ...),
    (slice(None), MANY, ..., MANY),
    (MANY.astype(np.uint8) % 7, ...),
]


@pytest.mark.parametrize("dtype", ["float64", "float32", "complex128"])
@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_repeated_places_are_added_to_repeatedly(key: tuple[Any, ...], dtype: str) -> None:
    target = RNG.standard_normal(SHAPE).astype(dtype)
    picked = target[key]
    updates = RNG.standard_normal(picked.shape).astype(dtype)
    if np.dtype(dtype).kind == "c":
        updates = updates * (1 + 2j)
    expected = target.astype(np.result_type(dtype, "float64"))
    np.add.at(expected, key, updates.astype(expected.dtype))
    got = target.copy()
    add_at(got, key, updates)
    assert got.dtype == dtype
    tolerance = 1e-4 if dtype == "float32" else 1e-12
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


def test_updates_broadcast_and_targets_need_not_be_contiguous() -> None:
    target = np.zeros((30, 5000)).T
    ids = RNG.integers(0, 100, 5000)
    column = RNG.standard_normal((5000, 1))
    expected = np.zeros((5000, 30))
    np.add.at(expected, ids, np.broadcast_to(column, (5000, 30)))
    add_at(target, (ids, ...), column)
    np.testing.assert_allclose(target, expected, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("bad", [7, -8])
@pytest.mark.parametrize("count", [1, 200])
def test_places_that_are_not_there_change_nothing(bad: int, count: int) -> None:
    target = np.zeros(SHAPE)
    ids = np.zeros(count, int)
    ids[-1] = bad
    with pytest.raises(IndexError):
        add_at(target, (ids, ...), np.ones((count, 40, 30)))
    if count > 1:
        assert not target.any()


def test_every_use_of_a_leaf_counts_once() -> None:
    """Reads by index mixed with other uses, so that sums are made in place, anew, and on duals."""
    value, direction = RNG.standard_normal((2, 6))
    tape = Tape(ENGINE)
    x = tape.leaf(value, direction)

    def read(i: int) -> Any:
        return tape.apply("getitem", [x], index=(i,))

    def times(a: Any, b: Any) -> Any:
        return tape.apply("multiply", [a, b])

    two = tape.constant(np.array(2.0))
    terms = [
        times(read(0), two),  # linear: its cotangent has no tangent
        tape.apply("sum", [times(x, x)]),
        times(read(1), read(2)),
        tape.apply("sum", [times(x, two)]),
        tape.apply("sum", [times(times(x, x), x)]),
        times(read(2), times(read(2), read(2))),
        tape.apply("sum", [times(x, two)]),
        times(read(0), two),
        times(read(3), two),
    ]
    e = np.eye(6)
    a, b, c = value[[1, 2, 2]]
    for order in (terms, terms[::-1]):
        loss = order[0]
        for term in order[1:]:
            loss = tape.apply("add", [loss, term])
        ((gradients, products),) = tape.hvp(loss)
        expected = (
            2 * value
            + 3 * value**2
            + 4
            + 4 * e[0]
            + 2 * e[3]
            + b * e[1]
            + a * e[2]
            + 3 * c**2 * e[2]
        )
        np.testing.assert_allclose(gradients[x], expected, rtol=1e-14)
        np.testing.assert_allclose(tape.pullback(loss)[0][x], expected, rtol=1e-14)
        along = (2 + 6 * value) * direction
        along += direction[2] * e[1] + direction[1] * e[2] + 6 * c * direction[2] * e[2]
        np.testing.assert_allclose(products[x], along, rtol=1e-13)
        np.testing.assert_array_equal(x.value, value)


def test_cotangents_that_others_hold_are_not_changed() -> None:
    """The seed reaches x as it is, and an element's cotangent is added: the caller's array stays."""
    tape = Tape(ENGINE)
    x = tape.leaf(np.ones(3))
    one = tape.apply("getitem", [x], index=(1,))
    whole = tape.apply("add", [x, one])
    seed = np.array([1.0, 2.0, 3.0])
    (gradients,) = tape.pullback(whole, [seed])
    np.testing.assert_array_equal(gradients[x], [1.0, 8.0, 3.0])
    np.testing.assert_array_equal(seed, [1.0, 2.0, 3.0])


def test_a_slice_is_a_view_and_an_array_a_copy() -> None:
    tape = Tape(ENGINE)
    x = tape.leaf(np.zeros((4, 5)))
    assert np.shares_memory(tape.apply("getitem", [x], index=(slice(1, 3), 0)).value, x.value)
    where = tape.constant(np.array([1, 2]))
    picked = tape.apply("getitem", [x, where], index=(ARRAY,))
    assert not np.shares_memory(picked.value, x.value)


def test_a_sum_made_in_place_takes_a_cotangent_that_has_a_tangent() -> None:
    """Two plain cotangents are summed in an array of the pass's own; the third moves with x."""
    tape = Tape(ENGINE)
    x = tape.leaf(np.ones(3), np.ones(3))
    two = tape.constant(np.array(2.0))
    loss = tape.apply("sum", [tape.apply("multiply", [x, x])])
    for _ in range(2):
        term = tape.apply("sum", [tape.apply("multiply", [x, two])])
        loss = tape.apply("add", [loss, term])
    ((gradients, products),) = tape.hvp(loss)
    np.testing.assert_array_equal(gradients[x], [6.0, 6.0, 6.0])
    np.testing.assert_array_equal(products[x], [2.0, 2.0, 2.0])
