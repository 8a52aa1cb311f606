"""What the operating system lets this process have."""

from __future__ import annotations

import math
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


def usable_cores(root: Path = Path("/")) -> int:
    """Processor cores that this process may use: those it may run on, or fewer where a control group says so.

    Args:
        root: where ``proc`` and ``sys`` are found.
    """
    own = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min([own, *map(math.ceil, _group_cores(root))]))


def keep_bytes_by_default(usable: int) -> int:
    """How much of an einsum's intermediates to keep for its derivatives: a quarter of the memory.

    The rest is for tapes, and for what stands beside the kept ones while derivatives are computed.
    """
    return usable // 4


def work_bytes_by_default(usable: int) -> int:
    """How much one einsum may take before it is computed in slices: three quarters of the memory.

    The rest is for its operands, and for what else a session holds.
    """
    return usable * 3 // 4


def shared_memory_by_default(usable: int) -> int:
    """How much memory clients may map: an eighth of it, beside the four fifths that sessions may use."""
    return usable // 8


def rss_limit_by_default(usable: int) -> int:
    """What may be resident before no new work is taken: a little less than where the kernel would end it."""
    return usable * 95 // 100


def _group_limits(root: Path) -> Iterator[int]:
    """The limits of memory of this process's control groups and of those around them."""
    for version, group in _groups(root, "memory"):
        limit = _words(group / ("memory.max" if version == 2 else "memory.limit_in_bytes"))
        if limit and limit[0] != "max":
            yield int(limit[0])


def _group_cores(root: Path) -> Iterator[float]:
    """The limits of processor time of the same, in cores."""
    for version, group in _groups(root, "cpu"):
        if version == 2:
            words = _words(group / "cpu.max")
        else:
            words = _words(group / "cpu.cfs_quota_us") + _words(group / "cpu.cfs_period_us")
        if len(words) == 2 and words[0] not in ("max", "-1"):
            yield int(words[0]) / int(words[1])


def _groups(root: Path, controller: str) -> Iterator[tuple[int, Path]]:
    """The folders of this process's control groups for a controller, innermost first, with their version."""
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:  # not Linux
        return
    for line in lines:
        _, controllers, path = line.split(":", 2)
        if controllers == "":
            version, folder = 2, root / "sys/fs/cgroup"
        elif controller in controllers.split(","):
            version, folder = 1, root / "sys/fs/cgroup" / controller
        else:
            continue
        inside = PurePosixPath(path.lstrip("/"))
        for group in (inside, *inside.parents):  # the last is the mounted root: a container's own
            yield version, folder / group


def _words(file: Path) -> list[str]:
    try:
        return file.read_text().split()
    except OSError:  # the group is not visible from inside a container
        return []
