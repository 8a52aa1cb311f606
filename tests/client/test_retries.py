"""The retry policy, by a clock and a random source of the tests' own."""

from __future__ import annotations

from typing import Any

import pytest

import backhaul as bh
from backhaul.retries import Attempt, Pause, Retries, may_repeat
from backhaul.steps import run
from backhaul_proto.errors import make_error


class Time:
    """A clock that sleeping moves on, and attempts that take a second."""

    def __init__(self, failures: int, error: bh.BackhaulError | None = None) -> None:
        self.now = 100.0
        self.pauses: list[float] = []
        self.left: list[float | None] = []
        self._failures = failures
        self._error = error or make_error("UNAVAILABLE", "It broke.")

    def do(self, step: Attempt | Pause) -> str | None:
        if isinstance(step, Pause):
            self.pauses.append(step.seconds)
            self.now += step.seconds
            return None
        self.left.append(step.left)
        self.now += 1.0
        if len(self.left) <= self._failures:
            raise self._error
        return "done"

    def policy(self, random: float = 1.0, **of: Any) -> Retries:
        return Retries(clock=lambda: self.now, random=lambda: random, **of)


def test_what_succeeds_is_done_once() -> None:
    time = Time(0)
    assert run(time.policy().steps(9.0, may_repeat), time.do) == "done"
    assert (time.left, time.pauses) == ([9.0], [])


def test_pauses_double_up_to_the_longest_and_are_half_chance() -> None:
    time = Time(5)
    policy = time.policy(1.0, tries=6, first_pause=0.5, longest_pause=3.0)
    assert run(policy.steps(None, may_repeat), time.do) == "done"
    assert time.pauses == [0.5, 1.0, 2.0, 3.0, 3.0]
    assert time.left == [None] * 6
    time = Time(2)
    assert run(time.policy(0.0, first_pause=0.5).steps(None, may_repeat), time.do) == "done"
    assert time.pauses == [0.25, 0.5]
    time = Time(1)
    assert run(time.policy(0.5, first_pause=0.5).steps(None, may_repeat), time.do) == "done"
    assert time.pauses == [0.375]


def test_after_a_few_tries_the_last_error_is_raised() -> None:
    time = Time(99)
    with pytest.raises(bh.Unavailable, match="It broke"):
        run(time.policy(tries=3).steps(None, may_repeat), time.do)
    assert len(time.left) == 3
    assert len(time.pauses) == 2


def test_a_server_that_is_waited_for_is_tried_often_until_the_patience_ends() -> None:
    def waited(patience: float, patient: bool) -> Time:
        time = Time(99)
        policy = time.policy(tries=3, patience=patience)
        error = make_error("UNAVAILABLE", "It is down.")
        with pytest.raises(bh.Unavailable):
            run(policy.again(error, 100.0, None, may_repeat, Attempt, patient=patient), time.do)
        return time

    time = waited(10.0, True)
    assert time.pauses == [0.1, 0.2, *[0.25] * 6]
    assert 109.0 < time.now <= 111.0
    assert waited(10.0, False).pauses == waited(0.0, True).pauses == [0.1, 0.2]


def test_each_try_gets_what_is_left_and_none_begins_after_the_timeout() -> None:
    time = Time(99)
    with pytest.raises(bh.Unavailable):
        run(time.policy(first_pause=1.0).steps(4.5, may_repeat), time.do)
    assert time.left == [4.5, 2.5]  # a try of a second, a pause of one; the next would begin at 5.0
    assert time.pauses == [1.0]
    assert time.now <= 100.0 + 4.5


@pytest.mark.parametrize(
    ("error", "tries"),
    [
        (make_error("UNAVAILABLE", ""), 4),
        (make_error("CHUNK_CHECKSUM", "", chunk=3), 4),
        (make_error("SERVER_BUSY", "", streams=16), 4),
        (make_error("SERVER_BUSY", "", held=10), 1),
        (make_error("MEMORY_LIMIT_EXCEEDED", ""), 1),
        (make_error("CONNECTION_CLOSED", ""), 1),
        (make_error("DEADLINE_EXCEEDED", ""), 1),
        (make_error("CANCELLED", ""), 1),
        (make_error("SESSION_LOST", ""), 1),
        (make_error("INTERNAL", ""), 1),
    ],
)
def test_a_stream_is_repeated_only_where_nothing_speaks_against_it(
    error: bh.BackhaulError, tries: int
) -> None:
    time = Time(99, error)
    with pytest.raises(bh.BackhaulError):
        run(time.policy().steps(None, may_repeat), time.do)
    assert len(time.left) == tries


def test_an_interrupt_is_no_failure() -> None:
    def do(_: Attempt | Pause) -> None:
        raise KeyboardInterrupt

    time = Time(0)
    with pytest.raises(KeyboardInterrupt):
        run(time.policy().steps(None, may_repeat), do)
    assert time.pauses == []
