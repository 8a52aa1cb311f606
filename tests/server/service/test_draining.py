"""Who is in the server, who may still come in, and who is sent home."""

from __future__ import annotations

import pytest

from backhaul_proto.errors import Cancelled, Unavailable
from backhaul_server.service.draining import Drain
from backhaul_server.workers.call import Call


def test_after_the_end_nobody_comes_in() -> None:
    drain = Drain()
    drain.enter(Call())
    drain.enter(Call())
    assert drain.close() == 2
    with pytest.raises(Unavailable) as refused:
        drain.enter(Call())
    assert refused.value.reason == "DRAINING"


def test_waiting_ends_with_the_last_call_or_with_the_time() -> None:
    now = 0.0
    drain = Drain(clock=lambda: now, pause=lambda seconds: wait(seconds))
    first, second = Call(), Call()

    def wait(seconds: float) -> None:
        nonlocal now
        now += seconds
        if now > 3:
            drain.leave(first)
        if now > 7:
            drain.leave(second)

    drain.enter(first)
    drain.enter(second)
    assert not drain.wait(5)
    assert 5 <= now < 5.1
    assert drain.wait(5)
    assert 7 < now < 7.1
    assert drain.wait(0)


def test_calls_that_are_still_in_at_the_end_are_told_so_at_their_next_check() -> None:
    drain = Drain()
    left, inside = Call(), Call()
    drain.enter(left)
    drain.enter(inside)
    drain.leave(left)
    inside.check()
    assert drain.close() == 1
    with pytest.raises(Unavailable) as told:
        inside.check()
    assert told.value.reason == "DRAINING"
    left.check()
    left.cancel()
    with pytest.raises(Cancelled):
        left.check()
