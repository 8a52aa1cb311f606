"""The short form of `tests.chaos.kills`."""

from __future__ import annotations

from tests.chaos import kills


def test_training_with_recovery_is_bit_equal_under_kills() -> None:
    outcome = kills.recovered(2, seed=7, longest=0.2)
    assert outcome.kills == 2
    assert outcome.steps > 0
    assert outcome.lost == 0


def test_training_without_recovery_meets_a_typed_error_at_each_kill() -> None:
    outcome = kills.lost(2, seed=7, longest=0.2)
    assert outcome.lost == outcome.kills == 2
    assert outcome.steps >= 2
