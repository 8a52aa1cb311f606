"""The short form of `overload`: what holds on any machine."""

from __future__ import annotations

from tests.chaos.overload import measure


def test_under_four_times_its_load_a_server_works_on_is_well_and_loses_no_call() -> None:
    found = measure(seconds=2.0, slots=2, processes=1)
    assert found.saturated > 0
    assert found.overloaded > 0
    assert found.health
    assert not found.reasons
