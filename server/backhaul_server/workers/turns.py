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
from threading import Event, Lock
from typing import Final, TypeVar

import numpy as np

from backhaul_server.workers.call import Call, shutting_down
from backhaul_server.workers.worker import Interrupt

T = TypeVar("T")

TURN: Final = 0.005
"""Seconds after which a turn goes to the next who waits."""
LONG: Final = 0.010
"""Seconds without a check after which a step goes on beside the turns."""
_FURTHER_BACK: Final = 0.050
"""Seconds between looks of those who are not first in line."""


class _Place:
    """Somebody's place in a line: a lock that is let go when it is his turn."""

    __slots__ = ("call", "ready")

    def __init__(self, call: Call) -> None:
        self.call = call
        self.ready: LockType = allocate_lock()
        self.ready.acquire()


class _Turn:
    """Work under way.

    Attributes:
        since: when its turn began.
        aside: whether it goes on beside the turns.
    """

    __slots__ = ("_clock", "_worker", "aside", "call", "since")

    def __init__(self, worker: TurnsWorker, call: Call, clock: Callable[[], float]) -> None:
        self._worker = worker
        self._clock = clock
        self.call = call
        self.since = 0.0
        self.aside = False

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
        self.line: deque[tuple[_Turn, _Place]] = deque()
        self._aside = 0
        self._sessions: dict[Hashable, deque[_Place]] = {}
        self._running = 0
        self._closed = False
        self._ended = Event()

    def run(self, call: Call, session: Hashable, function: Callable[[Interrupt], T]) -> T:
        """The function's result, computed on this thread; see `Worker.run`."""
        self._enter(call, session)
        try:
            turn = _Turn(self, call, self._clock)
            self._take(turn)
            try:
                call.check()
                with np.errstate(all="ignore"):  # Inf and NaN are the caller's data
                    return function(turn.check)
            finally:
                self._end(turn)
        finally:
            self._leave(session)

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
                return
            place = _Place(turn.call)
            entry = (turn, place)
            self.line.append(entry)
            if self._turn is None:
                self._give()
            patience = self._patience(entry)
        while not self._is_ready(place, patience):
            with self._lock:
                if self._turn is turn:
                    return
                try:
                    turn.call.check()
                except BaseException:
                    self.line.remove(entry)
                    raise
                self._look_aside()
                patience = self._patience(entry)

    def _patience(self, entry: tuple[_Turn, _Place]) -> float:
        """Seconds until one in line looks again: the first looks after the one whose turn it is."""
        return LONG if self.line and self.line[0] is entry else _FURTHER_BACK

    def _look_aside(self) -> None:
        """Let the one whose turn it is go on beside the turns when his step takes long."""
        turn = self._turn
        if turn is None or self._aside >= self.lanes or self._clock() - turn.since < LONG:
            return
        turn.aside = True
        self._aside += 1
        self._give()

    def _end(self, turn: _Turn) -> None:
        with self._lock:
            self._let_go(turn)

    def _let_go(self, turn: _Turn) -> None:
        if turn.aside:
            turn.aside = False
            self._aside -= 1
        elif self._turn is turn:  # else it left the line without having had its turn
            self._give()

    def _give(self) -> None:
        if not self.line:
            self._turn = None
            return
        turn, place = self.line.popleft()
        self._turn, turn.since = turn, self._clock()
        place.ready.release()

    # Sessions

    def _enter(self, call: Call, session: Hashable) -> None:
        with self._lock:
            if self._closed:
                raise shutting_down()
            self._running += 1
            if session is None:
                return
            before = self._sessions.get(session)
            if before is None:
                self._sessions[session] = deque()
                return
            place = _Place(call)
            before.append(place)
        while not self._is_ready(place, _FURTHER_BACK):
            with self._lock:
                if place not in before:
                    return
                try:
                    call.check()
                except BaseException:
                    before.remove(place)
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

    @staticmethod
    def _is_ready(place: _Place, patience: float) -> bool:
        """Whether the turn comes while one has patience."""
        remaining = place.call.remaining
        if remaining is not None:
            patience = min(patience, remaining + 0.001)  # past the deadline, so that it is seen
        return place.ready.acquire(timeout=patience)
