"""``backhaul top`` and ``sessions`` where the server goes away, and where there is little room."""

from __future__ import annotations

import json
from collections.abc import Sequence

import pytest
from rich.console import Console
from rich.table import Table
from tests.chaos.restarted import held_port

import backhaul as bh
from backhaul import monitoring
from backhaul.monitoring import Row, show_top
from backhaul_proto.messages import SessionInfo, SessionSummary
from backhaul_server.engine.engine import Engine
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.server import Server


def served(address: str) -> Server:
    server = Server(Dispatcher(Engine()), [address])
    server.start()
    return server


@pytest.mark.parametrize("as_json", [True, False])
def test_top_goes_on_when_the_server_comes_back(
    as_json: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    held = held_port()
    target = f"grpc://127.0.0.1:{held.getsockname()[1]}"
    running = [served(target.removeprefix("grpc://"))]
    looked = 0

    def meanwhile(_: float) -> None:
        nonlocal looked
        looked += 1
        if looked == 1:
            running.pop().stop(None)
        elif looked == 2:
            running.append(served(target.removeprefix("grpc://")))

    try:
        with bh.connect(target, timeout=60) as connection:
            show_top(connection, count=3, interval=0.5, as_json=as_json, sleep=meanwhile)
    finally:
        for each in running:
            each.stop(None)
        held.close()
    lines = capsys.readouterr().out.splitlines()
    if as_json:
        first, away, again = map(json.loads, lines)
        assert away == {"target": target, "error": "UNAVAILABLE", "message": away["message"]}
        assert first["sessions"] == again["sessions"] == []
    else:
        assert "0 sessions" in lines[0]
        assert any(line.startswith(f"{target} does not answer") for line in lines)
        assert "0 sessions" in lines[-2]


def test_a_server_that_never_answered_is_an_error() -> None:
    with bh.connect("127.0.0.1:1", timeout=2) as connection, pytest.raises(bh.Unavailable):
        show_top(connection, count=1, interval=1.0, as_json=True)


def rows() -> list[Row]:
    info = SessionInfo(12_345, 3 << 30, 93_784.0, 7, 8 << 30, 541.0, 1_234_567, 92.5, "cpu")
    return [Row(SessionSummary(bytes(range(8)), info, True), 0.93, 12_345.0)]


@pytest.mark.parametrize(
    ("width", "columns"),
    [
        (120, ["session", "device", "load", "steps/s", "memory", "of", "lease left", "age", ""]),
        (80, ["session", "device", "load", "steps/s", "memory", "of", "age", ""]),
        (60, ["session", "load", "steps/s", "memory", ""]),
        (40, ["session", "load", "memory", ""]),
        (20, ["session", "load"]),
    ],
)
def test_columns_are_left_out_whole_where_there_is_little_room(
    width: int, columns: Sequence[str]
) -> None:
    console = Console(width=width, highlight=False)
    page = monitoring._page("127.0.0.1:1", "9", rows(), width)
    with console.capture() as captured:
        console.print(page)
    table = page.renderables[1]
    assert isinstance(table, Table)
    assert [each.header for each in table.columns] == columns
    lines = captured.get().splitlines()
    assert all(len(line) <= width for line in lines)
    if width >= 40:
        assert "…" not in captured.get()
