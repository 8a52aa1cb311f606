"""When a call that broke is made again: after pauses that grow, and never past the caller's timeout."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from backhaul_proto.errors import BackhaulError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retries:
    """The policy. Clock, sleep and random source can be others, for tests.

    Attributes:
        tries: how often a call is made at most.
        first_pause: seconds before the second try, at most; each pause after it may be twice as long.
        longest_pause: seconds that no pause is longer than.
        clock: seconds, monotonic.
        sleep: waits so many seconds.
        random: a number from 0 to 1.
    """

    tries: int = 4
    first_pause: float = 0.1
    longest_pause: float = 2.0
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random

    def run(
        self,
        attempt: Callable[[float | None], T],
        timeout: float | None,
        may_repeat: Callable[[BackhaulError], bool],
    ) -> T:
        """What the attempt returns.

        Args:
            attempt: makes the call; it gets the seconds that are left.
            timeout: seconds for all of it; None: as long as it takes.
            may_repeat: whether the call may be made again after this error.

        Raises:
            BackhaulError: that of the last attempt.
        """
        deadline = None if timeout is None else self.clock() + timeout
        left = timeout
        for count in range(self.tries):
            try:
                return attempt(left)
            except BackhaulError as error:
                # Half of the pause is fixed, so that a server is never asked again at once.
                longest = min(self.longest_pause, self.first_pause * 2**count)
                pause = longest * (1 + self.random()) / 2
                if deadline is not None:
                    left = deadline - self.clock() - pause
                no_time = left is not None and left <= 0
                if count + 1 == self.tries or no_time or not may_repeat(error):
                    raise
            self.sleep(pause)
        raise AssertionError("the last attempt returns or raises")
