"""What every worker does, and what turns add."""

from __future__ import annotations

import itertools
import os
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any

import pytest

from backhaul_proto.errors import Cancelled, DeadlineExceeded, Unavailable
from backhaul_server.workers.call import Call
from backhaul_server.workers.thread import ThreadWorker
from backhaul_server.workers.turns import LONG, TURN, TurnsWorker
from backhaul_server.workers.worker import Interrupt, Worker

WAIT = 120.0
"""Seconds after which a test that waits has failed."""


@pytest.fixture
def callers() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(32) as threads:
        yield threads


@pytest.fixture(params=[ThreadWorker, TurnsWorker])
def worker(request: pytest.FixtureRequest) -> Iterator[Worker]:
    made: Worker = request.param()
    yield made
    made.close()


class Step:
    """A long step: it says when it has begun, and goes on when it is let."""

    def __init__(self) -> None:
        self.begun = threading.Event()
        self.free = threading.Event()

    def __call__(self, interrupt: Interrupt) -> str:
        self.begun.set()
        assert self.free.wait(WAIT)
        interrupt()
        return "done"


def started(callers: ThreadPoolExecutor, worker: Worker, session: Any, step: Step) -> Future[str]:
    running = callers.submit(worker.run, Call(), session, step)
    assert step.begun.wait(WAIT)
    return running


# Every worker


def test_the_result_and_the_error_are_the_function_s(worker: Worker) -> None:
    def fails(_: Interrupt) -> None:
        raise KeyError("own")

    assert worker.run(Call(), "a", lambda _: 7) == 7
    with pytest.raises(KeyError, match="own"):
        worker.run(Call(), "a", fails)
    assert worker.run(Call(), None, lambda _: 8) == 8


def test_work_that_nobody_waits_for_does_not_begin(worker: Worker) -> None:
    ran: list[int] = []
    call = Call()
    call.cancel()
    with pytest.raises(Cancelled):
        worker.run(call, "a", lambda _: ran.append(1))
    with pytest.raises(DeadlineExceeded):
        worker.run(Call(-1.0), "a", lambda _: ran.append(2))
    assert worker.run(Call(), "a", lambda _: ran) == []


def test_work_stops_where_it_asks(worker: Worker) -> None:
    call = Call()
    passed: list[int] = []

    def work(interrupt: Interrupt) -> None:
        for i in itertools.count():
            passed.append(i)
            if i == 3:
                call.cancel()
            interrupt()

    with pytest.raises(Cancelled):
        worker.run(call, "a", work)
    assert passed == [0, 1, 2, 3]


def test_a_session_s_work_is_done_one_after_the_other(
    worker: Worker, callers: ThreadPoolExecutor
) -> None:
    step = Step()
    first = started(callers, worker, "a", step)
    with pytest.raises(DeadlineExceeded):
        worker.run(Call(0.05), "a", lambda _: "second")
    third = callers.submit(worker.run, Call(), "a", lambda _: first.done() or step.free.is_set())
    step.free.set()
    assert first.result(WAIT) == "done"
    assert third.result(WAIT)


def test_a_closed_worker_has_done_what_it_took_and_takes_no_more(
    worker: Worker, callers: ThreadPoolExecutor
) -> None:
    step = Step()
    running = started(callers, worker, "a", step)
    closing = callers.submit(worker.close)
    step.free.set()
    closing.result(WAIT)
    assert running.result(WAIT) == "done"
    with pytest.raises(Unavailable):
        worker.run(Call(), "a", lambda _: 1)


# Turns


class Clock:
    """Time that goes on by a step at each look."""

    def __init__(self, step: float) -> None:
        self.now, self.step = 0.0, step

    def __call__(self) -> float:
        self.now += self.step
        return self.now


def endless(interrupt: Interrupt) -> None:
    while True:
        interrupt()


def test_one_computes_at_a_time_and_others_have_their_turn(callers: ThreadPoolExecutor) -> None:
    worker = TurnsWorker(lanes=0, clock=Clock(TURN / 10))
    seen: list[str] = []

    def work(name: str) -> Callable[[Interrupt], None]:
        def steps(interrupt: Interrupt) -> None:
            for _ in range(500):
                seen.append(name)
                interrupt()

        return steps

    first = Step()
    running: list[Future[Any]] = [started(callers, worker, "first", first)]
    running += [callers.submit(worker.run, Call(), name, work(name)) for name in "abc"]
    while len(worker.line) < 3:
        os.sched_yield()
    first.free.set()
    for each in running:
        each.result(WAIT)
    turns = [(name, len(list(group))) for name, group in itertools.groupby(seen)]
    assert sorted(seen) == ["a"] * 500 + ["b"] * 500 + ["c"] * 500
    assert len(turns) > 100  # of ten checks or so
    assert max(length for _, length in turns[:-1]) <= 11


def test_without_others_a_turn_lasts() -> None:
    worker = TurnsWorker(clock=Clock(2 * TURN))
    passed = []

    def work(interrupt: Interrupt) -> str:
        for i in range(100):
            interrupt()
            passed.append(i)
        return "done"

    assert worker.run(Call(), "a", work) == "done"
    assert passed == list(range(100))


def test_a_long_step_keeps_nobody_waiting(callers: ThreadPoolExecutor) -> None:
    worker = TurnsWorker(lanes=1)
    step = Step()
    running = started(callers, worker, "a", step)
    assert worker.run(Call(WAIT), "b", lambda _: "at once") == "at once"
    assert worker.run(Call(WAIT), "c", lambda _: "at once") == "at once"
    assert not running.done()
    step.free.set()
    assert running.result(WAIT) == "done"


def test_as_many_long_steps_go_on_beside_the_turns_as_there_are_lanes(
    callers: ThreadPoolExecutor,
) -> None:
    worker = TurnsWorker(lanes=2)
    steps = [Step() for _ in range(3)]
    running = [started(callers, worker, i, step) for i, step in enumerate(steps)]
    with pytest.raises(DeadlineExceeded):
        worker.run(Call(10 * LONG), "b", lambda _: "too soon")
    steps[1].free.set()
    assert running[1].result(WAIT) == "done"
    assert worker.run(Call(WAIT), "b", lambda _: "at last") == "at last"
    for step in steps:
        step.free.set()
    assert [each.result(WAIT) for each in running] == ["done"] * 3


def test_a_step_comes_back_from_beside_for_a_turn(callers: ThreadPoolExecutor) -> None:
    worker = TurnsWorker(lanes=1)
    aside, inside = Step(), Step()
    first = started(callers, worker, "a", aside)
    second = started(callers, worker, "b", inside)  # has the turn, while the first goes on
    aside.free.set()  # now waits for a turn, and its lane is free: the second's step is long as well
    assert first.result(WAIT) == "done"
    inside.free.set()
    assert second.result(WAIT) == "done"


def test_a_deadline_passes_while_one_waits_for_a_further_turn(callers: ThreadPoolExecutor) -> None:
    worker = TurnsWorker(lanes=0, clock=Clock(TURN))
    late = callers.submit(worker.run, Call(0.3), "late", endless)
    step = Step()
    running = started(callers, worker, "other", step)  # has the turn that the first passed on
    with pytest.raises(DeadlineExceeded):
        late.result(WAIT)
    step.free.set()
    assert running.result(WAIT) == "done"
    assert worker.run(Call(WAIT), "late", lambda _: "free again") == "free again"


def test_many_callers_with_checks_cancellations_and_deadlines_leave_it_idle(
    callers: ThreadPoolExecutor,
) -> None:
    worker = TurnsWorker(lanes=2, clock=Clock(TURN / 3))
    inside: dict[int, int] = dict.fromkeys(range(6), 0)
    overlaps: list[int] = []

    def call_many(seed: int) -> list[str]:
        ended = []
        for i in range(60):
            session = (seed + i) % 6
            call = Call(None if i % 7 else 0.002)

            def work(
                interrupt: Interrupt, session: int = session, i: int = i, call: Call = call
            ) -> str:
                inside[session] += 1
                if inside[session] != 1:
                    overlaps.append(session)
                try:
                    for _ in range(i % 11):
                        interrupt()
                    if i % 5 == 0:
                        call.cancel()
                        interrupt()
                finally:
                    inside[session] -= 1
                return "done"

            try:
                ended.append(worker.run(call, session, work))
            except (Cancelled, DeadlineExceeded) as error:
                ended.append(error.reason)
        return ended

    found = [each for seed in range(12) for each in [callers.submit(call_many, seed)]]
    ended = [name for each in found for name in each.result(3 * WAIT)]
    assert not overlaps
    assert len(ended) == 12 * 60
    assert ended.count("done") >= 12 * 60 * 4 // 5 - 12 * 9
    assert ended.count("CANCELLED") + ended.count("DEADLINE_EXCEEDED") >= 12 * 12 - 12 * 9
    callers.submit(worker.close).result(WAIT)
