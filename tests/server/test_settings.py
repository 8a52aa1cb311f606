"""Settings: one place for all of them, the order of their sources, what is said of wrong ones."""

from __future__ import annotations

import json
import tomllib
from pathlib import Path
from typing import Any

import pytest
from pydantic import ByteSize
from tools.gen_settings import PAGE, current
from typer.testing import CliRunner

from backhaul.cli import app
from backhaul_proto.errors import InvalidArgument
from backhaul_server import described
from backhaul_server.command import serve_command
from backhaul_server.config import ServerSettings
from backhaul_server.effective import Origin, load, slips, variable

_FIELDS = list(ServerSettings.model_fields)


def example(name: str) -> tuple[str, Any]:
    """A value of a setting that is not its default: as text, and as itself."""
    if name == "workers":  # a few words, and numbers behind them
        return "ray:3", "ray:3"
    field = ServerSettings.model_fields[name]
    kind = described.kind(field)
    if name == "devices":
        return "cuda:0,cpu", "cuda:0,cpu"
    words = [each for each in described.choices(field) if each != field.default]
    if words:
        return words[0], words[0]
    if kind is bool:
        return ("false", False) if field.default else ("true", True)
    return {
        str: ("localhost", "localhost"),
        int: ("21", 21),
        float: ("2.5", 2.5),
        Path: ("/run/example", Path("/run/example")),
        ByteSize: ("3MiB", 3 << 20),
    }[kind]


def printed(*words: str) -> dict[str, dict[str, Any]]:
    shown = CliRunner().invoke(app, ["serve", "--print-config", "--json", *words])
    assert shown.exit_code == 0, shown.output
    found: dict[str, dict[str, Any]] = json.loads(shown.output)
    return found


@pytest.mark.parametrize("name", _FIELDS)
def test_a_setting_is_an_option_a_variable_and_a_key_with_help(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    text, value = example(name)
    shown = str(value) if isinstance(value, Path) else value
    flag = f"--{name.replace('_', '-')}"
    before = printed()[name]
    assert (before["source"], before["option"], before["variable"]) == (
        "default",
        flag,
        f"BACKHAUL_{name.upper()}",
    )
    assert before["value"] != shown
    # The file, then the variable, then the option: each of them by itself.
    file = tmp_path / "backhaul.toml"
    file.write_text(f"{name} = {json.dumps(shown)}\n")
    by_file = printed("--config", str(file))[name]
    assert by_file["value"] == shown
    assert (by_file["source"], by_file["from"]) == ("file", f"{file}: {name}")
    words = [flag, text]
    if isinstance(value, bool):
        words = [flag if value else flag.replace("--", "--no-")]
    by_flag = printed(*words)[name]
    assert (by_flag["value"], by_flag["source"], by_flag["from"]) == (shown, "flag", flag)
    monkeypatch.setenv(f"BACKHAUL_{name.upper()}", text)
    by_variable = printed()[name]
    assert (by_variable["value"], by_variable["source"]) == (shown, "environment")
    assert by_variable["from"] == f"BACKHAUL_{name.upper()}"
    # Help and docs.
    help_text = " ".join(CliRunner().invoke(app, ["serve", "--help"]).output.split())
    description = ServerSettings.model_fields[name].description
    assert description
    assert flag in help_text
    assert f"{description.split()[0]} " in help_text
    assert f"| `{flag}`" in PAGE.read_text()


def test_the_table_of_the_docs_is_current() -> None:
    page = PAGE.read_text(encoding="utf-8")
    assert current(page) == page, "To mend it: make settings"


def test_options_win_over_variables_and_variables_over_the_file(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "backhaul.toml"
    file.write_text('port = 1\nthreads = 11\nstreams = 5\nmemory_limit = "1GiB"\n')
    monkeypatch.setenv("BACKHAUL_CONFIG", str(file))
    monkeypatch.setenv("BACKHAUL_PORT", "2")
    monkeypatch.setenv("BACKHAUL_THREADS", "22")
    monkeypatch.setenv("BACKHAUL_UNIX", "")  # as if it was not there
    found = load({"port": "3"})
    assert (found.settings.port, found.settings.threads, found.settings.streams) == (3, 22, 5)
    assert found.settings.memory_limit == 1 << 30
    assert found.settings.unix is None
    assert found.origins["port"] == Origin("flag", "--port")
    assert found.origins["threads"] == Origin("environment", "BACKHAUL_THREADS")
    assert found.origins["streams"] == Origin("file", f"{file}: streams")
    assert found.origins["unix"] == Origin("default", "default")
    other = tmp_path / "other.toml"
    other.write_text("streams = 6\n")
    assert load({}, other).settings.streams == 6


def test_what_is_printed_is_a_file_that_gives_the_same_settings(tmp_path: Path) -> None:
    odd = tmp_path / 'a "quoted\\ name\x7f\n ü'
    words = ["--unix", str(odd), "--memory-limit", "1.5GiB", "--no-plugins", "--grace", "0.25"]
    shown = CliRunner().invoke(app, ["serve", "--print-config", *words])
    assert shown.exit_code == 0
    assert "memory_limit = 1610612736  # 1.5GiB, --memory-limit\n" in shown.output
    assert "# lanes: one for each four cores  # default\n" in shown.output
    file = tmp_path / "again.toml"
    file.write_text(shown.output, encoding="utf-8")
    assert tomllib.loads(shown.output)["unix"] == str(odd)
    flags = {"unix": str(odd), "memory_limit": "1.5GiB", "plugins": False, "grace": "0.25"}
    assert load({}, file).settings == load(flags).settings


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("sesion_memory = 5", "sesion_memory is no setting. The nearest is session_memory"),
        ("session-memory = 5", "session-memory is no setting. The nearest is session_memory"),
        ("[server]\nport = 5", "server is no setting"),
        ("port = 70000", "port is 70000: Input should be less than or equal to 65535"),
        ("port = [1]", "port is [1]: Input should be a valid integer"),
        ('log_level = "loud"', "log_level is 'loud': Input should be 'debug'"),
        ("port = ", "cannot be read as TOML"),
        ("port = 1\nport = 2", "cannot be read as TOML"),
    ],
)
def test_a_wrong_file_is_one_line_that_names_the_key(tmp_path: Path, text: str, said: str) -> None:
    file = tmp_path / "backhaul.toml"
    file.write_text(text)
    shown = CliRunner().invoke(app, ["serve", "--config", str(file)])
    assert shown.exit_code == 1
    assert shown.output.count("\n") == 1
    assert said in shown.output
    assert str(file) in shown.output
    assert "INVALID_VALUE" in shown.output


def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgument, match="There is no file"):
        load({}, tmp_path / "none.toml")
    with pytest.raises(InvalidArgument, match="There is no file"):
        load({}, tmp_path)
    binary = tmp_path / "binary.toml"
    binary.write_bytes(b"\xff\xfe")
    with pytest.raises(InvalidArgument, match="cannot be read as TOML"):
        load({}, binary)


def test_a_wrong_value_names_the_source_that_gave_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    file = tmp_path / "backhaul.toml"
    file.write_text("threads = 0\n")
    with pytest.raises(InvalidArgument, match=rf"^{file}: threads is 0: ") as by_file:
        load({}, file)
    assert by_file.value.details["source"] == f"{file}: threads"
    monkeypatch.setenv("BACKHAUL_THREADS", "many")
    with pytest.raises(InvalidArgument, match=r"^BACKHAUL_THREADS is 'many': "):
        load({}, file)
    with pytest.raises(InvalidArgument, match=r"^--threads is '-1': "):
        load({"threads": "-1"}, file)
    assert load({"threads": "4"}, file).settings.threads == 4


def test_a_variable_that_kubernetes_sets_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("BACKHAUL_PORT", "tcp://10.0.0.7:50051")
    with pytest.raises(InvalidArgument, match=r"BACKHAUL_PORT is .* enableServiceLinks"):
        load({})


def test_slips_in_names_of_variables_are_found() -> None:
    named = ["BACKHAUL_SESION_MEMORY", "BACKHAUL_TARGET", "BACKHAUL_PORT", "BACKHAUL_CONFIG"]
    kubernetes = ["BACKHAUL_SERVICE_HOST", "BACKHAUL_PORT_50051_TCP", "BACKHAUL_SERVICE_PORT"]
    assert slips([*named, *kubernetes, "PATH"]) == {
        "BACKHAUL_SESION_MEMORY": variable("session_memory")
    }


def test_the_command_has_no_options_beside_the_settings() -> None:
    own = {"config", "print_config", "as_json", "help"}
    assert {each.name for each in serve_command().params} - own == set(_FIELDS)
