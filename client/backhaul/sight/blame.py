"""Where NaN and Inf came from: the first steps that made them of finite numbers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from backhaul.sight.graph import COLUMNS, NUMBERS, Graph, Step, cells
from backhaul.sight.tables import html_table, html_text, text_table

_SHOWN: Final = 20


@dataclass(frozen=True, slots=True)
class Blame:
    """Where what is not finite in a tensor came from.

    Attributes:
        tensor: the step that made the tensor.
        culprits: the steps that made NaN or Inf of operands without any, and the leaves and constants that
            were given with them; in the order of recording. Empty: the tensor has none.
        unknown: operands of culprits whose values the server does not hold any more: NaN may have come
            from them. They were computed without gradient, and have no tensor.
        left_out: early nodes of the tape that were not looked at, as they are too many.
    """

    tensor: Step
    culprits: Sequence[Step]
    unknown: Sequence[Step] = ()
    left_out: int = 0

    @property
    def first(self) -> Step | None:
        """The first of the culprits; None: the tensor is finite."""
        return self.culprits[0] if self.culprits else None

    def __bool__(self) -> bool:
        """Whether there is anything to blame."""
        return bool(self.culprits)

    def __repr__(self) -> str:
        parts = [self._head()]
        if self.culprits:
            parts.append(text_table(COLUMNS, [cells(each) for each in self._shown()], NUMBERS))
        return "\n\n".join([*parts, *filter(None, [self._foot()])])

    def _repr_html_(self) -> str:
        table = html_table(COLUMNS, [cells(each) for each in self._shown()], NUMBERS)
        return html_text(self._head()) + (table if self.culprits else "") + html_text(self._foot())

    def _shown(self) -> Sequence[Step]:
        return self.culprits[:_SHOWN]

    def _head(self) -> str:
        first = self.first
        if first is None:
            return (
                f"Every element of {self.tensor} is finite. If a gradient is not, a derivative is infinite "
                "where it was taken, as that of sqrt at 0."
            )
        what = first.trouble
        if first.is_leaf or not first.inputs:
            return f"{what}: {first} was given so."
        more = len(self.culprits) - 1
        others = "" if not more else f" So did {more} other{'' if more == 1 else 's'} after it."
        return f"{what}: first made by {first}, of operands without any.{others}"

    def _foot(self) -> str:
        lines = [
            f"The value of {each} is not held any more: it may have come from there."
            for each in self.unknown
        ]
        if self.left_out:
            lines.append(f"The tape has {self.left_out} earlier nodes, which were not looked at.")
        return "\n".join(lines)


def blame(graph: Graph, node: int) -> Blame:
    """Where what is not finite in a node came from."""
    tensor = graph[node] if node in graph else Step(node, "constant")
    if not (tensor.nan or tensor.inf):
        return Blame(tensor, (), (), graph.left_out)
    culprits, unknown = [], {}
    for each in sorted(graph.ancestors(node)):
        step = graph[each]
        if not (step.nan or step.inf):
            continue
        operands = [graph[x] for x in step.inputs if x in graph]
        if any(x.nan or x.inf for x in operands):
            continue
        culprits.append(step)
        unknown.update({x.node: x for x in operands if not x.is_held})
    return Blame(tensor, tuple(culprits), tuple(unknown.values()), graph.left_out)
