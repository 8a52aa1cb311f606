"""``backhaul sessions`` and ``backhaul top``: what one's sessions on a server hold and do."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from datetime import timedelta
from itertools import islice
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from backhaul.connection import Connection
from backhaul_proto.errors import make_error
from backhaul_proto.messages import SessionInfo, SessionSummary
from backhaul_proto.units import size

_UNOPENED: Final = SessionInfo(0, 0, 0.0, 0)
_FILE_WIDTH: Final = 200
"""Columns of what is no terminal: no cell is cut there."""


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
        _print_json({"target": connection.target, "sessions": [_facts(each) for each in found]})
        return
    places = _places(found)
    shown = table(
        "session", "nodes", "memory", "age", "lease left", "steps", "computed", *places, ""
    )
    for each in found:
        info = each.info
        shown.add_row(
            each.digest.hex(),
            f"{info.nodes:,}",
            _held(each),
            _time(info.age_seconds),
            _lease(info),
            f"{info.steps:,}",
            f"{info.busy_seconds:.2f} s",
            *(getattr(each, name) for name in places),
            _state(each),
        )
    console().print(shown if found else "no sessions")


def show_top(
    connection: Connection,
    *,
    count: int | None,
    interval: float,
    as_json: bool,
    sleep: Callable[[float], None] = time.sleep,
) -> None:
    """Show the sessions again and again, those that compute most first, until Ctrl-C.

    Args:
        connection: to the server.
        count: so many times; None: without end.
        interval: seconds between two times.
        as_json: print a JSON object each time, rather than a table.
        sleep: waits so many seconds.
    """
    _check_shared(connection)
    version = connection.info().version
    out = console()
    in_place = out.is_terminal and not as_json
    live = Live(console=out, auto_refresh=False) if in_place else nullcontext()
    with live:
        for number, rows in enumerate(islice(looks(connection.sessions), count), 1):
            if as_json:
                _print_json(_facts_of_all(connection.target, version, rows))
            elif isinstance(live, Live):
                live.update(_page(connection.target, version, rows), refresh=True)
            else:
                out.print(_page(connection.target, version, rows))
            if number != count:
                sleep(interval)


def _check_shared(connection: Connection) -> None:
    if connection.target == "embedded":
        raise make_error(
            "INVALID_TARGET",
            "The target is embedded: a server of this process alone, which nobody else has sessions on. Name "
            "the server, as host:port or unix:///path, or set BACKHAUL_TARGET.",
            target=connection.target,
        )


def _page(target: str, version: str, rows: Sequence[Row]) -> Group:
    held = size(sum(row.session.info.bytes for row in rows))
    plural = "" if len(rows) == 1 else "s"
    header = f"{target}  backhaul {version}  {len(rows)} session{plural}  {held}"
    places = _places([row.session for row in rows])
    shown = table("session", "load", "steps/s", "memory", "of", "lease left", "age", *places, "")
    for row in rows:
        info = row.session.info
        shown.add_row(
            row.session.digest.hex(),
            f"{row.load:.0%}",
            f"{row.steps_per_second:,.0f}",
            _held(row.session),
            size(info.memory_limit),
            _lease(info),
            _time(info.age_seconds),
            *(getattr(row.session, name) for name in places),
            _state(row.session),
        )
    return Group(Text(header), shown)


def table(*columns: str) -> Table:
    """An empty table; all columns between the first and the last are numbers, on the right."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        outer = number in (0, len(columns) - 1)
        table.add_column(name, justify="left" if outer else "right", no_wrap=True)
    return table


def console() -> Console:
    """Where tables go; what is no terminal gets them uncut."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def _places(sessions: Sequence[SessionSummary]) -> tuple[str, ...]:
    """The columns that say where sessions live; none where the server has them all in its own process."""
    return ("worker", "node", "device") if any(each.worker for each in sessions) else ()


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
        "nodes": info.nodes,
        "bytes": info.bytes,
        "memory_limit": info.memory_limit,
        "age_seconds": info.age_seconds,
        "lease_left_seconds": info.lease_left_seconds or None,
        "steps": info.steps,
        "busy_seconds": info.busy_seconds,
        "busy": session.busy,
        **{name: getattr(session, name) for name in _places([session])},
    }


def _print_json(facts: Mapping[str, Any]) -> None:
    print(json.dumps(facts), file=sys.stdout, flush=True)
