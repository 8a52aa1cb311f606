"""Files that are read again when they have changed."""

from __future__ import annotations

import logging
import os
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from threading import Lock
from typing import Final, Generic, TypeVar

from backhaul_proto.errors import BackhaulError, make_error

log = logging.getLogger("backhaul.server")

T = TypeVar("T")
State = tuple[tuple[int, int, int], ...]

LOOK_SECONDS: Final = 1.0
"""Between two looks whether files have changed."""


class Watched(Generic[T]):
    """What is read from files, kept until there is something new and right in them.

    What is wrong with a new state of them is logged, once, and the value stays.

    Args:
        what: the files together, for messages.
        paths: the files.
        read: gives the value. It may raise OSError and BackhaulError.
        every: seconds between two looks; 0: at each `value`.
        clock: seconds, monotonic.

    Raises:
        InvalidArgument: INVALID_VALUE, there is nothing right in them at the beginning.
    """

    def __init__(
        self,
        what: str,
        paths: Sequence[Path],
        read: Callable[[], T],
        *,
        every: float = LOOK_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._what = what
        self._paths = paths
        self._read = read
        self._every = every
        self._clock = clock
        self._lock = Lock()
        self._next = clock() + every
        try:
            self._state = self._now()
            self._value = read()
        except (OSError, BackhaulError) as error:
            raise make_error(
                "INVALID_VALUE",
                f"{what} cannot be used: {_words(error)}",
                path=", ".join(map(str, paths)),
            ) from None

    def value(self) -> T:
        """What is in the files, or was, `every` seconds ago at most."""
        # Who finds another one looking goes on with what there is.
        if self._clock() >= self._next and self._lock.acquire(blocking=False):
            try:
                self._look()
            finally:
                self._lock.release()
        return self._value

    def _look(self) -> None:
        self._next = self._clock() + self._every
        try:
            state = self._now()
        except OSError as error:
            state, failed = (), str(error)
        else:
            failed = ""
        if state == self._state:
            return
        try:
            if failed:
                raise make_error("INVALID_VALUE", failed)
            value = self._read()
            if self._now() != state:
                return  # it is being written: the next look reads it
        except (OSError, BackhaulError) as error:
            self._state = state
            log.error(
                "kept the old files",
                extra={"what": self._what, "paths": self._names(), "error": _words(error)},
            )
            return
        self._state, self._value = state, value
        log.info("read files again", extra={"what": self._what, "paths": self._names()})

    def _names(self) -> list[str]:
        return [str(each) for each in self._paths]

    def _now(self) -> State:
        found = (os.stat(each) for each in self._paths)
        return tuple((each.st_mtime_ns, each.st_size, each.st_ino) for each in found)


def _words(error: OSError | BackhaulError) -> str:
    return error.message if isinstance(error, BackhaulError) else str(error)
