"""What would keep everybody waiting is done when the process rests."""

from __future__ import annotations

import subprocess
import sys

import pytest

from backhaul_server.rest import LONGEST, Rest


@pytest.mark.parametrize(
    ("totals", "tidied"),
    [
        ((0.0, 5.0, 9.0, 9.1, 9.2, 9.2, 14.0, 14.0), [9.1, 14.0]),
        ((0.0, 0.1, 0.2), []),
        ([5.0 * i for i in range(1, int(LONGEST) // 10 + 3)], [LONGEST / 2 + 5.0]),
    ],
    ids=["once after each time of work", "not without work", "in long work too"],
)
def test_it_tidies_up(totals: tuple[float, ...], tidied: list[float]) -> None:
    used, done = [0.0], []
    rest = Rest(lambda: used[0], lambda: done.append(used[0]))
    for total in totals:
        used[0] = total
        rest.look(10.0)
    assert done == tidied


_PROBE = """
import gc
from backhaul_server.rest import collect, put_off_full_collections

class Circle:
    def __init__(self):
        self.own = self

put_off_full_collections()
full = []
gc.callbacks.append(lambda phase, info: full.append(phase) if info["generation"] == 2 else None)
old = [Circle() for _ in range(200_000)]
unasked = len(full)
collect()
print(unasked, len(full))
"""


def test_full_collections_come_only_when_they_are_asked_for() -> None:
    printed = subprocess.run([sys.executable, "-c", _PROBE], capture_output=True, check=True).stdout
    assert printed.split() == [b"0", b"2"]
