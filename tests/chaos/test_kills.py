"""The short form of `tests.chaos.kills`."""

from __future__ import annotations

from tests.chaos import kills


def test_training_with_recovery_is_bit_equal_under_kills() -> None:
    outcome = kills.recovered(4, seed=7)
    assert outcome.kills >= 4
    assert outcome.steps > 0


def test_training_without_recovery_meets_typed_errors_alone() -> None:
    outcome = kills.lost(3, seed=7)
    assert outcome.kills >= 3
    assert outcome.lost <= outcome.kills
    assert outcome.steps > 0
