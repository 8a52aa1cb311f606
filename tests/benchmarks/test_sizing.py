"""The queue that sizes workers, against what is known of such queues."""

from __future__ import annotations

import math

import pytest
from benchmarks.sizing import Load, enough, simulate


def repairman(sessions: int, seconds: float, thinking: float) -> float:
    """Calls a second of one worker: the machine repairman model (Kleinrock, "Queueing Systems" I, 3.8)."""
    weights = [
        math.factorial(sessions) / math.factorial(sessions - n) * (seconds / thinking) ** n
        for n in range(sessions + 1)
    ]
    return (1 - weights[0] / sum(weights)) / seconds


@pytest.mark.parametrize(("sessions", "thinking"), [(1, 0.5), (4, 0.5), (16, 0.5), (16, 5.0)])
def test_one_worker_answers_as_many_calls_as_the_formula_says(
    sessions: int, thinking: float
) -> None:
    outcome = simulate(sessions, 1, 0.1, thinking, 40_000)
    assert outcome.rate == pytest.approx(repairman(sessions, 0.1, thinking), rel=0.03)
    assert outcome.busy == pytest.approx(outcome.rate * 0.1, rel=0.03)


def test_sessions_stay_with_their_worker() -> None:
    """Two workers of two sessions each are two systems of their own."""
    outcome = simulate(4, 2, 0.1, 0.2, 40_000)
    assert outcome.rate == pytest.approx(2 * repairman(2, 0.1, 0.2), rel=0.03)


def test_a_worker_a_session_is_the_most() -> None:
    workers, outcome = enough(Load("always asking", 0.1, 1000), 8, 0.0)
    assert 2 <= workers <= 8
    assert outcome.busy == pytest.approx(1.0, abs=0.02)


def test_memory_alone_can_ask_for_workers() -> None:
    workers, _ = enough(Load("large", 0.001, 3 << 30), 8, 10.0)
    assert workers == 6
