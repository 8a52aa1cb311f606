"""The memory of an einsum: what is freed, kept, computed again, and known in advance."""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.traced import traced

from backhaul_proto.catalog.avals import aval
from backhaul_server.engine.arrays import Namespace, numpy_namespace
from backhaul_server.engine.dual import Dual, dual
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
CORPUS = Path(os.environ.get("BACKHAUL_CORPUS", Path(__file__).parents[4] / "shared" / "corpus"))
F64 = np.dtype("float64")
DTYPES = ("float32", "float64", "complex64", "complex128")
BUFFERS = 200_000  # bytes that NumPy's iterators take at most, however large the arrays


@dataclass(frozen=True)
class Network:
    """An einsum of several operands along a path."""

    subscripts: str
    operands: tuple[Array, ...]
    path: tuple[tuple[int, ...], ...] | None = None

    def __repr__(self) -> str:
        kinds = ", ".join(f"{x.dtype}{x.shape}" for x in self.operands)
        return f"{self.subscripts} of {kinds} along {self.path}"

    def prepare(self, engine: Engine) -> PreparedCall:
        avals = tuple(aval(x.shape, x.dtype) for x in self.operands)
        attributes: dict[str, Any] = {"subscripts": self.subscripts}
        if self.path is not None:
            attributes["path"] = self.path
        return engine.prepare("einsum", attributes, avals)


def random_network(
    rng: np.random.Generator,
    labels: str,
    sizes: Sequence[int],
    dtypes: Sequence[str] = DTYPES,
    most: int = 8,
) -> Network:
    count = int(rng.integers(2, most + 1))
    size = {label: int(rng.choice(sizes)) for label in labels}
    terms = ["".join(rng.choice([*labels], rng.integers(0, 4))) for _ in range(count)]
    present = sorted(set("".join(terms)))
    output = "".join(rng.permutation(present)[: rng.integers(0, 4)])
    operands = tuple(
        normal(rng, [size[label] for label in term], np.dtype(rng.choice(dtypes))) for term in terms
    )
    path = tuple(
        (min(pair), max(pair))
        for pair in (rng.permutation(left)[:2].tolist() for left in range(count, 1, -1))
    )
    return Network(f"{','.join(terms)}->{output}", operands, path)


def chain(count: int, n: int) -> Network:
    """A product of square matrices from the left."""
    terms = [chr(200 + i) + chr(201 + i) for i in range(count)]
    rng = np.random.default_rng(count)
    operands = tuple(rng.standard_normal((n, n)) / n**0.5 for _ in terms)
    path = ((0, 1), *((0, left - 1) for left in range(count - 1, 1, -1)))
    return Network(f"{','.join(terms)}->{chr(200)}{chr(200 + count)}", operands, path)


def normal(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    x = rng.standard_normal(shape)
    return np.asarray(x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


class Asked:
    """An einsum on an engine, asked for its value, cotangents and H·v."""

    def __init__(self, network: Network, engine: Engine, needs: Sequence[bool] = ()) -> None:
        self.engine = engine
        self.operands = network.operands
        self.needs = needs or [True] * len(self.operands)
        self.call = network.prepare(engine)
        self.kept: dict[str, Any] = {}

    def value(self) -> Any:
        if self.call.keeps:
            self.y, self.kept["residual"] = self.call.forward(*self.operands, needs=self.needs)
        else:
            self.y = self.call.forward(*self.operands)
        return self.y

    def gradient(self, ct: Array) -> Sequence[Any]:
        F = self.engine.plain
        sent: Sequence[Any] = self.call.cotangents(
            F, ct, self.y, self.operands, self.needs, **self.kept
        )
        return sent

    def hvp(self, ct: Array, dct: Array, tangents: Sequence[Array]) -> Sequence[Any]:
        kept = self.kept
        moving = [t if need else None for t, need in zip(tangents, self.needs, strict=True)]
        assert self.call.jvp is not None
        dy = self.call.jvp(self.engine.plain, self.y, *self.operands, *moving, **kept)
        if self.call.keeps:
            dy, kept = dy[0], {"residual": dy[1]}
        duals = list(map(dual, self.operands, moving))
        F, y = self.engine.duals, dual(self.y, dy)
        sent: Sequence[Any] = self.call.cotangents(F, Dual(ct, dct), y, duals, self.needs, **kept)
        return sent


def answers(asked: Asked, seed: int) -> list[Array | None]:
    """All that can be asked, as arrays."""
    rng = np.random.default_rng(seed)
    y = np.asarray(asked.value())
    ct, dct = (normal(rng, y.shape, y.dtype) for _ in range(2))
    tangents = [normal(rng, x.shape, x.dtype) for x in asked.operands]
    gradient = asked.gradient(ct)
    both = asked.hvp(ct, dct, tangents)
    parts = [part for g in both for part in ((None, None) if g is None else (g.value, g.tangent))]
    return [None if x is None else np.asarray(x) for x in (y, *gradient, *parts)]


def same_bits(found: Sequence[Array | None], expected: Sequence[Array | None]) -> bool:
    return [None if x is None else (x.dtype, x.shape, x.tobytes()) for x in found] == [
        None if x is None else (x.dtype, x.shape, x.tobytes()) for x in expected
    ]


def near(found: int, predicted: int) -> bool:
    return abs(found - predicted) <= 0.05 * predicted + BUFFERS


# A budget changes what is kept, never what comes out


@given(st.integers(0, 2**32), st.sampled_from([0, 50, 300, 1000]), st.data())
@settings(max_examples=150)
def test_a_budget_changes_no_bit(seed: int, keep_bytes: int, data: Any) -> None:
    network = random_network(np.random.default_rng(seed), "abcdefghij", (1, 2, 3), most=10)
    count = len(network.operands)
    needs = data.draw(st.lists(st.booleans(), min_size=count, max_size=count).filter(any))
    whole, some = Engine(), Engine(keep_bytes=keep_bytes)
    expected = answers(Asked(network, whole, needs), seed)
    assert same_bits(answers(Asked(network, some, needs), seed), expected)


@pytest.mark.parametrize("share", [0, 0.1, 0.5])
def test_a_budget_changes_no_bit_of_a_long_chain(share: float) -> None:
    network = chain(40, 8)
    some = Engine(keep_bytes=int(share * 38 * 8 * 8 * 8))
    assert same_bits(answers(Asked(network, some), 1), answers(Asked(network, Engine()), 1))


@pytest.mark.parametrize("name", ["lm_batch_likelihood_brackets_4_4d", "nary_matmul_chain_64"])
def test_a_budget_changes_no_bit_of_a_real_network(name: str) -> None:
    path = CORPUS.parent / "instances" / f"{name}.json"
    if not path.is_file():
        if os.environ.get("CI") == "true":
            pytest.fail(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
        pytest.skip(f"no {path}: it stands beside the corpus (BACKHAUL_CORPUS)")
    instance = json.loads(path.read_text())
    rng = np.random.default_rng(0)
    operands = tuple(rng.standard_normal(shape) for shape in instance["shapes"])
    steps = tuple(map(tuple, instance["paths"]["opt_flops"]["path"]))
    network = Network(instance["format_string"], operands, steps)
    whole = Asked(network, Engine())
    some = Asked(network, Engine(keep_bytes=whole.call.need.kept // 3))
    assert some.call.need.kept <= whole.call.need.kept // 3
    assert same_bits(answers(some, 1), answers(whole, 1))


@given(st.integers(0, 2**32), st.integers(0, 2000))
@settings(max_examples=100)
def test_no_more_is_kept_than_the_budget_allows(seed: int, keep_bytes: int) -> None:
    network = random_network(np.random.default_rng(seed), "abcdefghij", (2, 3), most=10)
    asked = Asked(network, Engine(keep_bytes=keep_bytes))
    asked.value()
    given = {id(_owner(x)) for x in network.operands}
    kept = [_owner(x) for x in asked.kept.get("residual") or () if x is not None]
    assert sum(x.nbytes for x in kept if id(x) not in given) <= keep_bytes


def _owner(x: Any) -> Any:
    """The array whose memory this one is a view of."""
    while isinstance(x, np.ndarray) and x.base is not None:
        x = x.base
    return x


def test_recomputation_costs_little_where_a_fair_share_is_kept() -> None:
    network, calls = chain(64, 4), []
    xp = numpy_namespace()

    def dot(a: Array, b: Array) -> Any:
        calls.append(1)
        return np.dot(a, b)

    engine = Engine(Namespace("counted", xp, {"dot": dot}), keep_bytes=16 * 4 * 4 * 8)
    asked = Asked(network, engine)
    asked.value()
    assert len(calls) == 63
    asked.gradient(np.ones((4, 4)))
    again = len(calls) - 63 - 2 * 63
    assert 62 - 16 <= again <= 63  # what is not kept, once, and what has no room the first time


# What nothing later reads is gone


def test_a_value_without_gradients_holds_no_more_than_a_step_needs() -> None:
    network = chain(20, 128)
    nbytes = 128 * 128 * 8
    tape = Tape(Engine())
    nodes = [tape.constant(x) for x in network.operands]

    def job() -> Any:
        return tape.apply("einsum", nodes, subscripts=network.subscripts, path=network.path)

    job()
    peak, stays = traced(job)
    assert peak < 3 * nbytes
    assert stays < 2 * nbytes


def test_only_what_the_gradients_asked_for_need_is_kept() -> None:
    network = chain(20, 128)
    nbytes = 128 * 128 * 8
    last_alone = Asked(network, Engine(), [False] * 19 + [True])
    assert near(traced(last_alone.value)[1], 2 * nbytes)  # the result, the product before it
    first_alone = Asked(network, Engine(), [True] + [False] * 19)
    assert near(traced(first_alone.value)[1], nbytes)  # other factors are operands


def test_the_reverse_of_a_chain_holds_one_cotangent_at_a_time() -> None:
    network = chain(20, 128)
    nbytes = 128 * 128 * 8
    asked = Asked(network, Engine())
    asked.value()
    ct = np.ones((128, 128))
    peak, stays = traced(lambda: asked.gradient(ct))
    assert near(stays, 20 * nbytes)
    assert near(peak, 21 * nbytes)


@pytest.mark.parametrize(("keep_bytes", "tangents"), [(None, 18), (0, 0)])
def test_tangents_are_held_of_what_is_kept_alone(keep_bytes: int | None, tangents: int) -> None:
    network = chain(20, 128)
    nbytes = 128 * 128 * 8
    asked = Asked(network, Engine(keep_bytes=keep_bytes))
    asked.value()
    ct = np.ones((128, 128))
    peak, _ = traced(lambda: asked.hvp(ct, ct.copy(), network.operands))
    # Also the result's tangent, gradients and H·v, and three of the products being computed.
    assert near(peak, (tangents + 1 + 40 + 3) * nbytes)


# Predictions


@pytest.mark.parametrize("seed", range(10))
def test_the_prediction_is_what_numpy_takes(seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine = Engine(keep_bytes=[None, 0, 100_000, 3_000_000][seed % 4])
    while True:
        dtypes = ["float64"] if seed % 2 else DTYPES
        network = random_network(rng, "abcdef", (16, 24, 32), dtypes, most=7)
        need = network.prepare(engine).need
        if 2e6 < need.value < 3e7 and need.hvp < 1e8:
            break
    asked = Asked(network, engine)
    peak, stays = traced(asked.value)
    y = np.asarray(asked.y)
    ct, dct = (normal(rng, y.shape, y.dtype) for _ in range(2))
    tangents = [normal(rng, x.shape, x.dtype) for x in network.operands]
    assert near(peak, need.value)
    assert near(stays - y.nbytes, need.kept)
    assert near(traced(lambda: asked.gradient(ct))[0], need.gradient)
    assert near(traced(lambda: asked.hvp(ct, dct, tangents))[0], need.hvp)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("ij,jk->ik", [(300, 400), (400, 200)]),
        ("bij,bjk->ikb", [(9, 90, 80), (9, 80, 70)]),
        ("i,j->ij", [(700,), (600,)]),
        ("ij,ij->ij", [(500, 400), (500, 400)]),
        ("ij,ij->ji", [(500, 400), (500, 400)]),
        ("ii,ij->j", [(400, 400), (400, 500)]),
        ("ijk->kj", [(60, 70, 80)]),
        ("i->ii", [(500,)]),
    ],
)
def test_the_prediction_is_what_numpy_takes_for_few_operands(
    subscripts: str, shapes: list[tuple[int, ...]]
) -> None:
    rng = np.random.default_rng(3)
    asked = Asked(Network(subscripts, tuple(rng.standard_normal(s) for s in shapes)), Engine())
    need = asked.call.need
    assert near(traced(asked.value)[0], need.value)
    ct, dct = np.ones(asked.y.shape), np.ones(asked.y.shape)
    tangents = [rng.standard_normal(s) for s in shapes]
    assert near(traced(lambda: asked.gradient(ct))[0], need.gradient)
    assert near(traced(lambda: asked.hvp(ct, dct, tangents))[0], need.hvp)


def test_integers_that_are_cast_first_are_part_of_the_need() -> None:
    avals = (aval((100, 100), np.dtype("int32")), aval((100, 100), F64))
    need = Engine().prepare("einsum", {"subscripts": "ij,jk->ik"}, avals).need
    assert (need.value, need.kept) == (2 * 80_000, 80_000)


def test_a_matrix_product_needs_its_results() -> None:
    avals = (aval((100, 200), F64), aval((200, 300), F64))
    need = Engine().prepare("einsum", {"subscripts": "ij,jk->ik"}, avals).need
    assert need.value == 8 * 100 * 300
    assert need.kept == 0
    assert need.gradient == 8 * (100 * 200 + 200 * 300)
