"""Arrays in any memory and of any bits, in each place where one may be given: they come back bit for bit."""

from __future__ import annotations

from array import array as typed
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.faults.awkward import EXACT, INEXACT, Array, Subclass, bits, layouts, values

import backhaul as bh


def came(tensor: bh.TrackedTensor) -> Array:
    """The value as the server has it: a tensor's own may be known here."""
    return bh.reshape(tensor, tensor.shape).numpy()


def test_the_values_are_what_they_are_said_to_be() -> None:
    for dtype in ("float32", "float64"):
        found = values(dtype).ravel()
        assert np.isnan(found).sum() == 6
        assert np.signbit(found[np.isnan(found)]).sum() == 2
        assert np.isinf(found).sum() == 2
        assert (np.signbit(found) & (found == 0)).sum() == 1
        tiny = np.finfo(dtype).tiny
        assert ((found != 0) & (np.abs(found) < tiny)).sum() == 3


@pytest.mark.parametrize("dtype", INEXACT)
def test_of_any_memory_and_bits_where_gradients_are_taken(tape: bh.Tape, dtype: str) -> None:
    for name, array in layouts(dtype):
        before, flags = bits(array), array.flags.writeable
        x = tape.leaf(array)
        y = tape.leaf_with_tangent(np.zeros(array.shape, dtype), array)
        same = bh.reshape(x, x.shape)
        assert bits(came(x)) == before, name
        assert bits(tape.pushforward(bh.reshape(y, y.shape)).tangent) == before, name
        assert bits(tape.pushforward(same, tangents={x: array}).tangent) == before, name
        for output in (same, x):
            for found in tape.pullback(output, cotangent=[array, array]):
                assert bits(found[x]) == before, name
                assert bits(found.value) == before, name
        assert (bits(array), array.flags.writeable) == (before, flags), name


@pytest.mark.parametrize("dtype", INEXACT + EXACT)
def test_of_any_memory_and_bits_as_constants_and_operands(tape: bh.Tape, dtype: str) -> None:
    for name, array in layouts(dtype):
        before = bits(array)
        assert bits(came(tape.constant(array))) == before, name
        zeros = tape.constant(np.zeros(array.shape, dtype))
        if array.ndim < 20:
            assert bits(bh.stack([zeros, array]).numpy()[1, ...]) == before, name
            assert bits(bh.where(np.True_, array, zeros).numpy()) == before, name
        assert bits(array) == before, name


@pytest.mark.parametrize("nbytes", [65_532, 65_536, 65_540, (4 << 20) + 4])
def test_of_any_size(tape: bh.Tape, nbytes: int) -> None:
    array = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8).view("f4")
    x = tape.leaf_with_tangent(array[::-1], array)
    assert bits(came(x)) == bits(array[::-1])
    found = tape.pullback(bh.reshape(x, (1, -1)), cotangent=array[None])
    assert bits(found[x]) == bits(array)
    assert bits(tape.pushforward(bh.reshape(x, (-1, 1))).tangent) == bits(array[:, None])
    assert bits(came(tape.constant(array))) == bits(array)


@st.composite
def arrays(draw: st.DrawFn) -> Array:
    """Any bits of any supported dtype, in memory reached by steps of either sign, axes in any order."""
    dtype = np.dtype(draw(st.sampled_from(INEXACT + EXACT)))
    steps = draw(st.lists(st.sampled_from((-2, -1, 1, 2)), max_size=4))
    whole = tuple(draw(st.integers(0, 4)) * abs(step) for step in steps)
    seed = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    nbytes = int(np.prod(whole)) * dtype.itemsize
    raw = seed.integers(0, 2 if dtype.kind == "b" else 256, nbytes, np.uint8)
    order = draw(st.permutations(range(len(whole))))
    stepped = raw.view(dtype).reshape(whole)[(..., *(slice(None, None, step) for step in steps))]
    return stepped.transpose(order)


@given(drawn=arrays())
@settings(max_examples=60)
def test_drawn_at_random(connection: bh.Connection, drawn: Array) -> None:
    with bh.Tape(connection) as tape:
        if drawn.dtype.name not in INEXACT:
            assert bits(came(tape.constant(drawn))) == bits(drawn)
            return
        x = tape.leaf(drawn)
        assert bits(came(x)) == bits(drawn)
        assert bits(tape.pullback(x, cotangent=drawn)[x]) == bits(drawn)


def test_arrays_handed_back_are_plain_native_and_writeable(tape: bh.Tape) -> None:
    for name, array in layouts("float64"):
        x = tape.leaf(array)
        grads = tape.pullback(x, cotangent=array)
        pushed = tape.pushforward(x, tangents={x: array})
        for each in (x.numpy(), came(x), grads[x], grads.value, pushed.value, pushed.tangent):
            assert type(each) is np.ndarray, name
            assert each.dtype.isnative, name
            assert each.flags.writeable, name
            assert each.flags.c_contiguous, name
            assert each.flags.aligned, name


def test_a_subclass_that_computes_otherwise_is_taken_by_its_elements(tape: bh.Tape) -> None:
    array = np.arange(3.0).view(Subclass)
    x = tape.leaf(np.ones(3))
    product = array * x
    assert isinstance(product, bh.TrackedTensor)
    assert tape.pullback(bh.sum(product))[x].tolist() == [0.0, 1.0, 2.0]


BUFFERS: tuple[tuple[Any, str], ...] = (
    (typed("f", [0.5, 2.0]), "float32"),
    (typed("d", [1 / 3, 2.0]), "float64"),
    (typed("q", [2**60 + 1, -1]), "int64"),
    (typed("B", [0, 255]), "uint8"),
    (memoryview(np.arange(6, dtype="i2").reshape(2, 3)), "int16"),
    (memoryview(np.arange(6.0).reshape(2, 3))[::-1], "float64"),
    (memoryview(np.array([True, False])), "bool"),
    (bytearray(b"\0\xff"), "uint8"),
)


def test_buffers_keep_their_dtype_and_python_numbers_become_float64(tape: bh.Tape) -> None:
    for handed, dtype in BUFFERS:
        constant = tape.constant(handed)
        assert constant.dtype == dtype, handed
        assert bits(came(constant)) == bits(np.asarray(handed))
    for handed in ([1, 2], (1.0, 2), [True, False], range(2), 3, True, 2**70, []):
        assert tape.constant(handed).dtype == "float64", handed
    x = tape.leaf(np.ones(2, "f4"))
    for handed, dtype in BUFFERS[:2]:
        if dtype == "float32":
            assert bits(tape.pullback(x, cotangent=handed)[x]) == bits(np.asarray(handed))
            assert bits(tape.pushforward(x, tangents={x: handed}).tangent) == bits(
                np.asarray(handed)
            )
        else:  # it would lose digits
            with pytest.raises(bh.InvalidArgument):
                tape.pullback(x, cotangent=handed)
            with pytest.raises(bh.InvalidArgument):
                tape.pushforward(x, tangents={x: handed})
            with pytest.raises(bh.InvalidArgument):
                tape.leaf_with_tangent(np.ones(2, "f4"), handed)
    with pytest.raises(bh.InvalidArgument) as refused:
        tape.leaf(BUFFERS[2][0])
    assert refused.value.reason == "DTYPE_NOT_SUPPORTED"


NO_NUMBERS: tuple[tuple[Any, str], ...] = (
    ([[1.0, 2.0], [3.0]], "INVALID_VALUE"),
    (np.ma.masked_array([1.0, 2.0], [True, False]), "INVALID_VALUE"),
    (np.ma.masked, "INVALID_VALUE"),
    (b"ab", "DTYPE_NOT_SUPPORTED"),
    ("ab", "DTYPE_NOT_SUPPORTED"),
    (None, "DTYPE_NOT_SUPPORTED"),
    ({1.0: 2.0}, "DTYPE_NOT_SUPPORTED"),
    ({1.0}, "DTYPE_NOT_SUPPORTED"),
    (iter([1.0]), "DTYPE_NOT_SUPPORTED"),
)


def test_what_is_no_array_of_numbers_is_refused_wherever_it_is_given(tape: bh.Tape) -> None:
    x = tape.leaf(np.ones(2))
    for handed, reason in NO_NUMBERS:
        uses: list[Callable[[], object]] = [
            lambda handed=handed: tape.leaf(handed),  # type: ignore[misc]
            lambda handed=handed: tape.constant(handed),  # type: ignore[misc]
            lambda handed=handed: tape.leaf_with_tangent(np.ones(2), handed),  # type: ignore[misc]
            lambda handed=handed: tape.pushforward(x, tangents={x: handed}),  # type: ignore[misc]
            lambda handed=handed: bh.add(x, handed),  # type: ignore[misc]
        ]
        for use in uses:
            with pytest.raises(bh.InvalidArgument) as refused:
                use()
            assert refused.value.reason == reason, handed


@pytest.mark.parametrize(
    "dtype", ["O", "U3", "S3", "M8[s]", "m8[s]", "V8", "f2", "g", "G", "i4,f8"]
)
def test_a_dtype_that_does_not_travel_is_named(tape: bh.Tape, dtype: str) -> None:
    array: Any = np.zeros(2, dtype)
    x = tape.leaf(np.ones(2))
    uses = (
        lambda: tape.leaf(array),
        lambda: tape.constant(array),
        lambda: tape.leaf_with_tangent(np.ones(2), array),
        lambda: tape.pullback(x, cotangent=array),
        lambda: tape.pushforward(x, tangents={x: array}),
        lambda: bh.add(x, array),
    )
    for use in uses:
        with pytest.raises(bh.InvalidArgument) as refused:
            use()
        assert refused.value.reason == "DTYPE_NOT_SUPPORTED"
        assert str(array.dtype) in refused.value.message
    assert x.numpy().tolist() == [1.0, 1.0]
