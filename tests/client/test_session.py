"""Requests in order, each step exactly once, whatever is lost or refused on the way."""

from __future__ import annotations

import numpy as np
import pytest
from tests.client.flaky import blocks, flaky

import backhaul as bh
from backhaul_proto.errors import make_error

FATES = ["request", "answer"]


def value(x: bh.TrackedTensor) -> float:
    return float(x.numpy().sum())


@pytest.mark.parametrize("fate", FATES)
def test_a_first_question_whose_call_was_lost_is_asked_again(fate: str) -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        loss = bh.sum(x * x)
        transport.lose = [fate]
        with pytest.raises(bh.Unavailable):
            tape.pullback(loss)
        np.testing.assert_array_equal(tape.pullback(loss)[x], [2.0, 4.0])
        assert value(bh.sum(x)) == 3.0


@pytest.mark.parametrize("fate", FATES)
def test_a_later_question_whose_call_was_lost_is_asked_again_with_new_steps(fate: str) -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        assert value(x + 1.0) == 5.0
        y = x * 2.0
        transport.lose = [fate]
        with pytest.raises(bh.Unavailable):
            y.numpy()
        z = y * y
        assert value(z) == 20.0
        assert value(y) == 6.0
        ran = [call.op for block in blocks(transport) if block for call in block.calls]
        assert ran.count("multiply") >= 1
        info = transport.get_session(tape._core._session.id, b"", timeout=None)
        assert info.last_seq == tape._core._session.last_seq


# The second question is sent as if the first had been run; None: then the server says that it was not.
@pytest.mark.parametrize(
    "fates",
    [
        ["request", "request"],
        ["request", None, "request"],
        ["request", None, "answer"],
        ["answer", "request"],
        ["answer", "answer"],
    ],
)
def test_several_losses_in_a_row(fates: list[str | BaseException | None]) -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        assert value(x * 1.0) == 2.0
        y = x * 3.0
        transport.lose = fates.copy()
        with pytest.raises(bh.Unavailable):
            y.numpy()
        z = y * 5.0
        with pytest.raises(bh.Unavailable):
            z.numpy()
        w = z * 7.0
        assert [value(each) for each in (w, z, y)] == [210.0, 30.0, 6.0]


def test_nothing_is_run_twice_after_a_lost_answer() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        y = x * 3.0
        transport.lose = ["answer"]
        with pytest.raises(bh.Unavailable):
            y.numpy()
        assert value(y * 5.0) == 30.0
        first, second = blocks(transport)
        assert [first.calls[i].op for i in first.steps] == ["leaf", "constant", "multiply"]
        assert [second.calls[i].op for i in second.steps] == ["constant", "multiply"]
        assert [each.seq for each in transport.requests] == [1, 2]


def test_what_nothing_needs_is_left_out_of_a_refused_block() -> None:
    with flaky() as (tape, transport):
        small = tape.leaf(2.0)
        large = tape.leaf(np.zeros(1000))
        total = bh.sum(large * np.full(1000, 3.0))
        transport.lose = [make_error("MEMORY_LIMIT_EXCEEDED", "Too large.")]
        with pytest.raises(bh.MemoryLimitExceeded):
            total.numpy()
        del large, total
        assert value(small * small) == 4.0
        request = transport.requests[0]
        assert request.seq == 1
        assert [array.size for array in request.tensors] == [1]
        block = blocks(transport)[0]
        assert [block.calls[i].op for i in block.steps] == ["leaf"] + ["skip"] * 4 + ["multiply"]


def test_a_block_in_doubt_that_was_never_run_is_left_out_too() -> None:
    with flaky() as (tape, transport):
        small = tape.leaf(2.0)
        large = tape.leaf(np.zeros(1000))
        transport.lose = ["request"]
        with pytest.raises(bh.Unavailable):
            bh.sum(large).numpy()
        large = tape.leaf(np.zeros(1000))
        transport.lose = ["request"]
        with pytest.raises(bh.Unavailable):
            bh.sum(large).numpy()
        del large
        assert value(small * small) == 4.0
        ran = transport.requests[-1]
        assert (ran.seq, [array.size for array in ran.tensors]) == (1, [1])


def test_a_refusal_in_doubt_does_not_end_the_tape() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        assert value(x * 1.0) == 2.0
        y = x * 3.0
        transport.lose = ["answer", make_error("SERVER_BUSY", "Later.")]
        with pytest.raises(bh.Unavailable):
            y.numpy()
        z = y * 5.0
        with pytest.raises(bh.ServerBusy):
            z.numpy()
        assert value(z) == 30.0


def test_a_request_in_doubt_that_comes_late_is_not_run_twice() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        assert value(x * 1.0) == 2.0
        y = x * 3.0
        transport.lose = ["late"]
        with pytest.raises(bh.Unavailable):
            y.numpy()
        z = y * 5.0
        transport.lose = ["late"]
        with pytest.raises(bh.Unavailable):
            z.numpy()
        # The server has run neither when it is asked; then the first arrives before what replaces it.
        transport.lose = [None, "first late"]
        w = z * 7.0
        assert [value(each) for each in (w, z, y)] == [210.0, 30.0, 6.0]
        ran = [call.op for block in blocks(transport) if block for call in block.calls]
        assert ran.count("leaf") == 1
        assert tape._core._session.last_seq == transport.requests[-1].seq


def test_an_interrupted_wait_leaves_the_tape_usable() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf(2.0)
        y = x * 3.0
        transport.lose = [KeyboardInterrupt()]
        with pytest.raises(KeyboardInterrupt):
            y.numpy()
        assert value(y) == 6.0


def test_a_block_that_was_sent_before_travels_as_its_hash() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        for _ in range(3):
            value(bh.sum(x * x))
        first, second, third = transport.requests
        assert first.block is not None
        assert first.block.block is not None
        assert second.block is not None
        assert second.block.block is not None  # x is an input of it, not a step
        assert third.block is not None
        assert third.block.block is None
        assert third.block.hash == second.block.hash


def test_a_server_that_lost_the_block_is_sent_it_again_once() -> None:
    with flaky() as (tape, transport):
        x = tape.leaf([1.0, 2.0])
        for _ in range(2):
            value(bh.sum(x * x))
        transport._dispatcher._sessions._blocks._blocks.clear()
        assert value(bh.sum(x * x)) == 5.0
        assert [
            each.block is not None and each.block.block is not None
            for each in transport.requests[-2:]
        ] == [False, True]
        assert transport.requests[-1].seq == transport.requests[-2].seq


def test_much_data_and_many_steps_are_sent_without_a_question(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backhaul.connection.BLOCK_BYTES", 3000)
    with flaky() as (tape, transport):
        leaves = [tape.leaf(np.full(100, float(i))) for i in range(8)]
        assert len(transport.requests) == 2
        assert [sum(x.nbytes for x in r.tensors) for r in transport.requests] == [2400, 2400]
        tape._recorder.full_at = tape._recorder.next_id
        total = leaves[0] + leaves[7]
        assert len(transport.requests) == 3
        assert value(total) == 700.0


def test_a_refused_flush_raises_where_the_step_would_be_recorded(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("backhaul.connection.BLOCK_BYTES", 1000)
    with flaky() as (tape, transport):
        first = tape.leaf(np.ones(100))
        transport.lose = ["request"]
        with pytest.raises(bh.Unavailable):
            tape.leaf(np.ones(100))
        assert value(first + tape.leaf(np.ones(100))) == 200.0
