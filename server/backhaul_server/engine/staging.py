"""Arrays on their way between the host and a device: in pieces, through two buffers.

The buffers' memory stays where it is (pinned): a device copies to and from such memory by itself, and several
times as fast as with any other. One is on its way while the host copies to or from the other.
"""

from __future__ import annotations

from collections.abc import Iterator
from threading import Lock
from typing import Any, Protocol

import numpy as np

Bytes = np.ndarray[Any, np.dtype[np.uint8]]


class Copier(Protocol):
    """Begins copies that a device does by itself, in the order in which they were begun."""

    def pinned(self, nbytes: int) -> Bytes:
        """A new buffer that the device can read and write."""

    def send(self, piece: Bytes, target: Any, offset: int) -> Any:
        """Begin to copy a part of a buffer to the target's memory, from a byte on; what `wait` takes."""

    def fetch(self, piece: Bytes, source: Any, offset: int) -> Any:
        """Begin to copy from the source's memory, from a byte on, to a part of a buffer; likewise."""

    def wait(self, begun: Any) -> None:
        """Until that copy is done."""


class Staging:
    """Two buffers. Threads use them one after the other.

    Args:
        copier: what copies.
        nbytes: of each buffer.
    """

    def __init__(self, copier: Copier, nbytes: int) -> None:
        self._copier = copier
        self._nbytes = nbytes
        self._buffers: list[Bytes] = []
        self._begun: list[Any] = [None, None]
        self._lock = Lock()

    def send(self, source: Bytes, target: Any) -> None:
        """Copy bytes to the device. They may change when it returns; the last pieces may be on their way."""
        with self._lock:
            for turn, start, end in self._pieces(len(source)):
                piece = self._free(turn)[: end - start]
                piece[:] = source[start:end]
                self._begun[turn] = self._copier.send(piece, target, start)

    def fetch(self, source: Any, target: Bytes) -> None:
        """Copy bytes from the device, those that all work begun before leaves there."""
        with self._lock:
            before: tuple[int, int, int] | None = None
            for turn, start, end in self._pieces(len(target)):
                piece = self._free(turn)[: end - start]
                self._begun[turn] = self._copier.fetch(piece, source, start)
                self._take(before, target)
                before = turn, start, end
            self._take(before, target)

    def _take(self, arrived: tuple[int, int, int] | None, target: Bytes) -> None:
        if arrived is not None:
            turn, start, end = arrived
            target[start:end] = self._free(turn)[: end - start]

    def _pieces(self, total: int) -> Iterator[tuple[int, int, int]]:
        """Of each piece which buffer it takes, its first byte, and the one after its last."""
        for number, start in enumerate(range(0, total, self._nbytes)):
            yield number % 2, start, min(start + self._nbytes, total)

    def _free(self, turn: int) -> Bytes:
        """A buffer, when what was begun with it is done."""
        while len(self._buffers) < 2:
            self._buffers.append(self._copier.pinned(self._nbytes))
        begun, self._begun[turn] = self._begun[turn], None
        if begun is not None:
            self._copier.wait(begun)
        return self._buffers[turn]
