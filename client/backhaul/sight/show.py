"""A tape's graph as a picture for notebooks, and as a table for terminals."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from typing import Any, Final

from backhaul.sight.graph import COLUMNS, NUMBERS, Graph, Step, cells
from backhaul.sight.tables import html_text, milliseconds, text_table
from backhaul_proto.picture.svg import Box, draw, heat_of
from backhaul_proto.units import size

BOXES: Final = 150
"""Boxes that a picture has at most, where nothing else is asked."""


class Picture:
    """A tape's graph: in a notebook an SVG, in a terminal a table.

    Attributes:
        steps: the nodes that are shown, in the order of recording.
        left_out: how many are not shown.
    """

    def __init__(self, steps: Sequence[Step], left_out: int) -> None:
        self.steps = steps
        self.left_out = left_out

    @property
    def svg(self) -> str:
        """The drawing, for light and dark surroundings."""
        most = max((_total(each) for each in self.steps), default=0.0)
        boxes = {each.node: _box(each, most) for each in self.steps}
        return draw(boxes, label=f"a tape of {len(boxes)} nodes")

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The nodes as plain data, for a data frame."""
        return [
            {
                "node": each.node,
                "op": each.op,
                "inputs": each.inputs,
                "shape": each.shape,
                "dtype": each.dtype,
                "bytes": each.nbytes,
                "nan": each.nan,
                "inf": each.inf,
                "seconds": each.seconds,
                "derivative_seconds": each.derivative_seconds,
                "source": each.source,
            }
            for each in self.steps
        ]

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the drawing to a file, as SVG."""
        with open(path, "w", encoding="utf-8") as file:
            file.write(self.svg)

    def __repr__(self) -> str:
        if not self.steps:
            return "The tape is empty."
        columns = (*COLUMNS[:-2], "ms", *COLUMNS[-2:])
        rows = []
        for each in self.steps:
            row = cells(each)
            rows.append([*row[:-2], milliseconds(_total(each)), *row[-2:]])
        table = text_table(columns, rows, NUMBERS | 1 << (len(columns) - 3))
        return "\n\n".join([table, *self._note()])

    def _repr_html_(self) -> str:
        if not self.steps:
            return html_text("The tape is empty.")
        notes = "".join(map(html_text, self._note()))
        return f'<div style="overflow:auto;max-height:80vh">{self.svg}</div>{notes}'

    def _note(self) -> list[str]:
        if not self.left_out:
            return []
        plural = "" if self.left_out == 1 else "s"
        return [
            f"{self.left_out} node{plural} recorded earlier left out; show(max_nodes=...) takes more, and "
            "show(loss) what one loss was computed from."
        ]


def picture(graph: Graph, loss: int | None, max_nodes: int) -> Picture:
    """The nodes that the server holds, those recorded last if they are too many.

    Args:
        graph: of the tape.
        loss: show what it was computed from alone; None: all.
        max_nodes: so many at most.
    """
    nodes: Iterable[int] = graph if loss is None else sorted(graph.ancestors(loss))
    held = [graph[each] for each in nodes if graph[each].is_held]
    shown = held[-max_nodes:]
    beyond = graph.left_out if loss is None else 0
    return Picture(shown, len(held) - len(shown) + beyond)


def _total(step: Step) -> float:
    return step.seconds + step.derivative_seconds


def _box(step: Step, most: float) -> Box:
    kind = "leaf" if step.is_leaf else "step" if step.requires_grad else "constant"
    taken = milliseconds(_total(step))
    marks = ["failed"] if step.failed else ["NaN"] * bool(step.nan) + ["Inf"] * bool(step.inf)
    facts = [size(step.nbytes), *([f"{taken} ms"] if taken else [])]
    tip = "\n".join(filter(None, [str(step), step.trouble, step.source or ""]))
    return Box(
        step.inputs,
        step.op,
        (step.type, " · ".join(facts)),
        kind,
        heat_of(_total(step), most),
        "/".join(marks),
        tip,
    )
