"""What took how long: time and bytes by op and by source line, as the server measured them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from backhaul.sight.graph import short
from backhaul.sight.tables import html_table, html_text, milliseconds, text_table
from backhaul_proto.units import size

if TYPE_CHECKING:
    from backhaul.aio.core import AwaitingCore
    from backhaul.core import BlockingCore, Core
    from backhaul_proto.messages import StepTime

ROWS_SHOWN: Final = 20
TIMES_KEPT: Final = 100_000
"""Nodes whose times a tape keeps to show them."""

_NUMBERS: Final = 0b1111100
_COLUMNS: Final = ("ms", "share", "steps", "derivatives ms", "made")


@dataclass(frozen=True, slots=True)
class ProfileRow:
    """What one line of the program spent on one op.

    Attributes:
        op: the op.
        source: ``file:line``; None when it is not known any more.
        steps: how often it ran; 0 when only derivatives of it were computed.
        seconds: how long, on the server.
        derivative_seconds: how long its derivatives took.
        nbytes: bytes of its results.
    """

    op: str
    source: str | None
    steps: int
    seconds: float
    derivative_seconds: float
    nbytes: int

    @property
    def total(self) -> float:
        """Seconds with those of derivatives."""
        return self.seconds + self.derivative_seconds


class Profile:
    """What a tape's steps and their derivatives took, while it was entered. Made by `Tape.profile`.

    Nothing is measured otherwise. What is measured is the server's work on each step, not the way there;
    `Progress` and `Connection.ping` tell of that. On a GPU it is the time in which work was handed over.
    """

    def __init__(self, core: Core) -> None:
        self._core = core
        self._before: Callable[[Sequence[StepTime]], None] | None = None
        self._found: dict[tuple[str, str | None], ProfileRow] = {}
        self.requests = 0

    @property
    def rows(self) -> list[ProfileRow]:
        """One for each op and source line, that which took most first."""
        return sorted(self._found.values(), key=lambda row: -row.total)

    @property
    def by_op(self) -> list[ProfileRow]:
        """One for each op, of all lines together."""
        return _summed((row.op, None, row) for row in self._found.values())

    @property
    def by_line(self) -> list[ProfileRow]:
        """One for each source line. Its op is the one that took most there, with ``+`` beside others."""
        return _summed((None, row.source, row) for row in self.rows)

    @property
    def seconds(self) -> float:
        """All that was measured."""
        return sum(row.total for row in self._found.values())

    def __repr__(self) -> str:
        if not self._found:
            return self._head()
        columns = (("op", ""), ("line", ""))
        tables = [
            text_table(_header(name), self._cells(rows), _NUMBERS)
            for (name, _), rows in zip(columns, (self.by_op, self.by_line), strict=True)
        ]
        return "\n\n".join([self._head(), *tables])

    def _repr_html_(self) -> str:
        if not self._found:
            return html_text(self._head())
        return html_text(self._head()) + "<br>".join(
            html_table(_header(name), self._cells(rows), _NUMBERS)
            for name, rows in (("op", self.by_op), ("line", self.by_line))
        )

    def _head(self) -> str:
        if not self._found:
            return (
                "Nothing was measured: no step ran while this was entered. Record and ask within "
                "`with tape.profile() as profile:`."
            )
        requests = f"{self.requests} request{'' if self.requests == 1 else 's'}"
        return f"{self.seconds * 1e3:.3f} ms of the server's work, in {requests}"

    def _cells(self, rows: Sequence[ProfileRow]) -> list[list[str]]:
        total = self.seconds or 1.0
        shown = [
            [
                short(row.source) if row.source else row.op,
                row.op if row.source else "",
                milliseconds(row.total),
                f"{row.total / total:.0%}",
                str(row.steps),
                milliseconds(row.derivative_seconds),
                size(row.nbytes),
            ]
            for row in rows[:ROWS_SHOWN]
        ]
        rest = rows[ROWS_SHOWN:]
        if rest:
            seconds = sum(row.total for row in rest)
            shown.append(
                [
                    f"{len(rest)} more",
                    "",
                    milliseconds(seconds),
                    f"{seconds / total:.0%}",
                    "",
                    "",
                    "",
                ]
            )
        return shown

    # While it is entered

    def _begin(self) -> None:
        session = self._core.session
        self._before = session.measured
        session.measured = self._note

    def _end(self) -> None:
        self._core.session.measured = self._before

    def _note(self, times: Sequence[StepTime]) -> None:
        """What one answer tells. The recorder's lock is held."""
        sources, kept = self._core.recorder.sources, self._core.times
        self.requests += 1
        for each in times:
            source = sources.find(each.node)
            key = each.op, source
            ran = each.seconds > 0
            before = self._found.get(key) or ProfileRow(each.op, source, 0, 0.0, 0.0, 0)
            self._found[key] = ProfileRow(
                each.op,
                source,
                before.steps + ran,
                before.seconds + each.seconds,
                before.derivative_seconds + each.derivative_seconds,
                before.nbytes + (each.nbytes if ran else 0),
            )
            seconds, derivative = kept.pop(each.node, (0.0, 0.0))
            kept[each.node] = (each.seconds or seconds, each.derivative_seconds or derivative)
        while len(kept) > TIMES_KEPT:
            del kept[next(iter(kept))]
        if self._before is not None:
            self._before(times)


class BlockingProfile(Profile):
    """A profile of a tape whose questions are waited for."""

    _core: BlockingCore

    def __enter__(self) -> BlockingProfile:
        self._begin()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None and not self._core.closed:
                self._core.flush()
        finally:
            self._end()


class AwaitingProfile(Profile):
    """A profile of a tape whose questions are awaited."""

    _core: AwaitingCore

    async def __aenter__(self) -> AwaitingProfile:
        self._begin()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        try:
            if kind is None and not self._core.closed:
                await self._core.ask()
        finally:
            self._end()


def _header(name: str) -> tuple[str, ...]:
    return (name, "op" if name == "line" else "", *_COLUMNS)


def _summed(rows: Iterable[tuple[Any, Any, ProfileRow]]) -> list[ProfileRow]:
    """Rows with the same op, or for None the same line, together."""
    found: dict[Any, ProfileRow] = {}
    for op, source, row in rows:
        key = source if op is None else op
        before = found.get(key)
        if before is None:
            found[key] = ProfileRow(
                row.op,
                row.source if op is None else None,
                row.steps,
                row.seconds,
                row.derivative_seconds,
                row.nbytes,
            )
            continue
        name = before.op
        if op is None and name.split(" +")[0] != row.op:
            name = f"{name.split(' +')[0]} +"
        found[key] = ProfileRow(
            name,
            before.source,
            before.steps + row.steps,
            before.seconds + row.seconds,
            before.derivative_seconds + row.derivative_seconds,
            before.nbytes + row.nbytes,
        )
    return sorted(found.values(), key=lambda row: -row.total)
