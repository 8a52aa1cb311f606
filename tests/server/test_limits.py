"""How much memory this process may use."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from backhaul_server.limits import keep_bytes_by_default, usable_cores, usable_memory


def system(root: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (root / name).parent.mkdir(parents=True, exist_ok=True)
        (root / name).write_text(text)
    return root


@pytest.mark.parametrize(
    "files",
    [
        {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "5000\n"},
        {
            "proc/self/cgroup": "0::/a/b\n",
            "sys/fs/cgroup/a/b/memory.max": "max\n",
            "sys/fs/cgroup/a/memory.max": "5000\n",
            "sys/fs/cgroup/memory.max": "7000\n",
        },
        {
            "proc/self/cgroup": "5:cpu,cpuacct:/x\n4:memory:/x\n0::/\n",
            "sys/fs/cgroup/memory/x/memory.limit_in_bytes": "5000\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "9223372036854771712\n",
        },
        {
            "proc/self/cgroup": "4:memory:/docker/abc\n",
            "sys/fs/cgroup/memory/memory.limit_in_bytes": "5000\n",
        },
    ],
    ids=["v2", "v2 nested", "v1", "v1 in a container"],
)
def test_the_tightest_control_group_decides(tmp_path: Path, files: dict[str, str]) -> None:
    assert usable_memory(system(tmp_path, files)) == 5000


@pytest.mark.parametrize(
    "files", [{}, {"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/memory.max": "max\n"}]
)
def test_without_a_limit_it_is_the_machine_s(tmp_path: Path, files: dict[str, str]) -> None:
    found = usable_memory(system(tmp_path, files))
    assert found == usable_memory(tmp_path / "nothing")
    assert found > 1 << 26


def test_a_quarter_is_for_intermediates() -> None:
    assert keep_bytes_by_default(4000) == 1000


@pytest.mark.parametrize(
    ("files", "expected"),
    [
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "50000 100000\n"}, 1),
        ({"proc/self/cgroup": "0::/a\n", "sys/fs/cgroup/a/cpu.max": "90000 100000\n"}, 1),
        (
            {
                "proc/self/cgroup": "3:cpu,cpuacct:/\n",
                "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n",
                "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n",
            },
            1,
        ),
        ({"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "max 100000\n"}, None),
        ({"proc/self/cgroup": "3:cpu:/\n", "sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n"}, None),
        ({}, None),
    ],
    ids=["v2", "v2 nested", "v1", "v2 without", "v1 without", "no groups"],
)
def test_the_tightest_control_group_limits_cores(
    tmp_path: Path, files: dict[str, str], expected: int | None
) -> None:
    machine = len(os.sched_getaffinity(0))
    assert usable_cores(system(tmp_path, files)) == (machine if expected is None else expected)
