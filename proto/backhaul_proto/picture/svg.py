"""The drawing itself: boxes and lines as SVG, for light and dark surroundings."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape
from itertools import pairwise
from typing import Final

from backhaul_proto.picture.layers import Places, place

BOX_WIDTH: Final = 156
BOX_HEIGHT: Final = 50
GAP_X: Final = 20
GAP_Y: Final = 34
MARGIN: Final = 12
HEATS: Final = 5
"""Shades by time, from none to the most."""
_LETTERS: Final = 23
_COLD: Final = 0.02
"""Share of the longest time below which a step has no shade."""

STYLE: Final = """
.bh-picture{--bh-ink:#1b1f24;--bh-faint:#57606a;--bh-line:#8c959f;--bh-box:#ffffff;--bh-edge:#afb8c1;
--bh-leaf:#ddf4e4;--bh-constant:#f0f2f5;--bh-bad:#cf222e;--bh-h1:#fff4d6;--bh-h2:#ffe2a8;--bh-h3:#ffc680;
--bh-h4:#ffa657;font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,monospace}
.bh-picture text{fill:var(--bh-ink)}.bh-picture .bh-small{fill:var(--bh-faint);font-size:10.5px}
.bh-picture .bh-op{font-weight:600}.bh-picture path{fill:none;stroke:var(--bh-line);stroke-width:1.2}
.bh-picture rect{fill:var(--bh-box);stroke:var(--bh-edge);stroke-width:1}
.bh-picture .bh-leaf rect{fill:var(--bh-leaf)}.bh-picture .bh-constant rect{fill:var(--bh-constant);
stroke-dasharray:4 3}.bh-picture .bh-h1 rect{fill:var(--bh-h1)}.bh-picture .bh-h2 rect{fill:var(--bh-h2)}
.bh-picture .bh-h3 rect{fill:var(--bh-h3)}.bh-picture .bh-h4 rect{fill:var(--bh-h4)}
.bh-picture .bh-h3 .bh-small,.bh-picture .bh-h4 .bh-small{fill:var(--bh-ink)}
.bh-picture .bh-bad rect{stroke:var(--bh-bad);stroke-width:2.2}
.bh-picture .bh-mark{fill:var(--bh-bad);font-weight:700;font-size:10.5px}
@media (prefers-color-scheme:dark){.bh-picture{--bh-ink:#e6edf3;--bh-faint:#9da7b1;--bh-line:#6e7681;
--bh-box:#161b22;--bh-edge:#484f58;--bh-leaf:#12361f;--bh-constant:#21262d;--bh-bad:#ff7b72;
--bh-h1:#3a2f12;--bh-h2:#57400f;--bh-h3:#77500c;--bh-h4:#9a5b08}}
""".strip()
"""Of a drawing: for a style sheet where it stands in a page that allows none in its text."""


@dataclass(frozen=True, slots=True)
class Box:
    """A node as it is drawn.

    Attributes:
        inputs: keys of the boxes that lines come from.
        title: its first line.
        lines: further ones, two at most.
        kind: "leaf", "constant" or "step".
        heat: 0 up to HEATS - 1: how much of the time it took.
        mark: what is wrong with it, such as "NaN"; empty: nothing.
        tip: what is told when one points at it.
    """

    inputs: Sequence[int]
    title: str
    lines: Sequence[str] = ()
    kind: str = "step"
    heat: int = 0
    mark: str = ""
    tip: str = ""


def heat_of(seconds: float, most: float) -> int:
    """The shade of a time, where the longest is ``most``.

    >>> [heat_of(x, 1.0) for x in (0.0, 0.01, 0.2, 0.6, 1.0)]
    [0, 0, 1, 3, 4]
    """
    if seconds < _COLD * most or most <= 0:
        return 0
    return min(HEATS - 1, 1 + int((HEATS - 1) * seconds / most))


def draw(boxes: Mapping[int, Box], *, with_style: bool = True, label: str = "a tape") -> str:
    """The drawing of a graph.

    Args:
        boxes: by key, in an order in which inputs come first.
        with_style: whether its style sheet stands in it.
        label: what it shows, for those who cannot see it.
    """
    places = place({key: box.inputs for key, box in boxes.items()})
    width = 2 * MARGIN + max(1.0, places.width) * (BOX_WIDTH + GAP_X) - GAP_X
    height = 2 * MARGIN + max(1, places.height) * (BOX_HEIGHT + GAP_Y) - GAP_Y
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" class="bh-picture" role="img" aria-label="{escape(label)}" '
        f'width="{width:.0f}" height="{height:.0f}" viewBox="0 0 {width:.0f} {height:.0f}">'
    ]
    if with_style:
        parts.append(f"<style>{STYLE}</style>")
    parts += [f'<path d="{_line(places, source, node)}"/>' for source, node in places.lines]
    parts += [_box(box, *_corner(places, key)) for key, box in boxes.items()]
    return "".join([*parts, "</svg>"])


def _corner(places: Places, key: int) -> tuple[float, float]:
    x = MARGIN + places.columns[key] * (BOX_WIDTH + GAP_X)
    return x, MARGIN + places.rows[key] * (BOX_HEIGHT + GAP_Y)


def _line(places: Places, source: int, node: int) -> str:
    """From the lower side of one box to the upper side of another, past what stands between."""
    x, y = _corner(places, source)
    to_x, to_y = _corner(places, node)
    points = [(x + BOX_WIDTH / 2, y + BOX_HEIGHT)]
    for i, column in enumerate(places.lines[source, node], places.rows[source] + 1):
        middle = MARGIN + column * (BOX_WIDTH + GAP_X) + BOX_WIDTH / 2
        top = MARGIN + i * (BOX_HEIGHT + GAP_Y)
        points += [(middle, top), (middle, top + BOX_HEIGHT)]
    points.append((to_x + BOX_WIDTH / 2, to_y))
    path = f"M{points[0][0]:.1f} {points[0][1]:.1f}"
    for (x0, y0), (x1, y1) in pairwise(points):
        bend = (y1 - y0) / 2
        path += f"C{x0:.1f} {y0 + bend:.1f} {x1:.1f} {y1 - bend:.1f} {x1:.1f} {y1:.1f}"
    return path


def _box(box: Box, x: float, y: float) -> str:
    classes = f"bh-{escape(box.kind)} bh-h{box.heat:d}" + (" bh-bad" if box.mark else "")
    tip = f"<title>{escape(box.tip)}</title>" if box.tip else ""
    room = _LETTERS - len(box.mark) if box.mark else _LETTERS
    texts = [
        f'<text class="bh-op" x="{x + 8:.1f}" y="{y + 16:.1f}">{_cut(box.title, room - 4)}</text>'
    ]
    if box.mark:
        texts.append(
            f'<text class="bh-mark" text-anchor="end" x="{x + BOX_WIDTH - 8:.1f}" y="{y + 16:.1f}">'
            f"{escape(box.mark)}</text>"
        )
    for i, line in enumerate(box.lines[:2]):
        texts.append(
            f'<text class="bh-small" x="{x + 8:.1f}" y="{y + 30 + 13 * i:.1f}">{_cut(line, _LETTERS)}</text>'
        )
    return (
        f'<g class="{classes}">{tip}<rect x="{x:.1f}" y="{y:.1f}" width="{BOX_WIDTH}" '
        f'height="{BOX_HEIGHT}" rx="6"/>{"".join(texts)}</g>'
    )


def _cut(text: str, letters: int) -> str:
    return escape(text if len(text) <= letters else text[: letters - 1] + "…")
