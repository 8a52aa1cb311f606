"""When a call that broke is made again: after pauses that grow, and never past the caller's timeout."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, NamedTuple

from backhaul_proto.errors import BackhaulError


class Attempt(NamedTuple):
    """A step: make the call.

    Attributes:
        left: the seconds that are left for it; None: as long as it takes.
    """

    left: float | None


class Pause(NamedTuple):
    """A step: wait.

    Attributes:
        seconds: so long.
    """

    seconds: float


@dataclass(frozen=True, slots=True)
class Retries:
    """The policy. Clock and random source can be others, for tests.

    Attributes:
        tries: how often a call is made at most.
        first_pause: seconds before the second try, at most; each pause after it may be twice as long.
        longest_pause: seconds that no pause is longer than.
        clock: seconds, monotonic.
        random: a number from 0 to 1.
    """

    tries: int = 4
    first_pause: float = 0.1
    longest_pause: float = 2.0
    clock: Callable[[], float] = time.monotonic
    random: Callable[[], float] = random.random

    def steps(
        self, timeout: float | None, may_repeat: Callable[[BackhaulError], bool]
    ) -> Generator[Attempt | Pause, Any, Any]:
        """The attempts and the pauses between them, to be done as in `backhaul.steps`.

        Args:
            timeout: seconds for all of it; None: as long as it takes.
            may_repeat: whether the call may be made again after this error.

        Returns:
            What the attempt gave.

        Raises:
            BackhaulError: that of the last attempt.
        """
        deadline = None if timeout is None else self.clock() + timeout
        left = timeout
        for count in range(self.tries):
            try:
                return (yield Attempt(left))
            except BackhaulError as error:
                # Half of the pause is fixed, so that a server is never asked again at once.
                longest = min(self.longest_pause, self.first_pause * 2**count)
                pause = longest * (1 + self.random()) / 2
                if deadline is not None:
                    left = deadline - self.clock() - pause
                no_time = left is not None and left <= 0
                if count + 1 == self.tries or no_time or not may_repeat(error):
                    raise
            yield Pause(pause)
        raise AssertionError("the last attempt returns or raises")
