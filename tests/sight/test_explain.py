"""Which leaves a loss reaches, and why not the others; where NaN came from."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import backhaul as bh
from backhaul.history import PACKED_AT


@pytest.fixture
def tape(connection: bh.Connection) -> Iterator[bh.Tape]:
    with bh.Tape(connection) as made:
        yield made


def test_the_steps_on_the_way_are_told_with_their_lines(tape: bh.Tape) -> None:
    x, y = tape.leaf(np.ones((2, 3))), tape.leaf(np.ones(3))
    found = tape.explain(bh.sum(bh.exp(x) * y))
    assert [(each.node, each.op, each.inputs) for each in found.steps] == [
        (1, "leaf", ()),
        (2, "leaf", ()),
        (3, "exp", (1,)),
        (4, "multiply", (3, 2)),
        (5, "sum", (4,)),
    ]
    assert [each.shape for each in found.steps] == [(2, 3), (3,), (2, 3), (2, 3), ()]
    assert [each.nbytes for each in found.steps] == [48, 24, 48, 48, 8]
    assert {each.dtype for each in found.steps} == {"float64"}
    assert all(
        each.source is not None and "test_explain.py:" in each.source for each in found.steps
    )
    assert [each.node for each in found.reached] == [1, 2]
    assert not found.unreached
    assert "reaches 2 of 2 leaves, by 3 steps" in repr(found)
    assert found.rows[2]["op"] == "exp"


def test_a_leaf_that_nothing_takes_is_unused(tape: bh.Tape) -> None:
    x, unused = tape.leaf(1.0), tape.leaf(2.0)
    (missing,) = tape.explain(x * 2.0).unreached
    assert (missing.leaf.node, missing.why, missing.at) == (unused.node_id, "unused", None)
    assert "operand of nothing" in str(missing)


def test_a_leaf_may_lead_elsewhere(tape: bh.Tape) -> None:
    x, other = tape.leaf(1.0), tape.leaf(2.0)
    aside = bh.exp(other)
    (missing,) = tape.explain(x * 2.0).unreached
    assert missing.why == "elsewhere"
    assert missing.at is not None
    assert (missing.at.node, missing.at.op) == (aside.node_id, "exp")


def test_what_is_detached_on_its_way_is_told_with_the_step(tape: bh.Tape) -> None:
    x, y = tape.leaf([1.0, 2.0]), tape.leaf([3.0, 4.0])
    loss = bh.sum(x * bh.exp(bh.sin(y).detach() * 2.0))
    (missing,) = tape.explain(loss).unreached
    assert (missing.leaf.node, missing.why) == (y.node_id, "detached")
    assert missing.at is not None
    assert missing.at.op == "stop_gradient"
    assert "test_explain.py" in missing.at.where


def test_a_new_leaf_keeps_nothing_of_the_old_one(tape: bh.Tape) -> None:
    x = tape.leaf(1.0)
    again = tape.leaf(x * 2.0)
    found = tape.explain(again * again)
    assert [each.node for each in found.reached] == [again.node_id]
    (missing,) = found.unreached
    assert missing.why == "detached"
    assert "new leaf" in str(missing)


def test_an_op_that_no_gradient_flows_through_is_named(tape: bh.Tape) -> None:
    x, y = tape.leaf([1.0, 2.0]), tape.leaf([3.0, 4.0])
    loss = bh.sum(bh.where(y > 3.5, x, 0.0))
    (missing,) = tape.explain(loss).unreached
    assert (missing.leaf.node, missing.why) == (y.node_id, "not differentiable")
    assert missing.at is not None
    assert missing.at.op == "greater"


def test_a_constant_is_explained_too(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    found = tape.explain(bh.sum(x.detach()))
    assert not found.steps
    assert not found.reached
    assert [each.why for each in found.unreached] == ["detached"]
    assert "requires no gradient" in repr(found)


def test_a_long_tape_is_known_from_its_beginning(tape: bh.Tape) -> None:
    x, y = tape.leaf(1.0), tape.leaf(2.0)
    total = x + y.detach()
    for i in range(PACKED_AT + 10):
        total = total * 1.0
        if i % 1000 == 0:
            tape.flush()
    found = tape.explain(total)
    assert len(found.steps) == PACKED_AT + 12
    assert [each.why for each in found.unreached] == ["detached"]
    assert len(repr(found).splitlines()) < 80


def test_several_results_are_nodes_of_one_step(tape: bh.Tape) -> None:
    x = tape.leaf([[2.0, 0.0], [0.0, 3.0]])
    q, r = bh.linalg.qr(x)
    found = tape.explain(bh.sum(q) + bh.sum(r))
    assert [(each.op, each.inputs) for each in found.steps[1:3]] == [("linalg.qr", (1,))] * 2


def test_a_tensor_of_another_tape_is_refused(tape: bh.Tape) -> None:
    other = bh.Tape()
    with pytest.raises(bh.MissingNode):
        tape.explain(other.leaf(1.0))
    with pytest.raises(bh.MissingNode):
        tape.blame(other.leaf(1.0))


def test_it_is_one_round_trip_with_what_was_recorded(tape: bh.Tape) -> None:
    x = tape.leaf(1.0)
    loss = x * x
    before = tape._core.connection.calls["Execute"]
    tape.explain(loss)
    assert tape._core.connection.calls["Execute"] == before + 1


def test_the_first_step_that_made_nan_is_blamed(tape: bh.Tape) -> None:
    x = tape.leaf([4.0, -1.0, 0.0])
    root = bh.sqrt(x)
    loss = bh.sum(bh.exp(root) * 2.0)
    found = tape.blame(loss)
    assert found
    assert found.first is not None
    assert (found.first.op, found.first.nan, found.first.inf) == ("sqrt", 1, 0)
    assert "test_explain.py" in found.first.where
    assert "1 NaN: first made by node 2 (sqrt" in repr(found)


def test_infinity_is_blamed_before_the_nan_that_it_led_to(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 0.0])
    loss = bh.sum(bh.log(x) * x)
    found = tape.blame(loss)
    assert [(each.op, each.nan, each.inf) for each in found.culprits] == [("log", 0, 1)]


def test_a_leaf_may_have_been_given_so(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, np.nan, np.inf, -np.inf])
    found = tape.blame(bh.sum(x))
    assert found.first is not None
    assert (found.first.op, found.first.nan, found.first.inf) == ("leaf", 1, 2)
    assert "was given so" in repr(found)


def test_every_beginning_is_told(tape: bh.Tape) -> None:
    x = tape.leaf([0.0, 1.0])
    found = tape.blame(bh.sum(bh.log(x)) + bh.sum(1.0 / x))
    assert [each.op for each in found.culprits] == ["log", "divide"]


def test_what_is_finite_blames_nothing(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    found = tape.blame(bh.sum(x))
    assert not found
    assert found.first is None
    assert "finite" in repr(found)


def test_complex_numbers_count_once(tape: bh.Tape) -> None:
    x = tape.leaf([complex(np.nan, np.inf), complex(0, np.inf), 1j])
    first = tape.blame(x * 1.0).first
    assert first is not None
    assert (first.nan, first.inf) == (1, 1)


def test_what_is_not_held_any_more_is_named(tape: bh.Tape) -> None:
    x = tape.leaf([1.0, 2.0])
    gone = bh.log(tape.constant([0.0, 1.0]))
    loss = bh.sum(x * gone * bh.log(gone))
    del gone
    tape.flush()
    tape.flush()
    found = tape.blame(loss)
    assert found
    assert {each.op for each in found.unknown} <= {"log"}


def test_a_large_array_is_read_in_pieces(tape: bh.Tape) -> None:
    value = np.ones((3, 700_000))
    value[1, 5] = np.nan
    value[2, 699_999] = np.inf
    first = tape.blame(tape.leaf(value)).first
    assert first is not None
    assert (first.nan, first.inf) == (1, 1)
