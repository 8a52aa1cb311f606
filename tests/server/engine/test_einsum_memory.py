"""The memory of an einsum: what is kept, what is computed again, and what is known in advance."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul_proto.catalog.avals import aval
from backhaul_server.engine.dual import Dual, tangent_of, value_of
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.phantom import Ledger, Phantom, PhantomNamespace

Array = np.ndarray[Any, Any]
F64 = np.dtype("float64")
LABELS = "abcdef"


@dataclass(frozen=True)
class Network:
    """A random einsum whose arrays are large enough to be told from what Python itself takes."""

    subscripts: str
    operands: tuple[Array, ...]
    path: list[list[int]]

    def __repr__(self) -> str:
        kinds = ", ".join(f"{x.dtype}{x.shape}" for x in self.operands)
        return f"{self.subscripts} of {kinds} along {self.path}"

    def call(self, engine: Engine) -> PreparedCall:
        avals = tuple(aval(x.shape, x.dtype) for x in self.operands)
        return engine.prepare("einsum", {"subscripts": self.subscripts, "path": self.path}, avals)


@st.composite
def networks(
    draw: Callable[[st.SearchStrategy[Any]], Any],
    sizes: Sequence[int] = (1, 2, 3),
    dtypes: Sequence[str] = ("float32", "float64", "complex64", "complex128"),
    most: int = 8,
    diagonals: bool = True,
) -> Network:
    count = draw(st.integers(2, most))
    size = {label: draw(st.sampled_from(sizes)) for label in LABELS}
    terms = [
        "".join(draw(st.lists(st.sampled_from(LABELS), max_size=3, unique=not diagonals)))
        for _ in range(count)
    ]
    present = sorted(set("".join(terms)))
    output = "".join(draw(st.permutations(present))[: draw(st.integers(0, 3))])
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    kinds = [np.dtype(draw(st.sampled_from(dtypes))) for _ in terms]
    operands = tuple(
        normal(rng, [size[x] for x in term], kind) for term, kind in zip(terms, kinds, strict=True)
    )
    path = [
        sorted(draw(st.permutations(range(left)))[:2]) for left in range(count, 1, -1)
    ]
    return Network(f"{','.join(terms)}->{output}", operands, path)


def normal(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    x = rng.standard_normal(shape)
    return np.asarray(x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


@dataclass(frozen=True)
class Job:
    """What is asked of an einsum, step by step."""

    engine: Engine
    call: PreparedCall
    operands: tuple[Array, ...]

    def value(self, needs: Sequence[bool] | None = None) -> tuple[Any, dict[str, Any]]:
        if not self.call.keeps:
            return self.call.forward(*self.operands), {}
        y, residual = self.call.forward(*self.operands, needs=needs)
        return y, {"residual": residual}

    def gradient(self, ct: Any, y: Any, kept: dict[str, Any]) -> Sequence[Any]:
        every = [True] * len(self.operands)
        return self.call.cotangents(self.engine.plain, ct, y, self.operands, every, **kept)

    def hvp(
        self, ct: Any, y: Any, kept: dict[str, Any], tangents: Sequence[Array]
    ) -> Sequence[Any]:
        assert self.call.jvp is not None
        dy = self.call.jvp(self.engine.plain, y, *self.operands, *tangents, **kept)
        if self.call.keeps:
            dy, kept = dy[0], {"residual": dy[1]}
        duals = [Dual(x, t) for x, t in zip(self.operands, tangents, strict=True)]
        every = [True] * len(duals)
        return self.call.cotangents(self.engine.duals, ct, Dual(y, dy), duals, every, **kept)


def job(network: Network, keep_bytes: int | None = None) -> Job:
    engine = Engine(keep_bytes=keep_bytes)
    return Job(engine, network.call(engine), network.operands)


@given(networks(sizes=(24, 32, 40), most=6, diagonals=False, dtypes=["float64"]), st.sampled_from([None, 0, 30_000, 3_000_000]))
@settings(max_examples=60, deadline=None)
def test_prediction(network, keep):
    from hypothesis import assume
    try:
        j = job(network, keep)
    except Exception as e: print(type(e)); assume(False)
    n = j.call.need
    assume(1_000_000 < n.value < 2e8 and n.hvp<6e8)
    rng = np.random.default_rng(1)
    def measured(f):
        gc.collect(); tracemalloc.start(); f0=tracemalloc.get_traced_memory()[0]
        r=f(); now, peak = tracemalloc.get_traced_memory(); tracemalloc.stop()
        return r, now-f0, peak-f0
    (y,kept), live, peak = measured(j.value)
    slack=200_000
    def close(a,b): assert abs(a-b) <= slack+0.02*b, (a,b)
    close(peak, n.value)
    y_bytes = np.asarray(y).nbytes
    ct = np.asarray(rng.standard_normal(np.shape(y)))
    _, _, peak = measured(lambda: j.gradient(ct,y,kept)); close(peak, n.gradient)
    t=[rng.standard_normal(x.shape) for x in network.operands]
    dct = Dual(ct, ct.copy())
    _, _, peak = measured(lambda: j.hvp(dct,y,kept,t)); close(peak, n.hvp)
