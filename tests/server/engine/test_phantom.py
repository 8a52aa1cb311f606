"""Arrays without data lie in memory as NumPy's do, and count what NumPy allocates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul_server.engine.arrays import numpy_namespace
from backhaul_server.engine.phantom import Ledger, Phantom, PhantomNamespace

Array = np.ndarray[Any, Any]
DTYPES = ("float32", "float64", "complex64", "complex128")
XP = numpy_namespace()


class Pair:
    """An array and its phantom."""

    def __init__(self, rng: np.random.Generator, shape: list[int]) -> None:
        self.phantoms = PhantomNamespace(Ledger())
        self.array: Array = np.zeros(shape, rng.choice(DTYPES))
        self.phantom = self.phantoms.given(self.array.shape, self.array.dtype)

    def become(self, function: Callable[[Any, Any], Any]) -> None:
        """Both go through the same function of a namespace and an array."""
        self.array = function(XP, self.array)
        self.phantom = function(self.phantoms, self.phantom)

    def lie_in(self, order: tuple[int, ...]) -> None:
        """The same axes, in memory in this order."""
        back = tuple(np.argsort(order).tolist())
        self.become(lambda xp, x: xp.copy(xp.permute_dims(x, order)))
        self.become(lambda xp, x: xp.permute_dims(x, back))

    def disturb(self, rng: np.random.Generator) -> None:
        """Its axes moved, perhaps some repeated."""
        order = tuple(rng.permutation(self.array.ndim).tolist())
        self.become(lambda xp, x: xp.permute_dims(x, order))
        shape = tuple(3 if n == 1 and rng.random() < 0.5 else n for n in self.array.shape)
        self.become(lambda xp, x: xp.broadcast_to(x, shape))


def lie_alike(x: Any, phantom: Phantom) -> bool:
    x = np.asarray(x)
    if (x.shape, x.dtype) != (phantom.shape, phantom.dtype):
        return False
    axes = [axis for axis, n in enumerate(x.shape) if n > 1]
    return x.size == 0 or all(x.strides[axis] == phantom.strides[axis] for axis in axes)


def shapes(rng: np.random.Generator, most: int = 4) -> list[int]:
    return list(rng.choice((1, 2, 3, 4), rng.integers(1, most + 1)).tolist())


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_results_of_one_array(seed: int) -> None:
    rng = np.random.default_rng(seed)
    functions: list[Callable[[Any, Any], Any]] = [
        lambda xp, x: xp.conj(x),
        lambda xp, x: xp.astype(x, np.dtype("complex128")),
        lambda xp, x: xp.real(x),
        lambda xp, x: xp.copy(xp.real(x)),
        lambda xp, x: xp.sum(x, axis=(0,), dtype=x.dtype),
        lambda xp, x: xp.sum(x, axis=(x.ndim - 1,), dtype=x.dtype),
        lambda xp, x: xp.copy(x),
        lambda xp, x: x.mT if x.ndim > 1 else x,
    ]
    for function in functions:
        pair = Pair(rng, shapes(rng))
        pair.disturb(rng)
        pair.become(function)
        assert lie_alike(pair.array, pair.phantom)


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_results_of_two_arrays(seed: int) -> None:
    rng = np.random.default_rng(seed)
    shape = shapes(rng)
    for name in ("multiply", "add"):
        a, b = Pair(rng, shape), Pair(rng, shape[rng.integers(0, len(shape)) :])
        orders = [tuple(rng.permutation(n).tolist()) for n in (len(shape), b.array.ndim)]
        for pair, order in zip((a, b), orders, strict=True):  # C order of another order of axes
            pair.lie_in(order)
        y = getattr(XP, name)(a.array, b.array)
        assert lie_alike(y, getattr(a.phantoms, name)(a.phantom, b.phantom))


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_stacks_of_matrix_products(seed: int) -> None:
    rng = np.random.default_rng(seed)
    p, q, m, k, n = rng.integers(1, 4, 5).tolist()
    a, b = Pair(rng, [p, q, m, k]), Pair(rng, [q, k, n][rng.integers(0, 2) :])
    swap = (1, 0, 2, 3)
    a.become(lambda xp, x: xp.permute_dims(xp.copy(xp.permute_dims(x, swap)), swap))
    y = XP.matmul(a.array, b.array)
    assert lie_alike(y, a.phantoms.matmul(a.phantom, b.phantom))
    vector = Pair(rng, [k])
    assert lie_alike(XP.matmul(a.array, vector.array), a.phantoms.matmul(a.phantom, vector.phantom))
    assert lie_alike(
        XP.matmul(vector.array, vector.array), a.phantoms.matmul(vector.phantom, vector.phantom)
    )


@given(st.integers(0, 2**32))
@settings(max_examples=200)
def test_einsum_of_two(seed: int) -> None:
    rng = np.random.default_rng(seed)
    sizes = dict(zip("abcd", rng.integers(1, 4, 4).tolist(), strict=True))
    terms = ["".join(rng.permutation([*"abcd"])[: rng.integers(1, 5)]) for _ in "ab"]
    present = sorted(set("".join(terms)))
    output = "".join(rng.permutation(present)[: rng.integers(0, len(present) + 1)])
    a, b = (Pair(rng, [sizes[label] for label in term]) for term in terms)
    subscripts = f"{','.join(terms)}->{output}"
    y = XP.einsum(subscripts, a.array, b.array)
    assert lie_alike(y, a.phantoms.einsum(subscripts, a.phantom, b.phantom))


@given(st.integers(0, 2**32))
@settings(max_examples=300)
def test_reshapes_are_views_where_numpy_has_views(seed: int) -> None:
    rng = np.random.default_rng(seed)
    pair = Pair(rng, rng.choice((1, 2, 3, 4, 6, 12), rng.integers(1, 4)).tolist())
    pair.disturb(rng)
    left, wanted = pair.array.size, []
    while left > 1:
        n = int(rng.choice([d for d in range(1, left + 1) if left % d == 0]))
        wanted.append(n)
        left //= n
    before = pair.phantom
    x = pair.array.reshape(tuple(wanted))
    pair.become(lambda xp, x: xp.reshape(x, tuple(wanted)))
    assert lie_alike(x, pair.phantom)
    is_view = np.shares_memory(x, pair.array)
    assert (pair.phantom.buffer is before.buffer) is is_view


def test_a_diagonal_is_a_view() -> None:
    rng = np.random.default_rng(0)
    pair = Pair(rng, [3, 4, 3])
    before = pair.phantom
    pair.become(lambda xp, x: xp.diagonal(x, axis1=0, axis2=2))
    assert lie_alike(pair.array, pair.phantom)
    assert pair.phantom.buffer is before.buffer


def test_the_ledger_counts_what_is_alive() -> None:
    ledger = Ledger()
    xp = PhantomNamespace(ledger)
    given_ = xp.given((10,), np.dtype("float64"))
    a = xp.add(given_, given_)
    b = xp.add(a, given_)
    view = xp.reshape(b, (2, 5))
    assert (ledger.live, ledger.peak) == (160, 160)
    del a, b
    assert (ledger.live, ledger.peak) == (80, 160)
    assert ledger.restart() == 80
    del view
    assert (ledger.live, ledger.peak) == (0, 80)


@pytest.mark.parametrize("names", [("float32", "float64"), ("float64", "complex128")])
def test_a_matrix_product_copies_an_operand_of_another_dtype(names: tuple[str, str]) -> None:
    ledger = Ledger()
    xp = PhantomNamespace(ledger)
    a, b = (xp.given((20, 20), np.dtype(name)) for name in names)
    y = xp.matmul(a, b)
    assert ledger.peak == 2 * y.nbytes
    assert ledger.live == y.nbytes
