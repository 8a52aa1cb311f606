"""Settings of memory, and what sessions have of it."""

from __future__ import annotations

import pytest
from pydantic import ValidationError
from typer.testing import CliRunner

from backhaul.cli import app
from backhaul_server.config import ServerSettings
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.memory import Room
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.sessions.engines import Engines

GIB = 1 << 30


@pytest.mark.parametrize(
    ("given", "expected"),
    [("512MiB", 512 << 20), ("4GB", 4 * 10**9), ("1.5 GiB", 3 << 29), ("1000", 1000), (7, 7)],
)
def test_sizes_are_read_in_the_usual_units(given: str | int, expected: int) -> None:
    settings = ServerSettings.model_validate({"session_memory": given, "memory_limit": given})
    assert (settings.session_memory, settings.memory_limit) == (expected, expected)


@pytest.mark.parametrize("given", ["0", "-1", "much", "5 potatoes", ""])
def test_what_is_no_size_is_refused(given: str) -> None:
    with pytest.raises(ValidationError):
        ServerSettings.model_validate({"session_memory": given})


def test_a_wrong_size_on_the_command_line_names_its_option() -> None:
    shown = CliRunner().invoke(app, ["serve", "--session-memory", "much"])
    assert shown.exit_code != 0
    assert "--session-memory" in shown.output


def test_the_environment_sets_them(monkeypatch: pytest.MonkeyPatch) -> None:
    assert ServerSettings.model_validate({}).session_memory is None
    monkeypatch.setenv("BACKHAUL_SESSION_MEMORY", "2GiB")
    monkeypatch.setenv("BACKHAUL_MEMORY_LIMIT", "6GiB")
    settings = ServerSettings.model_validate({})
    assert (settings.session_memory, settings.memory_limit) == (2 * GIB, 6 * GIB)
    assert ServerSettings.model_validate({"session_memory": "1GiB"}).session_memory == GIB


def test_a_session_may_not_use_more_than_all_together() -> None:
    dispatcher = Dispatcher(Engine(), session_memory=1000, memory=600)
    assert dispatcher.limits.session_memory == 600
    dispatcher.close()


def test_sessions_of_similar_limits_share_an_engine_that_keeps_a_quarter_and_slices_beyond_three() -> (
    None
):
    engine = Engine()
    engines = Engines(engine, 3 * GIB)
    assert [engines.limit_of(asked) for asked in (0, 5, 4 * GIB)] == [3 * GIB, 5, 3 * GIB]
    large = engines.of(3 * GIB)
    assert large.room == Room(GIB // 2, 3 * GIB // 2)
    assert engines.of(2 * GIB) is large
    assert engines.of(2 * GIB - 1).room.keep == GIB // 4
    assert engines.of(1).room == Room(0, 0)
    assert large.xp is engine.xp
