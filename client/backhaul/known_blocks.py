"""Blocks that were written, and those that the server is thought to hold."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from typing import Final

from backhaul_proto.messages import Block, Call

MAX_BLOCKS: Final = 4096
BLOCKS_WRITTEN: Final = 64
SMALL_BLOCK: Final = 4096
"""Steps and operands up to which a block that was written is kept: for larger ones looking costs as much."""

Written = tuple[bytes, bytes]
"""A block's bytes and their hash."""


class KnownBlocks:
    """Hashes of the blocks sent last, up to a number. Threads may share it.

    Attributes:
        written: the bytes of recent ones.
    """

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._max_blocks = max_blocks
        self.written = WrittenBlocks()
        self._hashes: OrderedDict[bytes, None] = OrderedDict()
        self._lock = threading.Lock()

    def __contains__(self, block_hash: bytes) -> bool:
        with self._lock:
            found = block_hash in self._hashes
            if found:
                self._hashes.move_to_end(block_hash)
        return found

    def add(self, block_hash: bytes) -> None:
        """The server has run this block."""
        with self._lock:
            self._hashes[block_hash] = None
            if len(self._hashes) > self._max_blocks:
                self._hashes.popitem(last=False)

    def discard(self, block_hash: bytes) -> None:
        """The server holds this block no more."""
        with self._lock:
            self._hashes.pop(block_hash, None)


class WrittenBlocks:
    """The bytes of recent blocks and their hashes, so that work that comes again is not written again.

    Args:
        kept: how many blocks are kept.
    """

    def __init__(self, kept: int = BLOCKS_WRITTEN) -> None:
        self._kept = kept
        self._lock = threading.Lock()
        # Calls are known by identity, as equal ones may differ (-0.0 and 0.0); an entry keeps its own alive.
        self._found: OrderedDict[Hashable, tuple[Written, Sequence[Call]]] = OrderedDict()

    def of(self, block: Block, write: Callable[[Block], Written]) -> Written:
        """The bytes of a block, and their hash.

        Args:
            block: the block.
            write: gives them when they are not here.
        """
        if len(block.steps) + len(block.operands) > SMALL_BLOCK:
            return write(block)
        calls = tuple(block.calls)
        key = (
            block.input_count,
            tuple(map(id, calls)),
            tuple(block.steps),
            tuple(block.operands),
        )
        with self._lock:
            found = self._found.get(key)
            if found is not None:
                self._found.move_to_end(key)
                return found[0]
        written = write(block)
        with self._lock:
            self._found[key] = (written, calls)
            if len(self._found) > self._kept:
                self._found.popitem(last=False)
        return written
