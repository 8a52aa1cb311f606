"""``backhaul sessions`` and ``backhaul top``: what one's sessions on a server hold and do."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Final

from rich.console import Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from backhaul.commands.common import console, print_json
from backhaul.connection import Connection
from backhaul_proto.errors import BackhaulError, TransportError, make_error
from backhaul_proto.messages import SessionInfo, SessionSummary
from backhaul_proto.units import size

_SESSIONS: Final = (
    ("session", 9),
    ("device", 3),
    ("nodes", 5),
    ("memory", 9),
    ("age", 6),
    ("lease left", 2),
    ("steps", 4),
    ("computed", 7),
    ("", 8),
)
_TOP: Final = (
    ("session", 9),
    ("device", 4),
    ("load", 9),
    ("steps/s", 6),
    ("memory", 8),
    ("of", 3),
    ("lease left", 2),
    ("age", 5),
    ("", 7),
)
_PLACES: Final = (("worker", 1), ("node", 1))
"""Columns that say where sessions live, when the server has them in workers of a cluster."""
_PADDING: Final = 2
_UNOPENED: Final = SessionInfo(0, 0, 0.0, 0)


@dataclass(frozen=True, slots=True)
class Row:
    """A session, and what it did since the look before, or since it was opened.

    Attributes:
        session: as the server lists it.
        load: seconds of computing a second.
        steps_per_second: steps that were run, likewise.
    """

    session: SessionSummary
    load: float
    steps_per_second: float


def looks(sessions: Callable[[], Sequence[SessionSummary]]) -> Iterator[list[Row]]:
    """What the sessions did between one look and the next, those of most load first.

    Time is the server's: the difference of a session's ages. So it does not matter how long a look took.

    Args:
        sessions: asks the server.
    """
    before: Mapping[bytes, SessionInfo] = {}
    while True:
        found = sessions()
        rows = [_row(each, before.get(each.digest, _UNOPENED)) for each in found]
        yield sorted(rows, key=lambda row: (-row.load, not row.session.busy))
        before = {each.digest: each.info for each in found}


def _row(now: SessionSummary, before: SessionInfo) -> Row:
    info = now.info
    seconds = info.age_seconds - before.age_seconds
    if seconds <= 0:
        return Row(now, 0.0, 0.0)
    load = (info.busy_seconds - before.busy_seconds) / seconds
    return Row(now, load, (info.steps - before.steps) / seconds)


def show_sessions(connection: Connection, *, as_json: bool) -> None:
    """Print the sessions, in the order in which they were opened."""
    _check_shared(connection)
    found = connection.sessions()
    if as_json:
        print_json({"target": connection.target, "sessions": [_facts(each) for each in found]})
        return
    places = _places(found)
    rows = [
        [
            each.digest.hex(),
            each.info.device,
            f"{each.info.nodes:,}",
            _held(each),
            _time(each.info.age_seconds),
            _lease(each.info),
            f"{each.info.steps:,}",
            f"{each.info.busy_seconds:.2f} s",
            *(getattr(each, name) for name, _ in places),
            _state(each),
        ]
        for each in found
    ]
    out = console()
    out.print(table(out.width, _placed(_SESSIONS, places), rows) if found else "no sessions")


def show_top(
    connection: Connection,
    *,
    count: int | None,
    interval: float,
    as_json: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the sessions again and again, those that compute most first, until Ctrl-C.

    Once the server has answered, it may go away: that is shown, and the sessions again when it is back.

    Args:
        connection: to the server.
        count: so many times; None: without end.
        interval: seconds between two times.
        as_json: print a JSON object each time, rather than a table.
        sleep: waits so many seconds.
    """
    _check_shared(connection)
    target, version = connection.target, connection.info().version
    out = console()
    in_place = out.is_terminal and not as_json
    live = Live(console=out, auto_refresh=False) if in_place else nullcontext()
    seen = looks(connection.sessions)
    away: BackhaulError | None = None
    with live:
        for number in itertools.count(1):
            page: RenderableType
            try:
                if away is not None:  # another version may be there now
                    version = connection.info().version
                rows = next(seen)
                away = None
            except TransportError as error:
                away = error
                seen = looks(connection.sessions)
            if as_json:
                print_json(
                    _facts_of_all(target, version, rows)
                    if away is None
                    else {"target": target, "error": away.reason, "message": away.message}
                )
            else:
                page = (
                    _page(target, version, rows, out.width) if away is None else _away(target, away)
                )
                if isinstance(live, Live):
                    live.update(page, refresh=True)
                else:
                    out.print(page)
            if number == count:
                return
            sleep(interval)


def _check_shared(connection: Connection) -> None:
    if connection.target == "embedded":
        raise make_error(
            "INVALID_TARGET",
            "The target is embedded: a server of this process alone, which nobody else has sessions on. Name "
            "the server, as host:port or unix:///path, or set BACKHAUL_TARGET.",
            target=connection.target,
        )


def _page(target: str, version: str, rows: Sequence[Row], width: int) -> Group:
    held = size(sum(row.session.info.bytes for row in rows))
    plural = "" if len(rows) == 1 else "s"
    header = f"{target}  backhaul {version}  {len(rows)} session{plural}  {held}"
    places = _places([row.session for row in rows])
    lines = [
        [
            row.session.digest.hex(),
            row.session.info.device,
            f"{row.load:.0%}",
            f"{row.steps_per_second:,.0f}",
            _held(row.session),
            size(row.session.info.memory_limit),
            _lease(row.session.info),
            _time(row.session.info.age_seconds),
            *(getattr(row.session, name) for name, _ in places),
            _state(row.session),
        ]
        for row in rows
    ]
    return Group(Text(header), table(width, _placed(_TOP, places), lines))


def _away(target: str, error: BackhaulError) -> Text:
    return Text(f"{target} does not answer; it is asked again. {error}")


def table(width: int, columns: Sequence[tuple[str, int]], rows: Sequence[Sequence[str]]) -> Table:
    """The rows in as many columns as there is room for.

    Args:
        width: of the terminal.
        columns: their names, and how much each is wanted: where they are too wide together, those of the
            smallest numbers are left out. Those of 9 stay.
        rows: all their cells.
    """
    widths = [
        max([len(name), *(len(row[i]) for row in rows)]) for i, (name, _) in enumerate(columns)
    ]
    shown = list(range(len(columns)))
    while sum(widths[i] + _PADDING for i in shown) - _PADDING > width:
        least = min(shown, key=lambda i: columns[i][1])
        if columns[least][1] == 9:
            break
        shown.remove(least)
    table = Table(box=None, pad_edge=False, padding=(0, _PADDING, 0, 0))
    for i in shown:
        outer = i in (0, len(columns) - 1)
        table.add_column(columns[i][0], justify="left" if outer else "right", no_wrap=True)
    for row in rows:
        table.add_row(*(row[i] for i in shown))
    return table


def _places(sessions: Sequence[SessionSummary]) -> Sequence[tuple[str, int]]:
    """The columns that say where sessions live; none where the server has them all in its own process."""
    return _PLACES if any(each.worker for each in sessions) else ()


def _placed(
    columns: Sequence[tuple[str, int]], places: Sequence[tuple[str, int]]
) -> Sequence[tuple[str, int]]:
    return (*columns[:-1], *places, columns[-1])


def _state(session: SessionSummary) -> str:
    return "busy" if session.busy else ""


def _held(session: SessionSummary) -> str:
    """The bytes of a session; while it computes the server knows a bound alone."""
    return f"{'≤ ' if session.busy else ''}{size(session.info.bytes)}"


def _lease(info: SessionInfo) -> str:
    """What is left of it; a session may have none."""
    return _time(info.lease_left_seconds) if info.lease_left_seconds else "-"


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _facts_of_all(target: str, version: str, rows: Sequence[Row]) -> dict[str, Any]:
    return {
        "target": target,
        "version": version,
        "bytes": sum(row.session.info.bytes for row in rows),
        "sessions": [
            {
                **_facts(row.session),
                "load": row.load,
                "steps_per_second": row.steps_per_second,
            }
            for row in rows
        ],
    }


def _facts(session: SessionSummary) -> dict[str, Any]:
    info = session.info
    return {
        "session": session.digest.hex(),
        "device": info.device,
        "nodes": info.nodes,
        "bytes": info.bytes,
        "memory_limit": info.memory_limit,
        "age_seconds": info.age_seconds,
        "lease_left_seconds": info.lease_left_seconds or None,
        "steps": info.steps,
        "busy_seconds": info.busy_seconds,
        "busy": session.busy,
        **{name: getattr(session, name) for name, _ in _places([session])},
    }
