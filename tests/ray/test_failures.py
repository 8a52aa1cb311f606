"""Nodes and workers that end under load: who loses what, who goes on, and how soon it is known."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any, Final

import numpy as np
import pytest
from tests.ray.clusters import Nodes, nodes

import backhaul as bh

pytestmark = pytest.mark.slow

SESSIONS: Final = 64
DETECTION: Final = 3.0
"""Seconds in which the cluster is told to notice a silent node."""


@pytest.fixture
def two() -> Iterator[Nodes]:
    with nodes(1, 1, detection=DETECTION) as made:
        yield made


class User(threading.Thread):
    """Asks one gradient after the other of a tape that lives on.

    Attributes:
        gradients: what came, after each step.
        when: the time of each, beside it.
        lost: the error of a session that was lost.
    """

    def __init__(self, number: int, connection: bh.Connection) -> None:
        super().__init__(daemon=True)
        self.number = number
        self.tape = bh.Tape(connection)
        self._stop_asked = threading.Event()
        self.gradients: list[np.ndarray[Any, Any]] = []
        self.when: list[float] = []
        self.lost: bh.SessionLost | None = None

    def run(self) -> None:
        y = x = self.tape.leaf(np.random.default_rng(self.number).normal(size=(8, 8)))
        while not self._stop_asked.wait(0.02):
            y = bh.tanh(y @ x)
            try:
                self.gradients.append(self.tape.pullback(bh.sum(y))[x])
            except bh.SessionLost as error:
                self.lost = error
                return
            self.when.append(time.monotonic())

    def stop(self) -> None:
        self._stop_asked.set()
        self.join()


def expected(number: int, count: int) -> list[np.ndarray[Any, Any]]:
    """The same gradients in this process."""
    with bh.connect("embedded") as connection, bh.Tape(connection) as tape:
        y = x = tape.leaf(np.random.default_rng(number).normal(size=(8, 8)))
        found = []
        for _ in range(count):
            y = bh.tanh(y @ x)
            found.append(tape.pullback(bh.sum(y))[x])
        return found


def test_a_node_that_dies_under_load_takes_its_own_sessions_alone(two: Nodes) -> None:
    front = two.front()
    with (
        bh.connect(front.target, timeout=60) as plain,
        bh.connect(front.target, timeout=60, recover=True) as recovering,
    ):
        users = [User(i, recovering if i % 2 else plain) for i in range(SESSIONS)]
        for each in users:
            each.start()
        _until(lambda: all(each.gradients for each in users))
        places = {each.worker: each.node for each in plain.sessions()}
        assert len(set(places.values())) == 2
        at = {each: each.tape._core.session.epoch.hex() for each in users}
        doomed = two.nodes[0]
        label = f"127.0.0.1/{doomed.node_id[:8]}"
        killed = time.monotonic()
        two.cluster.remove_node(doomed, allow_graceful=False)
        hit = [each for each in users if places[at[each]] == label]
        spared = [each for each in users if each not in hit]
        assert hit
        assert spared
        lost = [each for each in hit if each.number % 2 == 0]
        recovered = [each for each in hit if each.number % 2]
        _until(lambda: all(each.lost for each in lost), 60)
        detected = time.monotonic() - killed
        _until(lambda: all(each.when[-1] > killed + DETECTION for each in recovered), 60)
        again = max(min(t for t in each.when if t > killed + 0.5) for each in recovered) - killed
        for each in users:
            each.stop()
        longest = max(b - a for each in spared for a, b in pairwise(each.when))
        print(
            f"\n{len(users)} sessions, {len(hit)} on the node that died: all {len(lost)} that do not recover "
            f"had SESSION_LOST after {detected:.1f} s, all {len(recovered)} others had answers again after "
            f"{again:.1f} s; longest pause of the {len(spared)} others {longest:.2f} s"
        )
        for each in lost:
            assert each.lost is not None
            assert each.lost.details["node"] == label
            assert each.lost.details["worker"] == at[each]
        for each in [*recovered, *spared]:
            assert each.lost is None
        for each in spared:
            assert each.tape._core.session.epoch.hex() == at[each]
        for each in [*recovered[:4], *spared[:4]]:
            want = expected(each.number, len(each.gradients))
            for got, value in zip(each.gradients, want, strict=True):
                np.testing.assert_array_equal(got, value)


def test_a_worker_that_is_killed_is_replaced(two: Nodes) -> None:
    import ray

    front = two.front()
    ray.init(address=two.address, namespace="backhaul", log_to_driver=False)
    with bh.connect(front.target, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(2.0)
        assert float(x * x) == 4.0
        name = tape._core.session.epoch.hex()
        ray.kill(ray.get_actor(f"backhaul-worker-{name}"))
        killed = time.monotonic()
        with pytest.raises(bh.SessionLost) as caught:
            float(x * 3.0)
        print(f"\nkilled worker: SESSION_LOST after {time.monotonic() - killed:.3f} s")
        assert caught.value.details["worker"] == name
        with bh.Tape(connection) as other:
            assert float(other.leaf(2.0) + 1.0) == 3.0

        def names() -> set[str]:
            found = ray.get(ray.get_actor("backhaul-directory").workers.remote())
            return {each.facts.name for each in found}

        _until(lambda: len(names() - {name}) == 2)
        print(f"replaced after {time.monotonic() - killed:.1f} s")


def test_sessions_outlive_front_ends_and_the_directory(two: Nodes) -> None:
    import ray

    front = two.front()
    with bh.connect(front.target, timeout=60) as connection:
        tape = bh.Tape(connection)
        x = tape.leaf(2.0)
        assert float(x * x) == 4.0
        front.process.kill()
        front.process.wait()
        ray.init(address=two.address, namespace="backhaul", log_to_driver=False)
        ray.kill(ray.get_actor("backhaul-directory"), no_restart=False)
        another = two.front()
        with bh.connect(another.target, timeout=60) as second:
            tape._core.connection = second
            assert float(x * x * x) == 8.0
            (listed,) = second.sessions()
            assert listed.worker == tape._core.session.epoch.hex()
            assert listed.info.steps == 4  # nothing was run again


def _until(so: Any, seconds: float = 30.0) -> None:
    until = time.monotonic() + seconds
    pause = threading.Event()
    while not so():
        assert time.monotonic() < until, "it did not come to be"
        pause.wait(0.02)
