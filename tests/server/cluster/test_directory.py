"""Where sessions go, and that there are as many workers as are wanted."""

from __future__ import annotations

import secrets
from collections.abc import Iterator

import pytest
from tests.server.cluster.fakes import FakeLauncher, reported, ticked

from backhaul_server.cluster import directory as of_directory
from backhaul_server.cluster.directory import Directory
from backhaul_server.cluster.facts import Key
from backhaul_server.cluster.placement import Load, least_loaded


class Clock:
    """Seconds that pass when a test says so."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now


class Made:
    """A directory of two workers on two nodes."""

    def __init__(self) -> None:
        self.clock = Clock()
        self.launcher = FakeLauncher()
        self.directory = Directory(self.launcher, self.clock)
        self.directory.want(2)
        reported(self.directory, 2)

    def nodes(self) -> list[str]:
        return sorted(each.facts.node for each in self.directory.workers())


@pytest.fixture
def made() -> Iterator[Made]:
    found = Made()
    yield found
    found.launcher.close()


def key(principal: str = "alice") -> Key:
    return principal, secrets.token_bytes(16)


@pytest.mark.parametrize(
    ("loads", "chosen"),
    [
        ([Load(0, 100, 0.0, 3), Load(0, 100, 0.0, 2)], 1),
        ([Load(0, 100, 0.9, 2), Load(0, 100, 0.1, 2)], 1),
        ([Load(10, 100, 0.0, 2), Load(60, 100, 0.0, 2)], 0),
        ([Load(95, 100, 0.0, 0), Load(80, 100, 1.0, 50)], 1),  # full, however idle
        ([Load(95, 100, 0.9, 9), Load(97, 100, 0.0, 1)], 1),  # all are full
        ([Load(0, 0, 0.0, 0), Load(50, 100, 0.5, 9)], 1),  # without memory
    ],
)
def test_the_least_loaded_worker_takes_a_session(loads: list[Load], chosen: int) -> None:
    assert least_loaded(loads) == chosen


def test_sessions_opened_at_once_are_spread(made: Made) -> None:
    epochs = [made.directory.place(key()) for _ in range(64)]
    assert sorted(map(epochs.count, set(epochs))) == [32, 32]


def test_a_session_has_one_place(made: Made) -> None:
    one = key()
    placed = made.directory.place(one)
    assert {made.directory.place(one) for _ in range(9)} == {placed}
    assert made.directory.find(one) == placed
    assert made.directory.find(("bob", one[1])) is None


def test_a_dead_worker_is_replaced_and_its_sessions_are_known_to_be_lost(made: Made) -> None:
    sessions = [key() for _ in range(4)]
    places = {each: made.directory.place(each) for each in sessions}
    dead = made.launcher.made[0]
    dead.died.set()
    ticked(made.directory, lambda: made.directory.obituary(dead.facts.epoch) is not None)
    found = made.directory.obituary(dead.facts.epoch)
    assert found is not None
    assert (found.facts.node, found.cause) == (dead.facts.node, "it was killed")
    assert {each: made.directory.find(each) for each in sessions} == places
    made.clock.now += of_directory.FIRST_PAUSE
    reported(made.directory, 2)
    lost = next(each for each, epoch in places.items() if epoch == dead.facts.epoch)
    again = made.directory.place(lost)
    assert again not in (None, dead.facts.epoch)
    assert made.directory.find(lost) == again


def test_a_session_is_placed_again_when_a_front_end_found_its_worker_dead(made: Made) -> None:
    one = key()
    first = made.directory.place(one)
    assert first is not None
    second = made.directory.place(one, dead=first)
    assert second not in (None, first)
    assert made.directory.place(one) == second


def test_workers_that_die_at_once_are_started_less_and_less_often(made: Made) -> None:
    starts = []
    for _ in range(4):
        made.launcher.made[-1].died.set()
        count = len(made.launcher.made)
        ticked(made.directory, lambda: len(made.directory.workers()) == 1)
        began = made.clock.now
        while len(made.launcher.made) == count:
            made.clock.now += 0.5
            made.directory.tick()
        starts.append(made.clock.now - began)
        reported(made.directory, 2)
    assert starts == [1.0, 2.0, 4.0, 8.0]


def test_a_worker_that_cannot_be_started_is_tried_again_after_a_pause() -> None:
    clock, launcher = Clock(), FakeLauncher()
    directory = Directory(launcher, clock)
    launcher.fails = True
    directory.want(1)
    directory.tick()
    directory.tick()
    assert directory.place(key()) is None
    launcher.fails = False
    directory.tick()
    assert not launcher.made
    clock.now += of_directory.FIRST_PAUSE
    reported(directory, 1)
    assert directory.place(key()) == launcher.made[0].facts.epoch
    launcher.close()


def test_a_drained_node_gets_no_sessions_and_its_worker_is_replaced_elsewhere(made: Made) -> None:
    (drained,) = made.directory.drain("one")
    ticked(made.directory, lambda: len(made.launcher.ended) == 1)
    assert made.launcher.ended[0].facts.name == drained
    reported(made.directory, 2)
    assert made.nodes() == ["two", "two"]
    assert bytes.fromhex(drained) not in {made.directory.place(key()) for _ in range(9)}


def test_a_drained_worker_stays_while_it_has_sessions(made: Made) -> None:
    worker = made.launcher.made[0]
    one = ("", secrets.token_bytes(16))
    worker.dispatcher._sessions.open(*one)
    assert made.directory.drain(worker.facts.name[-3:]) == []  # names are known by their beginnings
    assert made.directory.drain(worker.facts.name) == [worker.facts.name]
    reported(made.directory, 3)
    assert made.launcher.ended == []
    worker.dispatcher._sessions.close(*one)
    ticked(made.directory, lambda: [*made.launcher.ended] == [worker])


def test_fewer_workers_are_wanted(made: Made) -> None:
    made.directory.place(key())
    made.directory.want(1)
    ticked(made.directory, lambda: len(made.launcher.ended) == 1)
    assert len(made.directory.workers()) == 1


def test_a_session_that_was_never_opened_is_forgotten(made: Made) -> None:
    one, other = key(""), key("")
    for each in (one, other):
        epoch = made.directory.place(each)
        worker = next(x for x in made.launcher.made if x.facts.epoch == epoch)
        if each is one:
            worker.dispatcher._sessions.open(*one)
    made.clock.now += of_directory.PLACED + of_directory.SWEEP
    made.directory.tick()
    assert made.directory.find(one) is not None
    assert made.directory.find(other) is None


def test_a_directory_made_anew_knows_what_the_workers_know(made: Made) -> None:
    one = ("alice", secrets.token_bytes(16))
    worker = made.launcher.made[0]
    worker.dispatcher._sessions.open(*one)
    anew = Directory(FakeLauncher(), made.clock)
    anew.want(2)
    for each in made.launcher.made:
        anew.adopt(each, each.worker.keys())
    assert anew.find(one) == worker.facts.epoch
    reported(anew, 2)
    assert anew.place(one) == worker.facts.epoch
