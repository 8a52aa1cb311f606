"""Arrays in pieces through two buffers, on a device that copies as late as it may."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from backhaul_server.engine.staging import Bytes, Staging

PIECE = 100


class LateDevice:
    """Does a copy only when one waits for it, or for a later one: the latest that its order allows.

    So a buffer that is used again too early shows in the numbers.
    """

    def __init__(self) -> None:
        self.buffers = 0
        self.waits = 0
        self._queue: list[Callable[[], None]] = []
        self._done = 0

    def pinned(self, nbytes: int) -> Bytes:
        self.buffers += 1
        return np.full(nbytes, 255, np.uint8)

    def send(self, piece: Bytes, target: Any, offset: int) -> Any:
        def copy() -> None:
            target[offset : offset + len(piece)] = piece

        return self._begin(copy)

    def fetch(self, piece: Bytes, source: Any, offset: int) -> Any:
        def copy() -> None:
            piece[:] = source[offset : offset + len(piece)]

        return self._begin(copy)

    def wait(self, begun: int) -> None:
        self.waits += 1
        self.run_until(begun)

    def run_until(self, count: int) -> None:
        while self._done < count:
            self._queue[self._done]()
            self._done += 1

    def run(self) -> None:
        self.run_until(len(self._queue))

    def _begin(self, copy: Callable[[], None]) -> int:
        self._queue.append(copy)
        return len(self._queue)


@pytest.mark.parametrize("nbytes", [0, 1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 5 * PIECE + 7])
def test_bytes_arrive_either_way(nbytes: int) -> None:
    device = LateDevice()
    staging = Staging(device, PIECE)
    source = np.random.default_rng(nbytes).integers(0, 256, nbytes, np.uint8)
    there, back = np.zeros(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    staging.send(source, there)
    staging.fetch(there, back)
    np.testing.assert_array_equal(back, source)
    assert device.buffers == (2 if nbytes else 0)


def test_the_source_may_change_when_it_was_sent() -> None:
    device = LateDevice()
    source, there = np.arange(250, dtype=np.uint8), np.zeros(250, np.uint8)
    expected = source.copy()
    Staging(device, PIECE).send(source, there)
    source[:] = 0
    device.run()
    np.testing.assert_array_equal(there, expected)


def test_one_buffer_is_filled_while_the_other_is_on_its_way() -> None:
    device = LateDevice()
    Staging(device, PIECE).send(np.zeros(4 * PIECE, np.uint8), np.zeros(4 * PIECE, np.uint8))
    assert device.waits == 2  # for the first two pieces, when their buffers are used again


def test_arrays_after_one_another_share_the_buffers() -> None:
    device = LateDevice()
    staging = Staging(device, PIECE)
    arrays = [np.full(n, n, np.uint8) for n in (30, 150, 220)]
    there = [np.zeros(len(each), np.uint8) for each in arrays]
    for source, target in zip(arrays, there, strict=True):
        staging.send(source, target)
    device.run()
    for source, target in zip(arrays, there, strict=True):
        np.testing.assert_array_equal(target, source)
    assert device.buffers == 2
