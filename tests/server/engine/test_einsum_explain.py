"""What an einsum's contraction path costs, told in advance."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import opt_einsum
import pytest

from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.einsum import resolve
from backhaul_proto.messages import Contraction, ContractionCost
from backhaul_server.engine.einsum.explain import explain
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.memory import Room

F64, I64 = np.dtype("float64"), np.dtype("int64")

ANY = Room()


def explained(
    subscripts: str,
    *shapes: tuple[int, ...],
    dtypes: tuple[np.dtype[Any], ...] = (),
    result: np.dtype[Any] = F64,
    room: Room = ANY,
    **attributes: Any,
) -> ContractionCost:
    einsum = resolve(shapes, subscripts=subscripts, **attributes)
    return explain(einsum, dtypes or (F64,) * len(shapes), result, room)


def test_a_matrix_product() -> None:
    cost = explained("ij,jk->ik", (100, 200), (200, 300))
    assert cost.steps == (Contraction((0, 1), "ab,bc->ac", 6_000_000, 30_000, False),)
    assert cost.naive_multiplications == 6_000_000
    assert cost.largest_intermediate == 30_000
    result, both = 8 * 30_000, 8 * (20_000 + 60_000)
    assert cost.value_bytes == result
    assert cost.gradient_bytes == 2 * result + both  # result and cotangent; two gradients
    # Result, its tangent, the cotangent and its tangent; gradients and H·v. The two products that a
    # tangent is the sum of stand beside each other before the gradient is there, so they add nothing.
    assert cost.hvp_bytes == 4 * result + 2 * both


def test_three_matrices() -> None:
    cost = explained("ij,jk,kl->il", (10, 20), (20, 30), (30, 40), path=((0, 1), (0, 1)))
    first = Contraction((0, 1), "ab,bc->ac", 10 * 20 * 30, 300, True)
    second = Contraction((0, 1), "cd,ac->ad", 10 * 30 * 40, 400, False)
    assert cost.steps == (first, second)
    assert cost.naive_multiplications == 2 * 10 * 20 * 30 * 40
    assert cost.largest_intermediate == 400
    assert cost.value_bytes == 8 * (300 + 400)


def test_what_has_no_room_is_not_kept() -> None:
    shapes = (10, 20), (20, 30), (30, 40)
    whole = explained("ij,jk,kl->il", *shapes, path=((0, 1), (0, 1)))
    none = explained("ij,jk,kl->il", *shapes, path=((0, 1), (0, 1)), room=Room(0))
    assert [step.kept for step in whole.steps] == [True, False]
    assert [step.kept for step in none.steps] == [False, False]
    assert none.gradient_bytes == whole.gradient_bytes - 8 * 300


@pytest.mark.parametrize("seed", range(5))
def test_costs_are_those_of_opt_einsum(seed: int) -> None:
    """Where each step has a sum: opt_einsum counts the additions too."""
    sizes = np.random.default_rng(seed).integers(2, 9, 7).tolist()
    shapes = list(pairwise(sizes))
    cost = explained("ab,bc,cd,de,ef,fg->ag", *shapes)
    path = [step.operands for step in cost.steps]
    _, info = opt_einsum.contract_path("ab,bc,cd,de,ef,fg->ag", *shapes, shapes=True, optimize=path)
    assert sum(step.multiplications for step in cost.steps) == info.opt_cost // 2
    assert cost.largest_intermediate == info.largest_intermediate
    assert cost.steps[-1].elements == sizes[0] * sizes[-1]


@pytest.mark.parametrize("seed", range(10))
def test_the_steps_computed_one_by_one_give_the_result(seed: int) -> None:
    rng = np.random.default_rng(seed)
    subscripts = "aab,bc,cde,dd,e,fg,g->fca"
    sizes = dict(zip("abcdefg", rng.integers(2, 5, 7).tolist(), strict=True))
    terms = subscripts.partition("->")[0].split(",")
    operands = [rng.standard_normal([sizes[x] for x in term]) for term in terms]
    left: list[Any] = list(operands)
    for step in explained(subscripts, *[x.shape for x in operands]).steps:
        read = [left[position] for position in step.operands]
        left = [x for position, x in enumerate(left) if position not in step.operands]
        left.append(np.einsum(step.subscripts, *read))
        assert left[-1].size == step.elements
    np.testing.assert_allclose(left[0], np.einsum(subscripts, *operands), rtol=1e-10)


def test_one_operand_is_one_step_without_multiplications() -> None:
    cost = explained("ij->ji", (3, 4))
    assert cost.steps == (Contraction((0,), "ab->ba", 0, 12, False),)
    assert (cost.naive_multiplications, cost.value_bytes) == (0, 0)  # a view
    assert explained("i->i", (3,)).steps == (Contraction((0,), "a->a", 0, 3, False),)


def test_integers_have_no_gradient_and_are_cast_where_others_are_floats() -> None:
    whole = explained("ij,jk->ik", (10, 20), (20, 30), dtypes=(I64, I64), result=I64)
    assert whole.gradient_bytes == whole.hvp_bytes == whole.value_bytes == 8 * 300
    mixed = explained("ij,jk->ik", (10, 20), (20, 30), dtypes=(I64, F64))
    assert mixed.value_bytes == 8 * (200 + 300)


def test_a_network_larger_than_any_machine_is_told_exactly() -> None:
    n, count = 2**28, 30
    terms = [chr(200 + i) + chr(201 + i) for i in range(count)]
    cost = explained(
        f"{','.join(terms)}->{chr(200)}{chr(200 + count)}", *[(n, n)] * count, room=Room(2**40)
    )
    assert cost.naive_multiplications == n ** (count + 1) * (count - 1)
    assert {step.multiplications for step in cost.steps} == {n**3}
    assert cost.gradient_bytes > count * 8 * n**2 > 2**63
    assert not any(step.kept for step in cost.steps)


def test_the_engine_keeps_what_was_told() -> None:
    shapes = (8, 9), (9, 10), (10, 11), (11, 12), (12, 13)
    labels = "ab,bc,cd,de,ef->af"
    engine = Engine(keep_bytes=1000)
    call = engine.prepare("einsum", {"subscripts": labels}, tuple(aval(s, F64) for s in shapes))
    cost = explained(labels, *shapes, room=Room(1000))
    kept = sum(8 * step.elements for step in cost.steps if step.kept)
    assert 0 < kept <= 1000
    assert call.need.kept == kept
