"""What this machine lets the process have."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path


def process_memory(proc: Path = Path("/proc"), cgroups: Path = Path("/sys/fs/cgroup")) -> int:
    """The bytes of memory that this process may use: the machine's, or less where a cgroup says so.

    Args:
        proc: the process file system.
        cgroups: where control groups are mounted, of version 1 or 2.
    """
    physical = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return min([physical, *_cgroup_limits(proc, cgroups)])


def _cgroup_limits(proc: Path, cgroups: Path) -> Iterator[int]:
    """The limits of the process's groups and of all above them; the smallest holds."""
    try:
        lines = (proc / "self" / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:  # no Linux
        return
    for line in lines:  # hierarchy:controllers:/path
        _, controllers, path = line.split(":", 2)
        if not controllers:
            root, name = cgroups, "memory.max"
        elif "memory" in controllers.split(","):
            root, name = cgroups / "memory", "memory.limit_in_bytes"
        else:
            continue
        # Inside a container the path may be the host's, of which only the root is to be seen here.
        group = root / path.lstrip("/")
        for folder in (group, *group.parents):
            try:
                text = (folder / name).read_text(encoding="utf-8").strip()
            except OSError:
                text = "max"
            if text.isdecimal():
                yield int(text)
            if folder == root:
                break
