"""Files that change while a server runs."""

from __future__ import annotations

import logging
import os
from pathlib import Path

import pytest

import backhaul as bh
from backhaul_proto.errors import make_error
from backhaul_server.service.watched import Watched


class Files:
    """A file with a number, watched by a clock that is told."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.now = 0.0
        self.reads = 0
        self.meanwhile = ""
        self.write("1")
        self.watched = Watched("The number", [path], self._read, every=1.0, clock=lambda: self.now)

    def write(self, text: str) -> None:
        beside = self.path.with_name("new")
        beside.write_text(text)
        os.replace(beside, self.path)

    def at(self, now: float) -> int:
        self.now = now
        return self.watched.value()

    def _read(self) -> int:
        self.reads += 1
        text = self.path.read_text()
        if self.meanwhile:
            self.write(self.meanwhile)
        if not text.isdigit():
            raise make_error("INVALID_VALUE", f"{text!r} is no number.")
        return int(text)


@pytest.fixture
def files(tmp_path: Path) -> Files:
    return Files(tmp_path / "number")


def test_a_change_is_seen_after_a_second_and_read_once(files: Files) -> None:
    assert files.at(0.5) == 1
    files.write("22")
    assert files.at(0.9) == 1
    assert files.at(1.0) == 22
    assert [files.at(now) for now in (1.5, 2.5, 9.0)] == [22] * 3
    assert files.reads == 2


@pytest.mark.parametrize("broken", ["two", "", None])
def test_what_is_broken_is_logged_once_and_the_old_value_stays(
    files: Files, broken: str | None, caplog: pytest.LogCaptureFixture
) -> None:
    if broken is None:
        files.path.unlink()
    else:
        files.write(broken)
    with caplog.at_level(logging.INFO, "backhaul.server"):
        assert [files.at(now) for now in (1.0, 2.5, 4.0)] == [1] * 3
        (record,) = caplog.records
        assert (record.levelname, record.message) == ("ERROR", "kept the old files")
        files.write("3")
        assert files.at(6.0) == 3
    assert [each.message for each in caplog.records[1:]] == ["read files again"]


def test_a_file_that_is_put_back_is_read_again(files: Files) -> None:
    kept = files.path.with_name("kept")
    files.path.rename(kept)
    files.write("x")
    assert files.at(1.0) == 1
    kept.rename(files.path)
    assert files.at(2.0) == 1
    files.write("4")
    assert files.at(3.0) == 4


def test_what_is_being_written_is_read_at_the_next_look(files: Files) -> None:
    files.write("5")
    files.meanwhile = "66"
    assert files.at(1.0) == 1
    files.meanwhile = ""
    assert files.at(2.0) == 66


def test_what_is_wrong_at_the_beginning_is_an_error(tmp_path: Path) -> None:
    missing = tmp_path / "missing"
    for path in (missing, tmp_path):
        with pytest.raises(bh.InvalidArgument, match="The text cannot be used: ") as error:
            Watched("The text", [path], path.read_text)
        assert error.value.reason == "INVALID_VALUE"
        assert str(path) in error.value.message
