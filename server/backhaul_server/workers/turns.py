"""The callers' own threads, in turns: one computes at a time, a few go on beside it when they take long.

One thread at a time runs Python many times faster than several that fight for the interpreter, and no work
has to be handed to another thread and back. A turn ends after `TURN` seconds when others wait, at the next
check between two steps. A step that runs for `LONG` seconds without a check, such as one large product,
keeps nobody waiting: it goes on beside the turns, as it has most likely let go of the interpreter, and waits
for a turn when it is done. At most so many steps as there are lanes do that at once.
"""

from __future__ import annotations

import time
from _thread import LockType, allocate_lock
from collections import deque
from collections.abc import Callable, Hashable
from threading import Event, Lock, get_ident
from typing import Final, TypeVar

import numpy as np

from backhaul_server.workers.call import Call, draining
from backhaul_server.workers.worker import Interrupt

T = TypeVar("T")

TURN: Final = 0.005
"""Seconds after which a turn goes to the next who waits."""
LONG: Final = 0.010
"""Seconds without a check after which a step goes on beside the turns."""
_FURTHER_BACK: Final = 0.050
"""Seconds between looks of those who are not first in line."""


class _Place:
    """A place in a line, for turns or of a session: a lock that is let go when whoever has it is next."""

    __slots__ = ("ready", "turn")

    def __init__(self, turn: _Turn) -> None:
        self.turn = turn
        self.ready: LockType = allocate_lock()
        self.ready.acquire()


class _Turn:
    """Work under way.

    Attributes:
        since: when its turn began.
        aside: whether it goes on beside the turns.
        thread: where it runs.
    """

    __slots__ = ("_clock", "_worker", "aside", "call", "since", "thread")

    def __init__(self, worker: TurnsWorker, call: Call, clock: Callable[[], float]) -> None:
        self._worker = worker
        self._clock = clock
        self.call = call
        self.since = 0.0
        self.aside = False
        self.thread = get_ident()

    def check(self) -> None:
        """Stop if nobody waits for the work any more; let others have their turn."""
        self.call.check()
        if self.aside or (self._worker.line and self._clock() - self.since > TURN):
            self._worker.pass_on(self)


class TurnsWorker:
    """Runs functions on their callers' threads, in turns.

    Args:
        lanes: how many long steps may go on beside the turns.
        clock: seconds, monotonic.
    """

    def __init__(self, lanes: int = 1, clock: Callable[[], float] = time.monotonic) -> None:
        self.lanes = lanes
        self._clock = clock
        self._lock = Lock()  # guards what follows, for a few instructions at a time
        self._turn: _Turn | None = None
        self.line: deque[_Place] = deque()
        self._aside: set[_Turn] = set()
        self.moves = 0  # turns that have begun
        self._sessions: dict[Hashable, deque[_Place]] = {}
        self._running = 0
        self._closed = False
        self._ended = Event()

    def run(self, call: Call, session: Hashable, function: Callable[[Interrupt], T]) -> T:
        """The function's result, computed on this thread; see `Worker.run`."""
        turn = _Turn(self, call, self._clock)
        self._enter(turn, session)
        try:
            self._take(turn)
            try:
                call.check()
                call.begin()
                with np.errstate(all="ignore"):  # Inf and NaN are the caller's data
                    return function(turn.check)
            finally:
                call.end()
                self._end(turn)
        finally:
            self._leave(session)

    @property
    def waiting(self) -> int:
        """How many calls wait for a turn."""
        return len(self.line)

    @property
    def computing(self) -> list[int]:
        """The threads that compute: the one whose turn it is, and those that go on beside the turns."""
        with self._lock:
            turns = [*self._aside] if self._turn is None else [self._turn, *self._aside]
        return [each.thread for each in turns]

    def close(self) -> None:
        """Take no more work, and wait for what came before."""
        with self._lock:
            self._closed = True
            if not self._running:
                self._ended.set()
        self._ended.wait()

    # Turns

    def pass_on(self, turn: _Turn) -> None:
        """Let the others in line go first, and come back when it is this one's turn again."""
        with self._lock:
            self._let_go(turn)
        self._take(turn)

    def _take(self, turn: _Turn) -> None:
        with self._lock:
            if self._turn is None and not self.line:
                self._turn, turn.since = turn, self._clock()
                self.moves += 1
                return
            place = _Place(turn)
            self.line.append(place)
            if self._turn is None:
                self._give()
        self._wait(place, self.line)

    def _look_aside(self) -> None:
        """Let the one whose turn it is go on beside the turns when his step takes long."""
        turn = self._turn
        if turn is None or len(self._aside) >= self.lanes or self._clock() - turn.since < LONG:
            return
        turn.aside = True
        self._aside.add(turn)
        self._give()

    def _end(self, turn: _Turn) -> None:
        with self._lock:
            self._let_go(turn)

    def _let_go(self, turn: _Turn) -> None:
        if turn.aside:
            turn.aside = False
            self._aside.remove(turn)
        elif self._turn is turn:  # else it left the line without having had its turn
            self._give()

    def _give(self) -> None:
        if not self.line:
            self._turn = None
            return
        place = self.line.popleft()
        self._turn, place.turn.since = place.turn, self._clock()
        self.moves += 1
        place.ready.release()

    # Sessions

    def _enter(self, turn: _Turn, session: Hashable) -> None:
        with self._lock:
            if self._closed:
                raise draining()
            self._running += 1
            if session is None:
                return
            before = self._sessions.get(session)
            if before is None:
                self._sessions[session] = deque()
                return
            place = _Place(turn)
            before.append(place)
        try:
            self._wait(place, before)
        except BaseException:
            with self._lock:
                self._count_out()
            raise

    def _leave(self, session: Hashable) -> None:
        with self._lock:
            self._count_out()
            behind = self._sessions.get(session)
            if behind:
                behind.popleft().ready.release()
            else:
                self._sessions.pop(session, None)

    def _count_out(self) -> None:
        self._running -= 1
        if self._closed and not self._running:
            self._ended.set()

    # Lines

    def _wait(self, place: _Place, line: deque[_Place]) -> None:
        """Wait in a line; leave it when nobody waits for the work any more."""
        with self._lock:
            patience = self._patience(place)
        while not place.ready.acquire(timeout=patience):
            with self._lock:
                if place not in line:  # its turn came just now
                    return
                try:
                    place.turn.call.check()
                except BaseException:
                    line.remove(place)
                    raise
                if line is self.line:
                    self._look_aside()
                patience = self._patience(place)

    def _patience(self, place: _Place) -> float:
        """Seconds until one looks again: the first in line looks after the one whose turn it is."""
        patience = LONG if self.line and self.line[0] is place else _FURTHER_BACK
        remaining = place.turn.call.remaining
        # Past the deadline, so that it is seen.
        return patience if remaining is None else min(patience, remaining + 0.001)
