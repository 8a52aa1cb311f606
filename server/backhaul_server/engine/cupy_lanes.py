"""Streams of a GPU: the lanes of CuPy's namespace."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

import cupy
import cupyx
import numpy as np

from backhaul_server.engine.cupy_errors import translated
from backhaul_server.engine.staging import Bytes, Staging

STAGED: Final = 4 << 20
"""Bytes of a staging buffer; each lane that moves large arrays has two of them."""
SMALL: Final = 64 << 10
"""Bytes up to which an array is copied by CuPy itself, in one piece."""


class _OfThread(threading.local):
    lane: CupyLane | None = None


_of_thread = _OfThread()


class CupyLane:
    """A stream of a GPU, and buffers for what goes there and back.

    Several sessions may share one. Memory that was freed in a stream is used again in it alone, after what
    the stream does with it: so nothing is overwritten that is still read, whosever it is.

    Args:
        number: of the GPU.
        limit: bytes that sessions may use there; told when there are none left.
    """

    def __init__(self, number: int, limit: int) -> None:
        self._device = cupy.cuda.Device(number)
        self._name = f"cuda:{number}"
        self._limit = limit
        with translated(self._name, limit), self._device:
            self._stream = cupy.cuda.Stream(non_blocking=True)
        self._staging = Staging(_Copier(self._stream), STAGED)

    @staticmethod
    def current() -> CupyLane:
        """The lane that this thread runs in."""
        found = _of_thread.lane
        assert found is not None, "CuPy's namespace is used outside of a lane"
        return found

    @contextmanager
    def around(self, within: AbstractContextManager[None]) -> Iterator[None]:
        """Within it the thread's work runs on the stream; at its end all of it is done. See `Lane`."""
        before = _of_thread.lane
        with translated(self._name, self._limit), self._device, self._stream:
            _of_thread.lane = self
            try:
                # Without it, CuPy does not look whether a factorisation failed.
                with cupyx.errstate(linalg="raise"), within:
                    yield
            finally:
                _of_thread.lane = before
                self._stream.synchronize()

    def to_host(self, x: Any) -> np.ndarray[Any, Any]:
        """The array as NumPy's in C order."""
        if x.nbytes <= SMALL:
            small: np.ndarray[Any, Any] = x.get()
            return np.asarray(small, order="C")
        source = cupy.ascontiguousarray(x)
        target = np.empty(x.shape, x.dtype)
        self._staging.fetch(source.data, _bytes_of(target))
        return target

    def from_host(self, x: np.ndarray[Any, Any]) -> Any:
        """An array on the GPU with the numbers of one of NumPy's."""
        target = cupy.empty(x.shape, x.dtype)
        source = np.ascontiguousarray(x)
        if x.nbytes <= SMALL:
            target.set(source.reshape(x.shape))
        else:
            self._staging.send(_bytes_of(source), target.data)
        return target


class _Copier:
    """Copies on a stream; see `Copier`."""

    def __init__(self, stream: Any) -> None:
        self._stream = stream

    def pinned(self, nbytes: int) -> Bytes:
        found: Bytes = cupyx.empty_pinned(nbytes, np.uint8)
        return found

    def send(self, piece: Bytes, target: Any, offset: int) -> Any:
        (target + offset).copy_from_host_async(piece.ctypes.data, piece.nbytes, self._stream)
        return self._stream.record()

    def fetch(self, piece: Bytes, source: Any, offset: int) -> Any:
        (source + offset).copy_to_host_async(piece.ctypes.data, piece.nbytes, self._stream)
        return self._stream.record()

    def wait(self, begun: Any) -> None:
        begun.synchronize()


def _bytes_of(x: np.ndarray[Any, Any]) -> Bytes:
    return x.reshape(-1).view(np.uint8)
