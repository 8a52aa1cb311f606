"""A worker that is stuck is reported, with the place where it is."""

from __future__ import annotations

import threading

import pytest
from tests.client.waiting import wait_until

from backhaul_server.workers.call import Call
from backhaul_server.workers.turns import TurnsWorker
from backhaul_server.workers.watchdog import Watchdog


def test_a_stuck_step_is_reported_once_with_its_stack(caplog: pytest.LogCaptureFixture) -> None:
    now = [0.0]
    worker = TurnsWorker(lanes=0)
    dog = Watchdog(worker, 60.0, clock=lambda: now[0])
    begun, free = threading.Event(), threading.Event()

    def stuck_here(_: object) -> None:
        begun.set()
        assert free.wait(120)

    holding = threading.Thread(target=worker.run, args=(Call(), "a", stuck_here))
    holding.start()
    assert begun.wait(120)
    dog.look()
    now[0] += 100.0
    dog.look()
    assert dog.reports == 0  # nobody waits
    waiting = threading.Thread(target=worker.run, args=(Call(), "b", lambda _: None))
    waiting.start()
    wait_until(lambda: worker.waiting == 1)
    dog.look()
    now[0] += 59.0
    dog.look()
    assert dog.reports == 0
    for _ in range(3):
        now[0] += 10.0
        dog.look()
    assert dog.reports == 1
    (record,) = [each for each in caplog.records if each.message == "stuck"]
    (stack,) = record.__dict__["stacks"]
    assert "in stuck_here" in stack
    assert record.__dict__["waiting"] == 1
    free.set()
    holding.join(120)
    waiting.join(120)
    dog.look()
    now[0] += 100.0
    dog.look()
    assert dog.reports == 1
