"""When a call that broke is made again: after pauses that grow, and never past the caller's timeout."""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any, Final, NamedTuple, TypeVar

from backhaul_proto.errors import RETRY_AFTER, BackhaulError

LONGEST_ASKED: Final = 60.0
"""Seconds that a call without a timeout waits at most because the server asks for it."""

_OUT_OF_REACH: Final = ("UNAVAILABLE", "DRAINING")

Step = TypeVar("Step")


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
        tries: how often a call is made at most; more often, within its timeout, where the server says when to
            come again.
        first_pause: seconds before the second try, at most; each pause after it may be twice as long.
        longest_pause: seconds that no pause is longer than, if the server does not ask for a longer one.
        patience: seconds that a server which answered before is waited for while it is out of reach, by a
            call without a timeout; with one it is waited for until then. 0: it has as many tries as any.
        clock: seconds, monotonic.
        random: a number from 0 to 1.
    """

    tries: int = 4
    first_pause: float = 0.1
    longest_pause: float = 2.0
    patience: float = 0.0
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
        started = self.clock()
        try:
            return (yield Attempt(timeout))
        except BackhaulError as error:
            failed = error
        try:
            return (yield from self.again(failed, started, timeout, may_repeat, Attempt))
        finally:
            del failed  # as in `again`

    def again(
        self,
        failed: BackhaulError,
        started: float,
        timeout: float | None,
        may_repeat: Callable[[BackhaulError], bool],
        attempt: Callable[[float | None], Step],
        *,
        patient: bool = False,
    ) -> Generator[Step | Pause, Any, Any]:
        """The pauses and attempts after a first one that failed; as `steps`.

        Args:
            failed: its error.
            started: when it began, by the clock.
            timeout: seconds for all of it, the first attempt too; None: as long as it takes.
            may_repeat: whether the call may be made again after this error.
            attempt: makes the step that is yielded for an attempt, of the seconds that are left.
            patient: whether a server that is out of reach is waited for, as `patience` says.
        """
        count = 0
        try:
            while True:
                count += 1
                asked = _asked_pause(failed)
                waited_for = patient and failed.reason in _OUT_OF_REACH and self.patience > 0
                # A server that says when to come again is asked until there is no time left.
                no_end = waited_for or (asked is not None and timeout is not None)
                leaving = (
                    failed.reason == "DRAINING" and not waited_for
                )  # it will not be there again
                if leaving or not may_repeat(failed) or (count >= self.tries and not no_end):
                    raise failed
                # Half of the pause is fixed, so that a server is never asked again at once.
                longest = min(self.longest_pause, self.first_pause * 2 ** min(count - 1, 30))
                pause = longest * (1 + self.random()) / 2
                if asked is not None:
                    pause += asked
                left = None if timeout is None else started + timeout - self.clock() - pause
                if left is not None and left <= 0:
                    raise failed
                if left is None:
                    passed = self.clock() - started if waited_for else 0.0
                    if passed + pause > (self.patience if waited_for else LONGEST_ASKED):
                        raise failed
                yield Pause(pause)
                try:
                    return (yield attempt(left))
                except BackhaulError as error:
                    failed = error
        finally:
            del failed  # else it would refer to itself through this frame, and keep tensors alive


def may_repeat(error: BackhaulError) -> bool:
    """Whether a call that failed so may be made again as a whole, if it does no harm to run it twice.

    Either nothing answered, or what arrived was broken, or the server ran nothing and says when to ask again.
    """
    reason = error.reason
    if reason == "SERVER_BUSY" and "streams" in error.details:
        return True  # it has too many of them at the moment
    return reason in (*_OUT_OF_REACH, "CHUNK_CHECKSUM") or RETRY_AFTER in error.details


def _asked_pause(error: BackhaulError) -> float | None:
    """The seconds that the server asks to be left alone for."""
    try:
        asked = float(error.details[RETRY_AFTER])
    except (KeyError, ValueError):
        return None
    return asked if asked > 0 else None
