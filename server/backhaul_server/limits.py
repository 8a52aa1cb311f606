"""What the operating system lets this process have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path, PurePosixPath


def usable_memory(root: Path = Path("/")) -> int:
    """Bytes of memory that this process may use: the machine's, or less where a control group says so.

    Args:
        root: where ``proc`` and ``sys`` are found.
    """
    physical = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return min([physical, *_group_limits(root)])


def keep_bytes_by_default(usable: int) -> int:
    """How much of an einsum's intermediates to keep for its derivatives: a quarter of the memory.

    The rest is for tapes, and for what stands beside the kept ones while derivatives are computed.
    """
    return usable // 4


def shared_memory_by_default(usable: int) -> int:
    """How much memory clients may map: an eighth of it, beside the four fifths that sessions may use."""
    return usable // 8


def _group_limits(root: Path) -> Iterator[int]:
    """The limits of this process's control groups and of those around them, cgroup v2 and v1."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            folder, name = root / "sys/fs/cgroup", "memory.max"
        elif "memory" in controllers.split(","):
            folder, name = root / "sys/fs/cgroup/memory", "memory.limit_in_bytes"
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for group in (inside, *inside.parents):  # the last is the mounted root: a container's own
            limit = _number(folder / group / name)
            if limit is not None:
                yield limit


def _number(file: Path) -> int | None:
    try:
        text = file.read_text().strip()
    except OSError:  # the group is not visible from inside a container
        return None
    return None if text == "max" else int(text)
