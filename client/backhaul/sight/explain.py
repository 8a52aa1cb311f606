"""Which leaves a loss reaches, through which steps, and why it does not reach the others."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from backhaul.sight.graph import COLUMNS, NUMBERS, Graph, Step, cells
from backhaul.sight.tables import html_table, html_text, text_table
from backhaul_proto.messages import CONSTANT, LEAVES

ROWS_SHOWN: Final = 60
"""Rows of a table that are printed; `Explanation.steps` has all."""


@dataclass(frozen=True, slots=True)
class Unreached:
    """A leaf that the loss does not reach.

    Attributes:
        leaf: the leaf.
        why: ``"unused"``: it is an operand of nothing; ``"elsewhere"``: what it is an operand of does not
            lead to the loss; ``"detached"``: its way there goes through ``detach()``, or a new leaf;
            ``"not differentiable"``: its way there goes through an op that no gradient flows through.
        at: where the way ends: the step that detaches or is not differentiable, or that takes the leaf and
            leads elsewhere; None for an unused leaf.
    """

    leaf: Step
    why: str
    at: Step | None = None

    def __str__(self) -> str:
        match self.why:
            case "unused":
                reason = "it is an operand of nothing on this tape"
            case "elsewhere":
                reason = f"the loss is not computed from what it is an operand of, as {self.at}"
            case "detached" if self.at is not None and self.at.op in LEAVES:
                reason = f"its value went on in a new leaf, {self.at}, which keeps nothing of it"
            case "detached":
                reason = f"its way to the loss is detached by {self.at}"
            case _:
                reason = (
                    f"its way to the loss goes through {self.at}, which no gradient flows through"
                )
        return f"{self.leaf}: {reason}"


@dataclass(frozen=True, slots=True)
class Explanation:
    """What a loss reaches. In a terminal it prints as tables, and so it does in a notebook.

    Attributes:
        loss: the step that made it.
        steps: all that a gradient of it flows through, in the order of recording; the loss is the last.
        reached: the leaves among them.
        unreached: the other leaves of the tape, and why.
        left_out: early nodes of the tape that are not in it, as they are too many.
    """

    loss: Step
    steps: Sequence[Step]
    reached: Sequence[Step]
    unreached: Sequence[Unreached]
    left_out: int = field(default=0)

    @property
    def rows(self) -> list[dict[str, Any]]:
        """The steps as plain data, for a data frame."""
        return [
            {
                "node": each.node,
                "op": each.op,
                "inputs": each.inputs,
                "shape": each.shape,
                "dtype": each.dtype,
                "bytes": each.nbytes,
                "source": each.source,
            }
            for each in self.steps
        ]

    def __repr__(self) -> str:
        parts = [self._head()]
        if self.steps:
            parts.append(text_table(COLUMNS, [cells(each) for each in self._shown()], NUMBERS))
        return "\n\n".join([*parts, *filter(None, [self._foot()])])

    def _repr_html_(self) -> str:
        table = html_table(COLUMNS, [cells(each) for each in self._shown()], NUMBERS)
        return html_text(self._head()) + table + html_text(self._foot())

    def _shown(self) -> Sequence[Step]:
        return self.steps[-ROWS_SHOWN:]

    def _head(self) -> str:
        count = len(self.reached) + len(self.unreached)
        if not self.steps:
            return (
                f"The loss, {self.loss}, requires no gradient: it reaches none of {count} leaves."
            )
        between = sum(not each.is_leaf for each in self.steps)
        steps = f"{between} step{'' if between == 1 else 's'}"
        said = f"The loss, {self.loss}, reaches {len(self.reached)} of {count} leaves, by {steps}."
        hidden = len(self.steps) - len(self._shown())
        return said + (f" The first {hidden} of its steps are not shown." if hidden else "")

    def _foot(self) -> str:
        lines = [f"Not reached: {each}." for each in self.unreached]
        if self.left_out:
            lines.append(f"The tape has {self.left_out} earlier nodes, which were not looked at.")
        return "\n".join(lines)


def explain(graph: Graph, loss: int, leaves: Sequence[int]) -> Explanation:
    """What a loss reaches.

    Args:
        graph: of the tape.
        loss: its node.
        leaves: those that have a tensor still.
    """
    made = graph[loss] if loss in graph else Step(loss, CONSTANT)
    flows = graph.ancestors(loss, differentiable=True) if made.requires_grad else set()
    steps = [graph[each] for each in sorted(flows)]
    reached = [each for each in steps if each.is_leaf]
    users = _users(graph)
    leading = graph.ancestors(loss)
    others = sorted({*leaves, *(node for node in leading if graph[node].is_leaf)} - flows)
    unreached = [_why(graph, graph[leaf], leading, users) for leaf in others if leaf in graph]
    return Explanation(made, steps, reached, unreached, graph.left_out)


def _users(graph: Graph) -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for node, step in graph.items():
        for each in dict.fromkeys(step.inputs):
            found.setdefault(each, []).append(node)
    return found


def _why(graph: Graph, leaf: Step, leading: set[int], users: dict[int, list[int]]) -> Unreached:
    taken = users.get(leaf.node, [])
    if not taken:
        return Unreached(leaf, "unused")
    if leaf.node not in leading:
        return Unreached(leaf, "elsewhere", graph[taken[0]])
    seen, stack = {leaf.node}, [leaf.node]
    while stack:  # along the ways to the loss, up to where one loses the gradient
        for user in users.get(stack.pop(), ()):
            if user not in leading or user in seen:
                continue
            seen.add(user)
            step = graph[user]
            if step.op == "stop_gradient" or step.op in LEAVES:
                return Unreached(leaf, "detached", step)
            if not step.requires_grad:
                return Unreached(leaf, "not differentiable", step)
            stack.append(user)
    return Unreached(leaf, "elsewhere", graph[taken[0]])
