"""The pages of the server's console: plain HTML without scripts, everything that is shown escaped."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from html import escape
from typing import Any, Final

from backhaul_proto._version import __version__
from backhaul_proto.messages import CONSTANT, LEAVES, NodeSight, SessionSummary, Sight
from backhaul_proto.picture.svg import STYLE, Box, draw
from backhaul_proto.units import size

REFRESH: Final = 2
"""Seconds after which the list of sessions is loaded again."""
_CHART: Final = (240, 44)

PAGE_STYLE: Final = (
    """
:root{color-scheme:light dark;--ink:#1b1f24;--faint:#57606a;--paper:#fff;--rule:#d8dee4;--accent:#0969da}
@media (prefers-color-scheme:dark){:root{--ink:#e6edf3;--faint:#9da7b1;--paper:#0d1117;--rule:#30363d;
--accent:#58a6ff}}
body{margin:1.5rem auto;max-width:72rem;padding:0 1rem;background:var(--paper);color:var(--ink);
font:14px/1.5 system-ui,sans-serif}
h1{font-size:1.25rem;margin:0}a{color:var(--accent)}.faint{color:var(--faint)}
table{border-collapse:collapse;width:100%;margin-top:1rem}
th{color:var(--faint);font-weight:600;text-align:right}td{text-align:right;font-variant-numeric:tabular-nums}
th,td{padding:.3rem .6rem;border-bottom:1px solid var(--rule);white-space:nowrap}
th:first-child,td:first-child{text-align:left}code{font:13px ui-monospace,Menlo,Consolas,monospace}
.tiles{display:flex;flex-wrap:wrap;gap:1rem;margin-top:1rem}
.tile{border:1px solid var(--rule);border-radius:8px;padding:.6rem .9rem;min-width:15rem}
.tile b{display:block;font-size:1.2rem;font-variant-numeric:tabular-nums}
.chart path{fill:none;stroke:var(--accent);stroke-width:1.5}.graph{overflow:auto;margin-top:1rem;
border:1px solid var(--rule);border-radius:8px}
""".strip()
    + "\n"
    + STYLE
)


@dataclass(frozen=True, slots=True)
class Row:
    """A session, and what it did since the look before.

    Attributes:
        session: as it is listed.
        load: seconds of computing a second.
        steps_per_second: steps that were run, likewise.
    """

    session: SessionSummary
    load: float
    steps_per_second: float


@dataclass(frozen=True, slots=True)
class Sample:
    """What a principal's sessions did together between two looks.

    Attributes:
        bytes: that they hold.
        load: seconds of computing a second.
        steps_per_second: steps that were run.
    """

    bytes: int
    load: float
    steps_per_second: float


def sessions_page(principal: str, rows: Sequence[Row], samples: Sequence[Sample]) -> str:
    """The list of a principal's sessions, with what they do."""
    now = samples[-1]
    tiles = [
        _tile("memory", size(now.bytes), [each.bytes for each in samples]),
        _tile("computing", f"{now.load:.0%}", [each.load for each in samples]),
        _tile(
            "steps a second", f"{now.steps_per_second:,.0f}", [x.steps_per_second for x in samples]
        ),
    ]
    names = (
        "session",
        "load",
        "steps/s",
        "memory",
        "of",
        "nodes",
        "steps",
        "computed",
        "age",
        "lease left",
    )
    head = "".join(f"<th>{each}</th>" for each in names)
    body = "".join(map(_row, rows)) or f'<tr><td colspan="{len(names)}">no sessions</td></tr>'
    whose = f"of {escape(principal)}" if principal else "of everybody"
    return _page(
        "backhaul",
        f'<h1>backhaul <span class="faint">{escape(__version__)}</span></h1>'
        f'<div class="faint">{len(rows)} session{"" if len(rows) == 1 else "s"} {whose}</div>'
        f'<div class="tiles">{"".join(tiles)}</div><table><tr>{head}</tr>{body}</table>',
        refresh=REFRESH,
    )


def tape_page(digest: str, sight: Sight) -> str:
    """The graph of a session's tape."""
    nodes = [each for each in sight.nodes if each.node]
    boxes = {each.node: _box(each) for each in nodes}
    troubled = sum(bool(each.nan or each.inf) for each in nodes)
    facts = [f"{len(nodes)} nodes shown"]
    if sight.left_out:
        facts.append(f"{sight.left_out} made earlier left out")
    if troubled:
        facts.append(f"{troubled} with NaN or Inf")
    graph = draw(boxes, with_style=False, label=f"the tape of session {digest}")
    return _page(
        f"backhaul {digest}",
        f'<p><a href="/">all sessions</a></p><h1>session <code>{escape(digest)}</code></h1>'
        f'<div class="faint">{escape(", ".join(facts))}</div><div class="graph">{graph}</div>',
    )


def message_page(title: str, text: str) -> str:
    """A page that says one thing."""
    return _page(
        title, f'<p><a href="/">all sessions</a></p><h1>{escape(title)}</h1><p>{escape(text)}</p>'
    )


def sessions_data(principal: str, rows: Iterable[Row], sample: Sample) -> dict[str, Any]:
    """The list as plain data."""
    return {
        "version": __version__,
        "principal": principal,
        "bytes": sample.bytes,
        "load": sample.load,
        "steps_per_second": sample.steps_per_second,
        "sessions": [
            {
                "session": row.session.digest.hex(),
                "busy": row.session.busy,
                "load": row.load,
                "steps_per_second": row.steps_per_second,
                "nodes": row.session.info.nodes,
                "bytes": row.session.info.bytes,
                "memory_limit": row.session.info.memory_limit,
                "steps": row.session.info.steps,
                "busy_seconds": row.session.info.busy_seconds,
                "age_seconds": row.session.info.age_seconds,
                "lease_left_seconds": row.session.info.lease_left_seconds or None,
            }
            for row in rows
        ],
    }


def tape_data(digest: str, sight: Sight) -> dict[str, Any]:
    """A tape's nodes as plain data."""
    return {
        "session": digest,
        "left_out": sight.left_out,
        "nodes": [
            {
                "node": each.node,
                "op": each.op,
                "inputs": each.inputs,
                "shape": each.aval.shape,
                "dtype": str(each.aval.dtype),
                "requires_grad": each.requires_grad,
                "failed": each.failed,
                "nan": each.nan,
                "inf": each.inf,
            }
            for each in sight.nodes
        ],
    }


def _page(title: str, body: str, *, refresh: int = 0) -> str:
    again = f'<meta http-equiv="refresh" content="{refresh:d}">' if refresh else ""
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f'{again}<title>{escape(title)}</title><link rel="stylesheet" href="/style.css"></head>'
        f"<body>{body}</body></html>"
    )


def _tile(name: str, value: str, history: Sequence[float]) -> str:
    return (
        f'<div class="tile"><span class="faint">{escape(name)}</span><b>{escape(value)}</b>'
        f"{_chart(history)}</div>"
    )


def _chart(history: Sequence[float]) -> str:
    width, height = _CHART
    most = max([*history, 0]) or 1
    step = width / max(1, len(history) - 1)
    points = [
        f"{i * step:.1f} {height - 2 - (height - 4) * value / most:.1f}"
        for i, value in enumerate(history)
    ]
    return (
        f'<svg class="chart" width="{width}" height="{height}" role="img" aria-label="over time">'
        f'<path d="M{" L".join(points)}"/></svg>'
    )


def _row(row: Row) -> str:
    info, digest = row.session.info, row.session.digest.hex()
    held = f"{'≤ ' if row.session.busy else ''}{size(info.bytes)}"
    cells = [
        f"{row.load:.0%}",
        f"{row.steps_per_second:,.0f}",
        held,
        size(info.memory_limit),
        f"{info.nodes:,}",
        f"{info.steps:,}",
        f"{info.busy_seconds:.2f} s",
        _time(info.age_seconds),
        _time(info.lease_left_seconds) if info.lease_left_seconds else "-",
    ]
    return (
        f'<tr><td><a href="/tape/{digest}"><code>{digest}</code></a></td>'
        + "".join(f"<td>{escape(each)}</td>" for each in cells)
        + "</tr>"
    )


def _time(seconds: float) -> str:
    return str(timedelta(seconds=round(seconds)))


def _box(node: NodeSight) -> Box:
    kind = "leaf" if node.op in LEAVES else "constant" if node.op == CONSTANT else "step"
    marks = ["failed"] if node.failed else ["NaN"] * bool(node.nan) + ["Inf"] * bool(node.inf)
    tip = f"node {node.node}" + "".join(
        f", {n} {what}" for n, what in ((node.nan, "NaN"), (node.inf, "Inf")) if n
    )
    return Box(
        node.inputs,
        node.op,
        (str(node.aval), size(node.aval.nbytes)),
        kind,
        0,
        "/".join(marks),
        tip,
    )
