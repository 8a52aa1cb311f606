"""Ctrl-C at any moment: what was recorded stays right, nothing stays locked, and nothing hangs."""

from __future__ import annotations

import operator
import random
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import FrameType
from typing import Any

import numpy as np
import pytest

import backhaul as bh

TRACED = (
    "any_tape",
    "columns",
    "constants",
    "core",
    "failures",
    "history",
    "kept",
    "leaves",
    "recorder",
    "session",
    "sources",
    "steps",
    "tape",
)


class Interrupter:
    """Raises KeyboardInterrupt at the n-th instruction in the files that keep the tape's state."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        name = frame.f_code.co_filename
        if frame.f_code.co_name in (
            "__del__",
            "forget",
        ):  # an interrupt there is lost, as Python has it
            return None
        if "/backhaul/" in name and name.endswith(tuple(f"/{each}.py" for each in TRACED)):
            frame.f_trace_opcodes = True
            return self.inner
        return None

    def inner(self, frame: FrameType, event: str, argument: Any) -> Any:
        if event == "opcode":
            self.left -= 1
            if self.left < 0:
                raise KeyboardInterrupt
        return self.inner


def interrupted(action: Callable[[], Any], n: int) -> bool:
    """Whether the action was interrupted at its n-th instruction."""
    before = sys.gettrace()
    sys.settrace(Interrupter(n))
    try:
        action()
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(before)
    return False


ACTIONS: dict[str, Callable[[bh.Tape, bh.TrackedTensor], Any]] = {
    "step": lambda tape, x: x * x,
    "several results": lambda tape, x: bh.unstack(bh.stack([x, x])),
    "leaf": lambda tape, x: tape.leaf(7.0),
    "leaf with tangent": lambda tape, x: tape.leaf_with_tangent(7.0, 1.0),
    "constant": lambda tape, x: tape.constant(11.0),
    "known constant": lambda tape, x: tape.constant(5.0),
    "release": lambda tape, x: tape.release(x),
    "value": lambda tape, x: (x * 2.0).numpy(),
    "pullback": lambda tape, x: tape.pullback(x * x * 2.0),
    "pullback that stays": lambda tape, x: tape.pullback(x * x * 2.0, fetch=False),
    "leaf of a tensor": lambda tape, x: tape.leaf(x * 2.0),
}

STRIDES = {"value": 11, "pullback": 17, "pullback that stays": 19}
"""Questions have more instructions than are worth the time; a prime takes others of each loop."""


@pytest.mark.parametrize("kind", ACTIONS)
@pytest.mark.parametrize("sent_before", [False, True])
def test_an_interrupt_at_any_instruction_leaves_the_tape_right(
    kind: str, sent_before: bool
) -> None:
    with bh.connect("embedded") as connection:
        n = 0
        while True:
            tape = bh.Tape(connection)
            x, z = tape.leaf(3.0), tape.leaf(5.0)
            five = tape.constant(5.0)
            other = tape.leaf(2.0)
            if sent_before:
                assert float(x * 1.0) == 3.0
            y = x * z
            hit = interrupted(lambda: ACTIONS[kind](tape, other), n)  # noqa: B023  # called at once
            lock = tape._recorder.lock
            if (
                lock.locked()
            ):  # the tracer stops between a with statement's body and its end: Ctrl-C can not
                lock.release()
            if kind == "release":
                del other
                bh.sum(x * 5.0)
            q = tape.leaf(2.0)
            first, second = bh.unstack(bh.stack([x * y * q * five, z * tape.constant(11.0)]))
            loss = first + second + y + x * z * tape.constant(7.0)  # 5 q x² z + 11 z + 8 x z
            grads = tape.pullback(loss)
            assert float(loss) == 450.0 + 55.0 + 120.0, n
            assert [float(grads[each]) for each in (x, z, q)] == [340.0, 125.0, 225.0], n
            tape.close()
            if not hit:
                break
            n += STRIDES.get(kind, 1 + sent_before)
        assert n > 20, "the action was interrupted"


def test_an_interrupted_question_leaves_no_nodes_that_nobody_can_name() -> None:
    with bh.connect("embedded") as connection:
        n, hit = 0, True
        while hit:
            tape = bh.Tape(connection)
            x = tape.leaf(3.0)
            assert float(x * x) == 9.0
            hit = interrupted(lambda: tape.pullback(x * x * 2.0, fetch=False), n)  # noqa: B023  # at once
            if tape._recorder.lock.locked():  # as above
                tape._recorder.lock.release()
            for _ in range(2):  # a release takes effect with the request after it
                assert float(x * 1.0) == 3.0
            session = tape._core._session
            held = connection._ready().get_session(session.id, session.epoch, timeout=None)
            assert held.nodes <= len(tape._recorder.types), n
            tape.close()
            n += 7
        assert n > 1000, "the question was interrupted"


@contextmanager
def alarms(seed: random.Random) -> Iterator[None]:
    """KeyboardInterrupts from signals, the first after a random time."""

    def interrupt(_: int, frame: FrameType | None) -> None:
        # Not while this is being left: on a busy machine the next one may come at any instruction.
        if frame is not None and frame.f_code.co_name not in ("alarms", "__exit__"):
            raise KeyboardInterrupt

    before, hook = signal.signal(signal.SIGALRM, interrupt), sys.unraisablehook
    # An interrupt in a finalizer is lost, as Python has it, and told to this hook: one that cannot be
    # interrupted itself. The next interrupt comes.
    sys.unraisablehook = operator.not_
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.003 * seed.random(), 0.05)
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        sys.unraisablehook = hook


def steps(tape: bh.Tape, x: bh.TrackedTensor) -> None:
    y = x
    for _ in range(100_000):
        y = y * x


def leaves(tape: bh.Tape, x: bh.TrackedTensor) -> None:
    for _ in range(100_000):
        tape.leaf([1.0, 2.0])


def questions(tape: bh.Tape, x: bh.TrackedTensor) -> None:
    for _ in range(100_000):
        tape.pullback(bh.sum(x * x))


def training(tape: bh.Tape, x: bh.TrackedTensor) -> None:
    for _ in range(100_000):
        grads = tape.pullback(bh.sum(x * x), fetch=False)
        x = tape.leaf(x - 0.1 * grads[x])


@pytest.fixture(params=["embedded", "grpc"])
def own_connection(request: pytest.FixtureRequest) -> Iterator[bh.Connection]:
    """A connection of the test's own: no other test should meet what signals do to it."""
    target = request.getfixturevalue("target") if request.param == "grpc" else "embedded"
    with bh.connect(target, timeout=60) as made:
        yield made


@pytest.mark.parametrize("work", [steps, leaves, questions, training])
def test_signals_leave_nothing_locked_and_nothing_wrong(
    own_connection: bh.Connection, work: Callable[[bh.Tape, bh.TrackedTensor], None]
) -> None:
    connection = own_connection
    seed = random.Random(2024)
    for turn in range(25):
        tape = bh.Tape(connection)
        x = tape.leaf(np.arange(3.0))
        assert float(bh.sum(x * x)) == 5.0
        try:
            with alarms(seed):
                work(tape, x)
        except KeyboardInterrupt:
            pass
        assert not tape._recorder.lock.locked(), turn
        np.testing.assert_array_equal(tape.pullback(bh.sum(x * x * 2.0))[x], 4.0 * np.arange(3.0))
        tape.close()
