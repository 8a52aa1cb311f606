"""Einsums that are too large for their room are computed in slices: the same numbers in less memory."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.server.engine.strict import strict_engine
from tests.server.engine.test_einsum_memory import (
    BUFFERS,
    Asked,
    Network,
    normal,
    random_network,
)
from tests.traced import traced

from backhaul_proto.catalog.einsum import resolve
from backhaul_server.engine.einsum.explain import explain
from backhaul_server.engine.einsum.slicing import Slicing
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.memory import Need, Room
from backhaul_server.engine.tape import Tape

F64 = np.dtype("float64")


def slicing_of(asked: Asked, name: str = "slicing") -> Slicing | None:
    """How the call is cut; None where it is not."""
    found: Slicing | None = getattr(asked.call.cotangents, "keywords", {}).get(name)
    return found


def most(need: Need) -> int:
    return max(need.value, need.kept + need.gradient, need.hvp)


def assert_close(actual: Any, expected: Any, scale: float, single: bool) -> None:
    assert actual.dtype == expected.dtype
    error = 3e-4 if single else 1e-11
    np.testing.assert_allclose(actual, expected, rtol=error, atol=error * scale)


def assert_same(whole: Asked, cut: Asked, rng: np.random.Generator) -> None:
    """Value, cotangents and H·v of both agree, and the latter's are the same bits a second time."""
    single = any(x.dtype in ("float32", "complex64") for x in whole.operands)
    y = whole.value()
    assert_close(cut.value(), y, abs(y).max(initial=1), single)
    assert cut.value().tobytes() == cut.value().tobytes()
    ct, dct = normal(rng, y.shape, y.dtype), normal(rng, y.shape, y.dtype)
    for got, wanted in zip(cut.gradient(ct), whole.gradient(ct), strict=True):
        assert_close(got, wanted, abs(wanted).max(initial=1), single)
    tangents = [normal(rng, x.shape, x.dtype) for x in whole.operands]
    for got, wanted in zip(cut.hvp(ct, dct, tangents), whole.hvp(ct, dct, tangents), strict=True):
        assert_close(got.value, wanted.value, abs(wanted.value).max(initial=1), single)
        assert_close(got.tangent, wanted.tangent, abs(wanted.tangent).max(initial=1), single)


@pytest.mark.parametrize("block", range(4))
def test_random_networks_in_slices_are_those_as_a_whole(block: int) -> None:
    """Hyperedges, repeated labels, axes of size 1 that broadcast, complex and mixed dtypes."""
    cut_in_all = 0
    for seed in range(block * 25, block * 25 + 25):
        rng = np.random.default_rng(seed)
        network = random_network(rng, "abcdefg", (1, 2, 3, 5, 17))
        whole = Asked(network, Engine())
        for share in (0.3, 0.7):
            engine = Engine(None, [None, 0, 1000][seed % 3], int(most(whole.call.need) * share))
            cut = Asked(network, engine)
            if slicing_of(cut) is not None:
                cut_in_all += 1
                assert_same(Asked(network, Engine()), cut, rng)
    assert cut_in_all > 5


@settings(max_examples=60)
@given(st.integers(0, 10**6), st.integers(1, 99))
def test_slices_fit_or_nothing_is_cut(seed: int, percent: int) -> None:
    network = random_network(np.random.default_rng(seed), "abcdef", (1, 2, 3, 17, 40))
    whole = Asked(network, Engine()).call.need
    room = most(whole) * percent // 100
    cut = Asked(network, Engine(None, None, room))
    need = cut.call.need
    if slicing_of(cut) is None:
        assert need == whole
    else:
        assert max(need.value, need.kept + need.gradient) <= room


def clique(count: int, n: int, left_out: int = 0) -> Network:
    """A tensor a vertex, an edge between any two: results on the way are far larger than operands.

    Of the vertices left out the edges stay, as labels of the result.
    """
    edges = {pair: chr(200 + i) for i, pair in enumerate(combinations(range(count), 2))}
    terms = ["".join(edge for pair, edge in edges.items() if v in pair) for v in range(count)]
    rng = np.random.default_rng(count)
    present = terms[left_out:]
    operands = tuple(rng.standard_normal((n,) * len(term)) / n for term in present)
    return Network(f"{','.join(present)}->{''.join(terms[:left_out])}", operands)


def with_diagonal(network: Network) -> Network:
    """One operand more, whose diagonal goes along an edge."""
    inputs, _, output = network.subscripts.partition("->")
    edge = inputs[0]
    n = network.operands[0].shape[0]
    more = np.random.default_rng(n).standard_normal((n, n))
    return Network(f"{inputs},{edge}{edge}->{output}", (*network.operands, more))


@pytest.mark.parametrize(
    ("network", "share"),
    [
        (clique(6, 4), 0.3),
        (clique(6, 4, 1), 0.4),
        (Network("ai,aj,ak,al->ijk", tuple(np.random.default_rng(0).random((40, 24)) for _ in "1234")), 0.5),
        (with_diagonal(clique(6, 4)), 0.3),
    ],
    ids=["summed labels", "labels of the result", "a hyperedge", "diagonals"],
)  # fmt: skip
def test_what_is_predicted_is_what_is_taken(network: Network, share: float) -> None:
    whole = Asked(network, Engine())
    room = int(most(whole.call.need) * share)
    cut = Asked(network, Engine(None, None, room))
    assert slicing_of(cut) is not None
    assert_same(whole, cut, np.random.default_rng(5))
    need = cut.call.need
    ct = np.ones_like(cut.y)
    assert traced(cut.value)[1] <= need.value + BUFFERS
    assert traced(lambda: cut.gradient(ct))[1] <= need.gradient + BUFFERS
    tangents = [np.ones_like(x) for x in network.operands]
    assert traced(lambda: cut.hvp(ct, ct, tangents))[1] <= need.hvp + BUFFERS


def test_only_what_is_needed_is_computed() -> None:
    network = clique(6, 4)
    room = most(Asked(network, Engine()).call.need) // 3
    needs = [True, False, False, True, False, False]
    cut = Asked(network, Engine(None, None, room), needs)
    whole = Asked(network, Engine(), needs)
    ct = np.ones_like(whole.value())
    cut.value()
    for got, wanted, need in zip(cut.gradient(ct), whole.gradient(ct), needs, strict=True):
        assert (got is not None) == (wanted is not None) == need
        if need:
            np.testing.assert_allclose(got, wanted, rtol=1e-11)


def test_where_the_gradient_fits_but_not_its_derivative_only_that_is_cut() -> None:
    network = clique(6, 4)
    need = Asked(network, Engine()).call.need
    room = (need.kept + need.gradient + need.hvp) // 2
    cut = Asked(network, Engine(None, None, room))
    slicing, fine = slicing_of(cut), slicing_of(cut, "fine")
    assert slicing is not None
    assert fine is not None
    assert (slicing.count, fine.count > 1) == (1, True)
    assert cut.call.need.hvp <= room
    assert_same(Asked(network, Engine()), cut, np.random.default_rng(6))


def test_no_order_of_slices_is_left_to_chance() -> None:
    network = clique(6, 4)
    room = most(Asked(network, Engine()).call.need) // 4
    first, second = (Asked(network, Engine(None, None, room)) for _ in range(2))
    assert first.value().tobytes() == second.value().tobytes()
    ct = np.ones_like(first.y)
    for one, other in zip(first.gradient(ct), second.gradient(ct), strict=True):
        assert one.tobytes() == other.tobytes()


def test_a_sliced_einsum_can_be_stopped_between_slices() -> None:
    network = clique(6, 4)
    engine = Engine(None, None, most(Asked(network, Engine()).call.need) // 4)
    cut = Asked(network, engine)
    slicing = slicing_of(cut)
    assert slicing is not None
    seen = 0

    class Stopped(Exception):
        pass

    def checkpoint() -> None:
        nonlocal seen
        seen += 1
        if seen == slicing.count + 1:
            raise Stopped

    with engine.interruptible(checkpoint), pytest.raises(Stopped):
        cut.value()


def test_an_array_library_other_than_numpy() -> None:
    network = clique(5, 3, 1)
    need = Asked(network, Engine()).call.need
    tapes = []
    for engine in (Engine(), Engine(strict_engine().xp, None, most(need) // 3)):
        tape = Tape(engine)
        leaves = [
            tape.leaf(engine.array(x), engine.array(x[::-1].copy())) for x in network.operands
        ]
        y = tape.apply("einsum", leaves, subscripts=network.subscripts)
        loss = tape.apply("sum", (tape.apply("square", (y,)),))
        first, products = tape.hvp(loss, wrt=leaves)[0]
        gradients = tape.pullback(loss, wrt=leaves)[0]
        tapes.append(
            [engine.host(found[x]) for found in (gradients, first, products) for x in leaves]
        )
    for wanted, got in zip(*tapes, strict=True):
        np.testing.assert_allclose(got, wanted, rtol=1e-11)


def explained(subscripts: str, shapes: Sequence[tuple[int, ...]], room: Room) -> Any:
    einsum = resolve(tuple(shapes), subscripts=subscripts)
    return explain(einsum, (F64,) * len(shapes), F64, room)


def test_explain_tells_the_slices() -> None:
    shapes = [(64, 64)] * 4
    whole = explained("ab,bc,cd,da->", shapes, Room())
    assert (whole.slices, whole.sliced_labels) == (1, "")
    room = whole.hvp_bytes // 2
    cut = explained("ab,bc,cd,da->", shapes, Room(None, room))
    assert cut.slices > 1
    assert set(cut.sliced_labels) <= set("abcd")
    assert cut.gradient_bytes <= room + 64
    assert cut.largest_intermediate < whole.largest_intermediate
