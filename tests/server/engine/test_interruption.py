"""Long work stops between array operations when its caller no longer waits."""

from __future__ import annotations

import numpy as np
import pytest

from backhaul_proto.catalog.avals import aval
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.interruption import interruptible
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape


class Stop(Exception):
    pass


class Checkpoint:
    """Stops the work when it is passed this often.

    Attributes:
        passed: how often it was.
    """

    def __init__(self, stop_after: int) -> None:
        self._stop_after = stop_after
        self.passed = 0

    def __call__(self) -> None:
        self.passed += 1
        if self.passed > self._stop_after:
            raise Stop


def chain(tape: Tape, steps: int) -> tuple[Node, Node]:
    x = tape.leaf(np.eye(2), np.ones((2, 2)))
    y = x
    for _ in range(steps):
        y = tape.apply("matmul", [y, x])
    return x, tape.apply("sum", [y])


def test_a_pullback_and_an_hvp_stop_and_leave_the_tape_as_it_was() -> None:
    engine = Engine()
    tape = Tape(engine)
    x, loss = chain(tape, 50)
    before = tape.pullback(loss)[0][x]
    for ask in (tape.pullback, tape.hvp):
        checkpoint = Checkpoint(10)
        with engine.interruptible(checkpoint), pytest.raises(Stop):
            ask(loss)
        assert checkpoint.passed == 11
    np.testing.assert_array_equal(tape.pullback(loss)[0][x], before)


def test_an_einsum_stops_between_its_contractions() -> None:
    engine = Engine()
    tape = Tape(engine)
    subscripts = ",".join(f"{chr(97 + i)}{chr(98 + i)}" for i in range(20))
    leaves = [tape.leaf(np.ones((2, 2))) for _ in range(20)]
    with engine.interruptible(Checkpoint(5)), pytest.raises(Stop):
        tape.apply("einsum", leaves, subscripts=subscripts)
    result = tape.apply("einsum", leaves, subscripts=subscripts)
    loss = tape.apply("sum", [result])
    with engine.interruptible(Checkpoint(5)), pytest.raises(Stop):
        tape.pullback(loss)
    assert len(tape.pullback(loss)[0]) == 20


def test_planning_an_einsum_of_a_given_order_stops_between_its_pairs() -> None:
    subscripts = ",".join(f"{chr(97 + i)}{chr(98 + i)}" for i in range(20))
    given = {"subscripts": subscripts, "optimize": "naive"}
    avals = (aval((3, 3), np.dtype("f8")),) * 20
    checkpoint = Checkpoint(1000)
    with interruptible(checkpoint):
        Engine().prepare("einsum", given, avals)
    assert checkpoint.passed >= 2 * 19  # each pair there and back
