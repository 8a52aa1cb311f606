"""Requests that wait for memory of two pools: the device's, and the host's for what comes and goes."""

from __future__ import annotations

import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor

import pytest
from tests.client.waiting import wait_until

from backhaul_proto.errors import MemoryLimitExceeded, ServerBusy
from backhaul_server.sessions.claims import Claim, Lacking
from backhaul_server.sessions.pool import Pool
from backhaul_server.sessions.transit import Transit
from backhaul_server.sessions.waiting import Waiting
from backhaul_server.workers.call import Call
from backhaul_server.workers.turns import TurnsWorker
from backhaul_server.workers.worker import Interrupt


class Tape:
    """A session on a device of 100 bytes, that holds nothing; the host has as many."""

    held = 0

    def __init__(self, host: Pool, device: Pool, principal: str = "") -> None:
        self.principal = principal
        self.device = device
        self.transit = Transit(host, principal)

    def recount(self) -> None:
        """It holds nothing."""

    def run(self, on_device: int, on_host: int, claim: Claim | None) -> int:
        """Set aside so much of both, as a request does. Returns what is aside on the device."""
        own = None if claim is None else claim.of(self.device)
        aside = self.device.reserve(self, on_device, own)
        if aside is None:
            aside = self.device.reserve_or_refuse(self, on_device, own)
        try:
            self.transit.admit(on_host, claim)
        except BaseException:
            self.device.give_back(self.principal, aside)
            raise
        return aside


@pytest.fixture
def pools() -> tuple[Pool, Pool]:
    return Pool(100), Pool(100, device="second")


def started(
    callers: ThreadPoolExecutor,
    host: Pool,
    work: Callable[[Interrupt, Claim | None], int],
    claim: Claim | None = None,
    clock: Callable[[], float] = time.monotonic,
) -> Future[int]:
    waiting = Waiting(TurnsWorker(), host, clock)
    return callers.submit(waiting.run, Call(), "", b"a", work, claim)


def test_a_request_waits_for_the_device_and_then_for_the_host(pools: tuple[Pool, Pool]) -> None:
    host, device = pools
    other, tape = Tape(host, device), Tape(host, device)
    in_use = other.run(90, 0, None)
    with ThreadPoolExecutor(1) as callers:
        running = started(callers, host, lambda _, claim: tape.run(50, 60, claim))
        wait_until(lambda: device.waiting == 1)
        assert host.read() == (0, 0)  # it holds nothing of the host while it waits for the device
        of_host = host.reserve(other, 70)
        device.give_back("", in_use)
        wait_until(lambda: host.waiting == 1)
        assert device.read() == (0, 0)
        assert of_host == 70
        host.give_back("", of_host)
        assert running.result(120) == 50
    assert (host.read(), device.read()) == ((0, 60), (0, 50))
    tape.transit.done()
    device.give_back("", 50)
    assert (host.read(), device.read()) == ((0, 0), (0, 0))


def test_what_came_in_pieces_keeps_its_room_on_the_host_and_counts_once(
    pools: tuple[Pool, Pool],
) -> None:
    host, device = pools
    other, tape = Tape(host, device), Tape(host, device)
    in_use = other.run(90, 0, None)
    claim = Waiting(TurnsWorker(), host).claim(Call(), "", 80)
    with ThreadPoolExecutor(1) as callers:
        running = started(callers, host, lambda _, own: tape.run(50, 90, own), claim)
        wait_until(lambda: device.waiting == 1)
        assert host.read() == (0, 80)
        device.give_back("", in_use)
        assert running.result(120) == 50
    assert host.read() == (0, 90)


def test_a_wait_that_is_over_gives_all_back(pools: tuple[Pool, Pool]) -> None:
    host, device = pools
    other, tape = Tape(host, device), Tape(host, device)
    in_use = other.run(90, 0, None)
    claim = Waiting(TurnsWorker(), host).claim(Call(), "", 30)
    with ThreadPoolExecutor(1) as callers:
        clock = iter([0.0, 31.0]).__next__
        running = started(callers, host, lambda _, own: tape.run(50, 30, own), claim, clock)
        error = running.exception(30)
    assert isinstance(error, ServerBusy)
    assert error.details["device"] == "second"
    assert "--device-memory" in str(error)
    assert (host.read(), device.read()) == ((0, 0), (0, in_use))


def test_more_than_the_host_has_is_refused_at_once(pools: tuple[Pool, Pool]) -> None:
    tape = Tape(*pools)
    with pytest.raises(MemoryLimitExceeded, match="--memory-limit"):
        tape.run(1, 101, None)
    with pytest.raises(Lacking) as caught:
        Tape(*pools).run(*(60, 0, None)) and tape.run(60, 0, None)
    assert caught.value.pool is pools[1]
    assert pools[0].read() == (0, 0)
