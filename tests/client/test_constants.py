"""Constants are sent once, and released when nobody holds them."""

from __future__ import annotations

import numpy as np
from tests.client.flaky import blocks, flaky

import backhaul as bh
from backhaul.constants import Constants, content_of, scalar_content

F32 = np.dtype("float32")


def constants_sent(tape: bh.Tape) -> int:
    columns = tape._recorder.columns
    return sum(columns.calls[i].op == "constant" for i in columns.steps)


def test_equal_arrays_are_one_node_whatever_their_size() -> None:
    tape = bh.Tape()
    x = tape.leaf(np.ones((100, 100)))
    for shape in ((), (100,), (100, 100)):
        for _ in range(3):
            x + np.full(shape, 2.0)
    assert constants_sent(tape) == 3


def test_dtype_shape_and_every_bit_tell_constants_apart() -> None:
    tape = bh.Tape()
    quiet, other = np.array([0x7FF8000000000000, 0x7FF8000000000001], "u8").view("f8")
    different = [
        np.array(0.0),
        np.array(-0.0),
        quiet,
        other,
        np.zeros(1),
        np.zeros((), "f4"),
        np.zeros((), "i8"),
        np.zeros((0, 2)),
        np.zeros((2, 0)),
    ]
    for value in different:
        tape.constant(value)
    assert constants_sent(tape) == len(different)


def test_python_numbers_are_told_apart_by_sign_of_zero_and_type() -> None:
    values = [scalar_content(value, ()).array for value in (0.0, -0.0, 0, False, 0j)]
    assert [np.signbit(value.real).item() for value in values] == [False, True, False, False, False]
    assert [str(value.dtype) for value in values] == ["float64"] * 4 + ["complex128"]
    assert scalar_content(2.0, (F32,)).array.dtype == F32
    assert scalar_content(2j, (F32,)).array.dtype == np.dtype("complex64")


def test_a_constant_of_an_earlier_block_is_an_input_of_the_next() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(1.0)
        y = x * np.array([1.0, 2.0])
        y.numpy()
        z = y * np.array([1.0, 2.0])
        np.testing.assert_array_equal(z.numpy(), [1.0, 4.0])
        first, second = blocks(transport)
        assert [call.op for call in first.calls] == ["leaf", "constant", "multiply"]
        assert [call.op for call in second.calls] == ["multiply"]
        assert second.input_count == 2


def test_what_leaves_the_cache_is_released_once_no_handle_is_left() -> None:
    kept = Constants(max_count=2, max_bytes=100)
    a, b, c = (content_of(np.full(2, value)) for value in (1.0, 2.0, 3.0))
    assert kept.keep(a.key, 1, 16) == []
    assert kept.find(a.key) == 1  # a second handle
    assert kept.drop(1) is False
    assert kept.keep(b.key, 2, 16) == []
    assert kept.drop(2) is False  # kept for the next use
    assert kept.unheld() == {2}
    assert kept.find(a.key) == 1  # a is used: b is the oldest now
    assert kept.keep(c.key, 3, 16) == [2]
    assert kept.find(b.key) is None
    kept.forget(1)
    assert kept.drop(1) is False
    assert kept.drop(1) is True  # its last handle
    assert 3 in kept
    assert 1 not in kept


def test_the_bytes_kept_are_bounded_but_the_latest_always_stays() -> None:
    kept = Constants(max_count=100, max_bytes=100)
    big, small = content_of(np.zeros(1000)), content_of(np.ones(1))
    assert kept.keep(small.key, 1, 8) == []
    assert kept.drop(1) is False
    assert kept.keep(big.key, 2, 8000) == [1]
    assert kept.find(big.key) == 2


def test_a_constant_that_was_evicted_is_sent_again_and_its_node_released() -> None:
    with flaky() as (tape, transport):
        tape._recorder.constants._max_count = 1
        x = tape.leaf(1.0)
        total = x * np.array(5.0) + np.array(7.0) + np.array(5.0)
        assert float(total) == 17.0
        first_block = blocks(transport)[0]
        assert [first_block.calls[i].op for i in first_block.steps].count("constant") == 3
        assert {2, 4} <= set(transport.requests[0].release)
        assert 6 not in transport.requests[0].release


def test_a_small_value_is_known_without_asking_and_large_ones_are_not_kept() -> None:
    with flaky() as (tape, transport):
        values = np.arange(3)
        constant = tape.constant(values)
        values[0] = 99
        np.testing.assert_array_equal(constant.numpy(), [0, 1, 2])
        constant.numpy()[0] = 98
        np.testing.assert_array_equal(constant.numpy(), [0, 1, 2])
        assert transport.requests == []
        large = tape.constant(np.zeros(100_000))
        assert large.numpy().sum() == 0
        assert large.numpy().sum() == 0
        assert len(transport.requests) == 2
