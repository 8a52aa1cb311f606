"""What a server counts of its work: plain numbers, added as work is done and read when somebody looks."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from itertools import accumulate
from threading import Lock
from typing import Final, Generic, NamedTuple, TypeVar

SECONDS: Final = (
    0.0001,
    0.00025,
    0.0005,
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    30.0,
    60.0,
    300.0,
)
"""Upper bounds of times: from the smallest call to long contractions."""


Note = TypeVar("Note")
Reading = tuple[list[int], float]
"""How many values are at most each bound, then how many there are; and their sum."""


class Distribution:
    """How many values lie below which bounds, and their sum.

    Args:
        bounds: upper bounds, ascending; what is above them is counted too.
    """

    __slots__ = ("_counts", "_sum", "bounds")

    def __init__(self, bounds: Sequence[float] = SECONDS) -> None:
        self.bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """One more value."""
        self._counts[bisect_left(self.bounds, value)] += 1
        self._sum += value

    def read(self) -> Reading:
        """What was added."""
        return list(accumulate(self._counts)), self._sum


class Count:
    """A number that many threads count up."""

    __slots__ = ("_lock", "value")

    def __init__(self) -> None:
        self._lock = Lock()
        self.value = 0

    def add(self) -> None:
        """One more."""
        with self._lock:
            self.value += 1


class Notes(Generic[Note]):
    """Notes that many threads take at little cost, added up together once there are some.

    A note costs an append; a lock and several sums for each would be as much as the rest of a small call.

    Args:
        add: adds one up; never at the same time as another.
    """

    _MANY: Final = 256

    def __init__(self, add: Callable[[Note], None]) -> None:
        self._add = add
        self._taken: deque[Note] = deque()
        self._lock = Lock()

    def take(self, note: Note) -> None:
        """One more."""
        self._taken.append(note)
        if len(self._taken) >= self._MANY:
            with self.added():
                pass

    @contextmanager
    def added(self) -> Iterator[None]:
        """All that were taken are added up, and no more are meanwhile."""
        with self._lock:
            for _ in range(len(self._taken)):  # only who has the lock takes any away
                self._add(self._taken.popleft())
            yield


class Done(NamedTuple):
    """What one request did.

    Attributes:
        steps: how many were run, by op; None: there was no block.
        block_seconds: how long they took.
        kind: what was asked (`Work.KINDS`); None: nothing.
        question_seconds: how long that took.
    """

    steps: Mapping[str, int] | None
    block_seconds: float
    kind: str | None
    question_seconds: float


class Work:
    """What all sessions of a server have done. Many threads may add."""

    KINDS: Final = ("block", "values", "pullback", "hvp", "pushforward")

    def __init__(self) -> None:
        self._notes = Notes[Done](self._add)
        self.note = self._notes.take
        self._steps: Counter[str] = Counter()
        self._seconds = {kind: Distribution() for kind in self.KINDS}

    def steps(self) -> dict[str, int]:
        """Steps that were run, by op."""
        with self._notes.added():
            return dict(self._steps)

    def seconds(self) -> dict[str, Reading]:
        """How long the parts of requests took, by kind; each as `Distribution.read` gives it."""
        with self._notes.added():
            return {kind: each.read() for kind, each in self._seconds.items()}

    def _add(self, done: Done) -> None:
        if done.steps is not None:
            steps = self._steps
            for op, count in done.steps.items():
                steps[op] += count
            self._seconds["block"].add(done.block_seconds)
        if done.kind is not None:
            self._seconds[done.kind].add(done.question_seconds)
