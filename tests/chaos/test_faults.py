"""Work through a proxy that fails, in short: the program `faults` does the same at length."""

from __future__ import annotations

import random
from collections import Counter

from tests.chaos.faults import run
from tests.chaos.faulty_proxy import KINDS, random_fault


def test_every_answer_is_right_or_a_typed_error_in_time() -> None:
    report = run(12, seed=5, timeout=0.5)
    assert report.wrong == []
    assert report.faults == 12
    assert report.happened >= 6
    outcomes = sum(report.outcomes.values(), Counter())
    assert outcomes.total() == 12
    assert outcomes["right"] > 3


def test_faults_are_of_all_kinds() -> None:
    rng = random.Random(0)
    assert {random_fault(rng, "small").kind for _ in range(200)} == set(KINDS)
