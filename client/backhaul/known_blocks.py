"""The blocks that the server is thought to hold."""

from __future__ import annotations

import threading
from collections import OrderedDict
from typing import Final

MAX_BLOCKS: Final = 4096


class KnownBlocks:
    """Hashes of the blocks sent last, up to a number. Threads may share it."""

    def __init__(self, max_blocks: int = MAX_BLOCKS) -> None:
        self._max_blocks = max_blocks
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
