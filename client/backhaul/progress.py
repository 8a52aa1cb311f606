"""How far a large transfer is: for a callback of the user's, or as a bar in the terminal or notebook."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from backhaul_proto.errors import make_error

if TYPE_CHECKING:
    from rich.progress import Progress as RichProgress
    from rich.progress import TaskID

SHOWN_AFTER: Final = 2.0
"""Seconds that a transfer takes before its bar is shown."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a transfer is, in bytes.

    Attributes:
        sent: bytes of the request's arrays that were sent.
        to_send: all of them.
        received: bytes of the answer's arrays that have come.
        to_receive: all of them; 0 until the answer begins.
    """

    sent: int
    to_send: int
    received: int = 0
    to_receive: int = 0


Report = Callable[[Progress], object]
Reporting = Callable[[], AbstractContextManager[Report]]
"""Begins the reports of one transfer."""


def reporting(progress: Any) -> Reporting | None:
    """``progress=`` of `connect`, for one transfer after the other.

    Raises:
        InvalidArgument: INVALID_VALUE.
    """
    if progress is None or progress is False:
        return None
    if progress is True:
        return Bar
    if not callable(progress):
        raise make_error(
            "INVALID_VALUE",
            f"progress is {progress!r:.100}; it is True for a bar, or a function that takes a "
            "backhaul.Progress.",
        )
    return lambda: nullcontext(progress)


class Bar:
    """A bar for one transfer, shown if it takes long. Made and used by one thread.

    Args:
        clock: seconds, monotonic.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._begun = clock()
        self._shown: RichProgress | None = None
        self._tasks: dict[str, TaskID] = {}

    def __enter__(self) -> Report:
        return self._report

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._shown is not None:
            self._shown.stop()

    def _report(self, progress: Progress) -> None:
        if self._shown is None:
            if self._clock() - self._begun < SHOWN_AFTER:
                return
            self._shown = _bars()
            self._shown.start()
        self._update("sending", progress.sent, progress.to_send)
        self._update("receiving", progress.received, progress.to_receive)

    def _update(self, what: str, done: int, total: int) -> None:
        assert self._shown is not None
        if not total:
            return
        if what not in self._tasks:
            self._tasks[what] = self._shown.add_task(what, total=total)
        self._shown.update(self._tasks[what], completed=done)


def _bars() -> RichProgress:
    from rich.progress import (
        BarColumn,
        DownloadColumn,
        TextColumn,
        TimeRemainingColumn,
        TransferSpeedColumn,
    )
    from rich.progress import Progress as RichProgress

    return RichProgress(
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
        TimeRemainingColumn(),
        transient=True,
    )
