"""Settings of memory, and where their defaults come from."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from backhaul.cli import app
from backhaul_server.config import ServerSettings
from backhaul_server.engine.engine import Engine
from backhaul_server.host import process_memory
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.sessions.engines import Engines

PHYSICAL = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
GIB = 1 << 30


@pytest.mark.parametrize(
    ("given", "expected"),
    [("512MiB", 512 << 20), ("4GB", 4 * 10**9), ("1.5 GiB", 3 << 29), ("1000", 1000), (7, 7)],
)
def test_sizes_are_read_in_the_usual_units(given: str | int, expected: int) -> None:
    settings = ServerSettings.model_validate({"session_memory": given, "memory": given})
    assert (settings.session_memory, settings.memory) == (expected, expected)


@pytest.mark.parametrize("given", ["0", "-1", "much", "5 potatoes", ""])
def test_what_is_no_size_is_refused(given: str) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.model_validate({"session_memory": given})


def test_a_wrong_size_on_the_command_line_names_its_option() -> None:
    shown = CliRunner().invoke(app, ["serve", "--session-memory", "much"])
    assert shown.exit_code != 0
    assert "--session-memory" in shown.output


def test_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ServerSettings().session_memory is None
    monkeypatch.setenv("BACKHAUL_SESSION_MEMORY", "2GiB")
    monkeypatch.setenv("BACKHAUL_MEMORY", "6GiB")
    settings = ServerSettings()
    assert (settings.session_memory, settings.memory) == (2 * GIB, 6 * GIB)
    assert ServerSettings.model_validate({"session_memory": "1GiB"}).session_memory == GIB


def test_a_session_may_not_use_more_than_all_together() -> None:
    dispatcher = Dispatcher(Engine(), session_memory=1000, memory=600)
    assert dispatcher.limits.session_memory == 600
    dispatcher.close()


def _groups(root: Path, lines: str, limits: dict[str, str]) -> dict[str, Path]:
    (root / "proc" / "self").mkdir(parents=True)
    (root / "proc" / "self" / "cgroup").write_text(lines, encoding="utf-8")
    for name, text in limits.items():
        file = root / "cgroup" / name
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")
    return {"proc": root / "proc", "cgroups": root / "cgroup"}


CGROUPS: dict[str, tuple[str, dict[str, str], int]] = {
    "version 2": ("0::/a/b\n", {"a/b/memory.max": "4096\n"}, 4096),
    "a group above": (
        "0::/a/b\n",
        {"a/b/memory.max": "max\n", "a/memory.max": "2048\n", "memory.max": "8192\n"},
        2048,
    ),
    "the host's path": ("0::/docker/0123\n", {"memory.max": "4096\n"}, 4096),
    "version 1": (
        "5:cpu:/x\n4:memory:/x/y\n0::/\n",
        {"memory/x/y/memory.limit_in_bytes": "1024\n"},
        1024,
    ),
    "version 1 without a limit": (
        "4:cpu,memory:/\n",
        {"memory/memory.limit_in_bytes": "9223372036854771712\n"},
        PHYSICAL,
    ),
    "none": ("0::/\n", {}, PHYSICAL),
}


@pytest.mark.parametrize("case", CGROUPS)
def test_the_memory_of_the_process_is_its_control_groups(tmp_path: Path, case: str) -> None:
    lines, limits, expected = CGROUPS[case]
    assert process_memory(**_groups(tmp_path, lines, limits)) == expected


def test_without_control_groups_it_is_the_machines(tmp_path: Path) -> None:
    assert process_memory(tmp_path / "proc", tmp_path / "cgroup") == PHYSICAL


def test_sessions_of_similar_limits_share_an_engine_that_keeps_a_quarter() -> None:
    engine = Engine()
    engines = Engines(engine, 3 * GIB)
    assert [engines.limit_of(asked) for asked in (0, 5, 4 * GIB)] == [3 * GIB, 5, 3 * GIB]
    large = engines.of(3 * GIB)
    assert large.keep_bytes == GIB // 2
    assert engines.of(2 * GIB) is large
    assert engines.of(2 * GIB - 1).keep_bytes == GIB // 4
    assert engines.of(1).keep_bytes == 0
    assert large.xp is engine.xp
