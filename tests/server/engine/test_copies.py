"""Copies of arrays of many short axes in another order."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backhaul_proto.catalog.avals import aval
from backhaul_server.engine.arrays import Namespace, numpy_namespace
from backhaul_server.engine.copies import compact
from backhaul_server.engine.engine import Engine

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("dtype", [np.float32, np.complex128])
def test_same_elements_in_c_order(seed: int, dtype: Any) -> None:
    rng = np.random.default_rng(seed)
    shape = rng.integers(1, 4, rng.integers(1, 12))
    x = rng.standard_normal(shape).astype(dtype).transpose(rng.permutation(len(shape)))
    copied = compact(x)
    assert copied.flags.c_contiguous
    assert not np.shares_memory(copied, x)
    assert copied.dtype == dtype
    assert np.array_equal(copied, x)


@pytest.mark.parametrize(
    "x",
    [
        np.broadcast_to(np.arange(3.0), (2, 3)).T,
        np.arange(4096.0).reshape((2,) * 12)[::-1].T,
        np.arange(4096.0).reshape((2,) * 12)[:, 1:].T,
        np.zeros((2, 0, 3)).T,
        np.array(5.0),
    ],
)
def test_arrays_with_gaps_repeats_and_nothing(x: Array) -> None:
    copied = compact(x)
    assert copied.flags.c_contiguous
    assert np.array_equal(copied, x)


def test_a_contraction_of_many_short_axes_is_gathered() -> None:
    calls = []

    def recorded(x: Array) -> Array:
        calls.append(x.shape)
        return compact(x)

    engine = Engine(Namespace("recorded", numpy_namespace(), {"compact": recorded}))
    rng = np.random.default_rng(3)
    a, b = rng.standard_normal((2,) * 16), rng.standard_normal((2,) * 8)
    subscripts = "abcdefghijklmnop,bdfhjlnp->acegikmo"
    avals = (aval(a.shape, a.dtype), aval(b.shape, b.dtype))
    call = engine.prepare("einsum", {"subscripts": subscripts}, avals)
    assert np.allclose(call.forward(a, b), np.einsum(subscripts, a, b), rtol=1e-12)
    assert calls == [(2,) * 16]
