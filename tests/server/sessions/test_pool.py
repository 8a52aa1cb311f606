"""Memory of all sessions: who waits for it, in which order, and who is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from threading import Event

import pytest
from tests.client.waiting import wait_until

from backhaul_proto.errors import Cancelled, DeadlineExceeded, QuotaExceeded, ServerBusy
from backhaul_server.sessions.accounts import Quotas
from backhaul_server.sessions.claims import Claim, Lacking
from backhaul_server.sessions.pool import LITTLE, Pool
from backhaul_server.sessions.waiting import LONGEST, Waiting
from backhaul_server.workers.call import Call
from backhaul_server.workers.turns import TurnsWorker
from backhaul_server.workers.worker import Interrupt

WAIT = 120.0


class Tape:
    """A session in a pool, that holds what it is told."""

    def __init__(self, pool: Pool, held: int = 0, principal: str = "") -> None:
        self.principal, self.held, self._pool = principal, 0, pool
        pool.join(self)
        self.hold(held)

    def hold(self, held: int) -> None:
        difference, self.held = held - self.held, held
        self._pool.changed(self, difference)

    def recount(self) -> None:
        pass

    def run(self, needed: int, claim: Claim | None = None) -> int:
        aside = self._pool.reserve(self, self.held + needed, claim)
        if aside is None:
            aside = self._pool.reserve_or_refuse(self, self.held + needed, claim)
        return aside


class Work:
    """Waits for memory on a thread of its own."""

    def __init__(self, callers: ThreadPoolExecutor) -> None:
        self._callers = callers
        self.began: list[str] = []
        self.worker = TurnsWorker(lanes=0)

    def start(self, pool: Pool, name: str, needed: int, call: Call | None = None) -> Future[int]:
        tape = Tape(pool)
        waiting = Waiting(self.worker, pool)

        def work(_: Interrupt, claim: Claim | None) -> int:
            aside = tape.run(needed, claim)
            self.began.append(name)
            return aside

        before = pool.waiting
        running = self._callers.submit(waiting.run, call or Call(WAIT), "", name.encode(), work)
        wait_until(lambda: running.done() or pool.waiting > before)
        return running


@pytest.fixture
def work() -> Iterator[Work]:
    with ThreadPoolExecutor(16) as callers:
        yield Work(callers)


def test_what_others_run_is_waited_for_and_what_they_hold_is_not(work: Work) -> None:
    pool = Pool(100)
    other = Tape(pool, held=30)
    aside = other.run(60)
    waiting = work.start(pool, "large", 70)
    assert not waiting.done()
    with pytest.raises(ServerBusy, match="sessions of the server hold") as caught:
        work.start(pool, "larger", 71).result(WAIT)
    assert float(caught.value.details["retry_after"]) > 0
    # Neither the turn nor the session's place is held meanwhile.
    assert work.worker.run(Call(WAIT), ("", b"large"), lambda _: 7) == 7
    pool.give_back("", aside)
    assert waiting.result(WAIT) == 70
    assert pool.used == 100
    pool.give_back("", 70)
    assert (pool.used, pool.waiting) == (30, 0)


def test_it_goes_in_order_and_small_ones_pass_a_large_one_only_so_often(work: Work) -> None:
    pool = Pool(100)
    running = [Tape(pool).run(45), Tape(pool).run(45)]
    first = work.start(pool, "first", 60)
    second = work.start(pool, "second", 50)
    for i in range(6):  # 60 bytes, as many as the first waits for
        assert work.start(pool, f"small {i}", 10).result(WAIT) == 10
        pool.give_back("", 10)
    late = work.start(pool, "late", 10)
    assert not late.done()
    pool.give_back("", running.pop())
    assert not first.done()
    pool.give_back("", running.pop())
    assert first.result(WAIT) == 60
    assert not second.done()
    assert not late.done()
    pool.give_back("", 60)
    assert second.result(WAIT) == 50
    assert late.result(WAIT) == 10
    assert work.began == [f"small {i}" for i in range(6)] + work.began[6:]
    assert work.began[6] == "first"
    pool.give_back("", 60)
    assert pool.used == 0


def test_one_who_waits_is_told_when_it_has_become_hopeless(work: Work) -> None:
    pool = Pool(100)
    other = Tape(pool)
    aside = other.run(80)
    waiting = work.start(pool, "a", 60)
    other.hold(70)
    pool.give_back("", aside)
    with pytest.raises(ServerBusy, match="sessions of the server hold"):
        waiting.result(WAIT)
    assert (pool.used, pool.waiting) == (70, 0)


def test_what_is_released_wakes_those_who_wait(work: Work) -> None:
    pool = Pool(100)
    tapes = [Tape(pool, held=30) for _ in range(2)]
    aside = tapes[0].run(30)
    waiting = work.start(pool, "a", 40)
    assert not waiting.done()
    pool.leave(tapes[1])
    assert waiting.result(WAIT) == 40
    pool.give_back("", aside + 40)
    assert pool.used == 30


@pytest.mark.parametrize(
    ("timeout", "stop", "error"),
    [
        (WAIT, Call.cancel, Cancelled),
        (0.2, lambda call: None, DeadlineExceeded),
    ],
    ids=["cancel", "deadline"],
)
def test_a_wait_ends_with_the_call(
    work: Work, timeout: float, stop: Callable[[Call], None], error: type[Exception]
) -> None:
    pool = Pool(100)
    aside = Tape(pool).run(80)
    call = Call(timeout)
    waiting = work.start(pool, "a", 60, call)
    behind = work.start(pool, "b", 20)
    stop(call)
    with pytest.raises(error):
        waiting.result(WAIT)
    assert behind.result(WAIT) == 20
    pool.give_back("", aside + 20)
    assert (pool.used, pool.waiting) == (0, 0)


def test_without_a_deadline_one_waits_for_a_while() -> None:
    pool = Pool(100)
    aside = Tape(pool).run(80)
    now = [0.0]

    def clock() -> float:
        now[0] += LONGEST - 0.01
        return now[0]

    with pytest.raises(ServerBusy, match="has waited") as caught:
        Waiting(TurnsWorker(), pool, clock).claim(Call(), "", 60)
    assert caught.value.details["used"] == "80"
    assert float(caught.value.details["retry_after"]) > 0
    pool.give_back("", aside)
    assert (pool.used, pool.waiting) == (0, 0)


def test_those_who_wait_for_each_other_are_not_kept_waiting(work: Work) -> None:
    pool = Pool(100)
    waiting = Waiting(TurnsWorker(), pool)
    arrived = [waiting.claim(Call(WAIT), "", 40) for _ in range(2)]
    tape = Tape(pool)
    with pytest.raises(Lacking) as lacking:
        tape.run(70, arrived[0])
    place = pool.enter(arrived[0], lacking.value.lack, 0)
    assert place is not None
    with pytest.raises(ServerBusy):  # the first has 40 of the 100 as long as it waits
        pool.enter(arrived[1], lacking.value.lack, 0)
    pool.release(arrived[1])
    assert place.left
    assert tape.run(70, arrived[0]) == 70
    assert pool.used == 70


def test_a_principal_has_its_own_share() -> None:
    pool = Pool(100, Quotas(principal_memory=50, principal_sessions=2, sessions=3))
    mine = Tape(pool, held=20, principal="a")
    aside = mine.run(30)
    with pytest.raises(QuotaExceeded) as caught:
        mine.run(10)
    facts = {"quota": "memory", "needed": "30", "held": "20", "used": "50", "allowed": "50"}
    assert caught.value.details == {**facts, "retry_after": "1.0"}
    with pytest.raises(QuotaExceeded) as caught:
        mine.run(31)  # never fits beside what is held
    assert "retry_after" not in caught.value.details
    other = Tape(pool, principal="b")
    assert other.run(50) == 50
    second = Tape(pool, principal="a")
    with pytest.raises(QuotaExceeded) as caught:
        Tape(pool, principal="a")
    assert caught.value.details == {"quota": "sessions", "used": "2", "allowed": "2"}
    with pytest.raises(ServerBusy) as busy:
        Tape(pool, principal="c")
    assert busy.value.details["sessions"] == "3"
    pool.give_back("a", aside)
    pool.give_back("b", 50)
    for each in (mine, second, other):
        pool.leave(each)
    assert pool.used == 0
    assert not pool._accounts or set(pool._accounts) == {"c"}


class Over:
    is_it = True

    def is_over(self) -> bool:
        return self.is_it


def test_a_process_that_is_too_large_keeps_its_sessions_and_their_small_requests() -> None:
    over = Over()
    over.is_it = False
    pool = Pool(1 << 30, guard=over)
    tape = Tape(pool)
    over.is_it = True
    assert tape.run(LITTLE) == LITTLE
    for refused in (lambda: tape.run(LITTLE + 1), lambda: Tape(pool)):
        with pytest.raises(ServerBusy, match="--rss-limit") as caught:
            refused()
        assert float(caught.value.details["retry_after"]) > 0
    over.is_it = False
    assert tape.run(LITTLE + 1) == LITTLE + 1


def test_the_end_of_sessions_is_told_with_what_they_held() -> None:
    freed: list[int] = []
    pool = Pool(100, freed=freed.append)
    Tape(pool, held=10)
    tape = Tape(pool, held=20)
    pool.leave(tape)
    pool.leave(tape)
    assert freed == [20]


def test_many_who_come_and_go_leave_nothing(work: Work) -> None:
    pool = Pool(100)
    done = Event()
    waiting = Waiting(work.worker, pool)

    def use(seed: int) -> int:
        tape = Tape(pool)
        served = 0
        for i in range(60):
            needed = 1 + (seed * 37 + i * 11) % 60

            def run(_: Interrupt, claim: Claim | None, needed: int = needed) -> int:
                return tape.run(needed, claim)

            aside = waiting.run(Call(WAIT), "", bytes([seed]), run)
            assert pool.used <= 100
            pool.give_back("", aside)
            served += 1
        pool.leave(tape)
        return served

    with ThreadPoolExecutor(8) as callers:
        assert list(callers.map(use, range(8))) == [60] * 8
    done.set()
    assert (pool.used, pool.waiting) == (0, 0)
