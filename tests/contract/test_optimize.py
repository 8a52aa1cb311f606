"""How a user says in which order an einsum is contracted, with one body for both transports."""

from __future__ import annotations

import importlib.util
from typing import Any

import numpy as np
import pytest

import backhaul as bh
from backhaul_proto.catalog.einsum.optimize import LIMITS

SUBSCRIPTS = "ab,bcd,de,cef,fa->ef"
SHAPES = ((2, 3), (3, 4, 2), (2, 5), (4, 5, 3), (3, 2))
GIVEN: list[Any] = [
    True,
    False,
    *(name for name in LIMITS if name != "cotengra"),
    [(0, 4), (0, 1), (0, 2), (0, 1)],
    ["einsum_path", (0, 1, 2), (0, 1, 2)],
]


def operands() -> list[Any]:
    rng = np.random.default_rng(7)
    return [rng.standard_normal(shape) for shape in SHAPES]


@pytest.mark.parametrize("optimize", GIVEN, ids=str)
def test_any_order_gives_the_value_and_the_gradient(tape: bh.Tape, optimize: Any) -> None:
    values = operands()
    leaves = [tape.leaf(value) for value in values]
    expected = np.einsum(SUBSCRIPTS, *values)
    y = bh.einsum(SUBSCRIPTS, *leaves, optimize=optimize)
    np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)
    got = tape.pullback(bh.sum(y))[leaves[1]]
    wanted = np.einsum("ab,de,cef,fa->bcd", *(values[i] for i in (0, 2, 3, 4)))
    np.testing.assert_allclose(got, wanted, rtol=1e-12)


def test_the_other_spellings_take_it_too(tape: bh.Tape) -> None:
    values = operands()
    expected = np.einsum(SUBSCRIPTS, *values)
    leaves = [tape.leaf(value) for value in values]
    for y in (
        bh.tracked_einsum(SUBSCRIPTS, leaves, optimize="optimal"),
        np.einsum(SUBSCRIPTS, *leaves, optimize="optimal"),
        np.einsum(SUBSCRIPTS, *leaves, optimize=np.einsum_path(SUBSCRIPTS, *values)[0]),
        bh.einsum("(ab,bcd,de),cef,fa->ef", *leaves, optimize="greedy"),
        bh.apply("einsum", *leaves, subscripts=SUBSCRIPTS, optimize="dp"),
    ):
        assert isinstance(y, bh.TrackedTensor)
        np.testing.assert_allclose(y.numpy(), expected, rtol=1e-12)


def test_what_cannot_be_is_refused_where_it_is_written(tape: bh.Tape) -> None:
    leaves = [tape.leaf(value) for value in operands()]
    vector = tape.leaf(np.ones(2))
    for refused in (
        lambda: bh.einsum(SUBSCRIPTS, *leaves, optimize="optimum"),
        lambda: bh.tracked_einsum(SUBSCRIPTS, leaves, optimize="optimum"),
        lambda: np.einsum(SUBSCRIPTS, *leaves, optimize=("greedy", 100)),
        lambda: bh.einsum(SUBSCRIPTS, *leaves, optimize="dp", path=[(0, 1, 2, 3, 4)]),
        lambda: bh.einsum(",".join("i" * 15), *[vector] * 15, optimize="optimal"),
    ):
        with pytest.raises(bh.InvalidArgument) as caught:
            refused()
        assert caught.value.reason == "INVALID_ATTRIBUTE"
        assert caught.value.details["attribute"] == "optimize"


@pytest.mark.skipif(importlib.util.find_spec("cotengra") is not None, reason="it is installed")
def test_a_search_that_the_server_lacks_fails_alone(tape: bh.Tape) -> None:
    leaves = [tape.leaf(value) for value in operands()]
    y = bh.einsum(SUBSCRIPTS, *leaves, optimize="cotengra")
    with pytest.raises(bh.InvalidArgument, match=r"backhaul\[cotengra\]") as caught:
        y.numpy()
    assert caught.value.reason == "INVALID_ATTRIBUTE"
    np.testing.assert_allclose(
        bh.einsum(SUBSCRIPTS, *leaves).numpy(), np.einsum(SUBSCRIPTS, *operands()), rtol=1e-12
    )
