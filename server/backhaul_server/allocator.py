"""The C library's allocator, told to keep freed memory for the next arrays.

glibc gives arrays of a few MB back to the system as soon as they are freed, and gets them anew, page by
page, a moment later: touching fresh pages takes longer than most arithmetic on them. What is kept
counts as resident until it is given back, when the process rests (`rest.py`). Where the C library is another,
all of this does nothing. See mallopt(3) and malloc_trim(3).
"""

from __future__ import annotations

import ctypes
import sys
from typing import Any, Final

# Numbers of <malloc.h>.
_M_TRIM_THRESHOLD: Final = -1
_M_TOP_PAD: Final = -2
_M_MMAP_THRESHOLD: Final = -3
_M_ARENA_MAX: Final = -8

# Larger arrays are mapped one by one, and given back when freed. Older releases of glibc take no more
# than the second (HEAP_MAX_SIZE / 2).
_MAPPED_FROM: Final = (256 << 20, 32 << 20)
_SETTINGS: Final = (
    (_M_TRIM_THRESHOLD, (1 << 31) - 1),  # free memory at the heap's end from which it is given back
    (_M_TOP_PAD, 64 << 20),  # the heap grows by so much at once
    (_M_ARENA_MAX, 1),  # one heap for all threads: another's than the main one's ends at 64 MiB
)


def keep_memory() -> bool:
    """Tell the allocator of this process to keep what is freed; whether it can be told.

    To be called before threads are started: a thread keeps the heap that it began with.
    """
    libc = _glibc()
    if libc is None or not any(libc.mallopt(_M_MMAP_THRESHOLD, size) for size in _MAPPED_FROM):
        return False
    return all(libc.mallopt(number, value) for number, value in _SETTINGS)


def give_back() -> None:
    """Give all free memory back to the system."""
    libc = _glibc()
    if libc is not None:
        libc.malloc_trim(0)


def _glibc() -> Any:
    """The C library of this process when it is glibc, else None."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)
    return libc if hasattr(libc, "gnu_get_libc_version") else None
