"""The last guard on memory, and free memory given back."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np

from backhaul_server.resident import LARGE, LOOK, PAUSE, ResidentGuard, Trimmer, resident_bytes


def test_what_is_resident_is_read() -> None:
    before = resident_bytes()
    array = np.ones(4 << 20)
    assert resident_bytes() - before >= array.nbytes * 3 // 4
    assert resident_bytes(Path("/nothing/here")) == 0


def test_the_guard_gives_free_memory_back_first_and_looks_now_and_then() -> None:
    now, resident, looks, given = [0.0], [50], [0], [0]

    def read() -> int:
        looks[0] += 1
        return resident[0]

    def give_back() -> None:
        given[0] += 1
        resident[0] -= 100

    guard = ResidentGuard(200, read, give_back, clock=lambda: now[0])
    assert not guard.is_over()
    resident[0] = 250
    assert not guard.is_over()
    assert looks == [1]
    now[0] += LOOK
    assert not guard.is_over()  # it was free memory
    assert given == [1]
    resident[0] = 350
    now[0] += LOOK
    assert guard.is_over()  # it was given back just now
    assert given == [1]
    now[0] += PAUSE
    assert guard.is_over()
    assert given == [2]
    resident[0] = 100
    now[0] += LOOK
    assert not guard.is_over()


def test_much_that_was_freed_is_given_back_elsewhere() -> None:
    given = threading.Event()
    threads: list[int] = []

    def give_back() -> None:
        threads.append(threading.get_ident())
        given.set()

    trimmer = Trimmer(give_back, pause=0.01)
    trimmer.freed(LARGE - 1)
    assert not given.wait(0.05)
    trimmer.freed(1)
    assert given.wait(120)
    trimmer.close()
    assert threads != [threading.get_ident()]
    assert len(threads) == 1
