"""Constants of a tape by content, so that equal ones are sent once."""

from __future__ import annotations

import hashlib
from collections import Counter, OrderedDict
from functools import lru_cache
from typing import Any, Final, NamedTuple

import numpy as np

from backhaul.signatures import NodeType, node_type
from backhaul_proto.catalog.avals import aval
from backhaul_proto.catalog.promotion import Scalar, weak

Array = np.ndarray[Any, Any]
Key = tuple[np.dtype, tuple[int, ...], bytes]

MAX_COUNT: Final = 1024
MAX_BYTES: Final = 512 << 20
_WHOLE: Final = 256  # bytes up to which the elements themselves are the key


class Content(NamedTuple):
    """A constant's value.

    Attributes:
        array: the elements, in an array that nobody changes.
        key: equal for contents of equal dtype, shape and bytes.
        type: the type of its node.
    """

    array: Array
    key: Key
    type: NodeType


def content_of(array: Array) -> Content:
    """The content of an array.

    It is copied before its key is taken: were it changed in between, later constants of that key would
    be found to have other elements.
    """
    dtype, shape = array.dtype, array.shape
    type_ = node_type(aval(shape, dtype))
    if array.nbytes <= _WHOLE:
        data = array.tobytes()
        return Content(np.ndarray(shape, dtype, data), (dtype, shape, data), type_)
    own = frozen(array)
    digest = hashlib.blake2b(own.data.cast("B"), digest_size=32).digest()
    return Content(own, (dtype, shape, digest), type_)


def scalar_content(scalar: Scalar, beside: tuple[np.dtype, ...]) -> Content:
    """The content of a Python number, in the dtype that it takes beside arrays of these.

    Raises:
        OverflowError: it is too large for that dtype.
    """
    if scalar == 0:  # 0.0 and -0.0 are equal to the cache
        return _scalar_content.__wrapped__(scalar, beside)
    return _scalar_content(scalar, beside)


@lru_cache(maxsize=1024, typed=True)
def _scalar_content(scalar: Scalar, beside: tuple[np.dtype, ...]) -> Content:
    with np.errstate(over="ignore"):  # infinite where beyond float32, as NumPy has it
        array = np.asarray(scalar, weak(scalar, beside))
    return content_of(array)


def frozen(array: Array) -> Array:
    """A copy in C order, which nobody else holds."""
    return np.array(array, order="C", copy=True, subok=False)


class Constants:
    """The constants used last, up to a number and a number of bytes, and who else holds them.

    A constant's node may be released when it has left here and its last handle is gone.
    """

    def __init__(self, max_count: int = MAX_COUNT, max_bytes: int = MAX_BYTES) -> None:
        self._max_count = max_count
        self._max_bytes = max_bytes
        self._bytes = 0
        self._nodes: OrderedDict[Key, int] = OrderedDict()
        self._kept: dict[int, tuple[Key, int]] = {}
        self._handles: Counter[int] = Counter()

    def find(self, key: Key) -> int | None:
        """The node of an equal constant, with one more handle on it; None when there is none."""
        node = self._nodes.get(key)
        if node is not None:
            self._nodes.move_to_end(key)
            self._handles[node] += 1
        return node

    def keep(self, key: Key, node: int, nbytes: int) -> list[int]:
        """Keep a new constant, with one handle on it. Returns the nodes that may be released for it."""
        self._kept[node] = (key, nbytes)
        self._handles[node] = 1
        self._bytes += nbytes
        self._nodes[key] = node  # last: an interrupt before it leaves a constant that is not found
        released = []
        while len(self._nodes) > self._max_count or (
            self._bytes > self._max_bytes and len(self._nodes) > 1
        ):
            oldest = next(iter(self._nodes.values()))
            self.forget(oldest)
            if oldest not in self._handles:
                released.append(oldest)
        return released

    def adopt(self, key: Key, node: int, nbytes: int) -> list[int]:
        """As `keep`, for a constant that was recorded without a look here; an equal one goes before."""
        return [] if key in self._nodes else self.keep(key, node, nbytes)

    def __contains__(self, node: object) -> bool:
        return node in self._handles or node in self._kept

    def drop(self, node: int) -> bool:
        """A handle on a constant is gone. Returns whether the node may be released."""
        count = self._handles.get(node, 0)
        if count > 1:
            self._handles[node] = count - 1
            return False
        self._handles.pop(node, None)
        return node not in self._kept

    def unheld(self) -> set[int]:
        """The nodes that are kept here although no handle is left."""
        return self._kept.keys() - self._handles.keys()

    def forget(self, node: int) -> None:
        """Keep the node no longer; handles on it stay counted."""
        kept = self._kept.get(node)
        if kept is not None:
            key, nbytes = kept
            if self._nodes.get(key) == node:
                del self._nodes[
                    key
                ]  # first: no interrupt may leave a node that is found, but not kept
            del self._kept[node]
            self._bytes -= nbytes
