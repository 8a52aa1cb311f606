"""The bar of a large transfer: shown when it takes long, gone when it is over."""

from __future__ import annotations

import io
from typing import Any

import pytest
from rich.console import Console

import backhaul as bh
from backhaul import progress
from backhaul.progress import SHOWN_AFTER, Bar, Progress


@pytest.fixture
def console(monkeypatch: pytest.MonkeyPatch) -> Console:
    """Where bars are drawn."""
    shown = Console(file=io.StringIO(), force_terminal=True, width=120)
    made = progress._bars

    def bars() -> Any:
        found = made()
        found.live.console = shown
        return found

    monkeypatch.setattr(progress, "_bars", bars)
    return shown


def drawn(console: Console) -> str:
    assert isinstance(console.file, io.StringIO)
    return console.file.getvalue()


def test_a_short_transfer_shows_nothing(console: Console) -> None:
    now = [0.0]
    with Bar(lambda: now[0]) as report:
        report(Progress(10, 20))
        now[0] = SHOWN_AFTER - 0.1
        report(Progress(20, 20))
    assert drawn(console) == ""


def test_a_long_one_shows_both_ways(console: Console) -> None:
    now = [0.0]
    with Bar(lambda: now[0]) as report:
        report(Progress(10_000_000, 40_000_000))
        now[0] = SHOWN_AFTER + 0.1
        report(Progress(20_000_000, 40_000_000))
        report(Progress(40_000_000, 40_000_000, 3_000_000, 50_000_000))
    text = drawn(console)
    assert "sending" in text
    assert "40.0/40.0 MB" in text
    assert "receiving" in text
    assert "3.0/50.0 MB" in text


def test_it_is_taken_away_when_the_call_fails(console: Console) -> None:
    now = [0.0]
    bar = Bar(lambda: now[0])
    with pytest.raises(ValueError, match="broken"), bar as report:  # noqa: PT012
        now[0] = SHOWN_AFTER
        report(Progress(10, 20))
        raise ValueError("broken")
    assert bar._shown is not None
    assert not bar._shown.live.is_started


def test_true_is_a_bar_for_each_transfer_and_none_is_nothing() -> None:
    assert progress.reporting(True) is Bar
    assert progress.reporting(None) is None
    assert progress.reporting(False) is None


@pytest.mark.parametrize("given", [3, "yes"])
def test_what_is_neither_is_refused(given: Any) -> None:
    with pytest.raises(bh.InvalidArgument, match="progress is") as error:
        bh.connect("embedded", progress=given)
    assert error.value.reason == "INVALID_VALUE"
