"""How large an answer will be, as far as it can be known before it is there."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

from backhaul_proto.messages import (
    HvpQuestion,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
)
from backhaul_proto.shared import MIN_BYTES, aligned

if TYPE_CHECKING:
    from backhaul.recorder import Recorder


def large_bytes(recorder: Recorder, values: Sequence[int], question: Question | None) -> int:
    """What the large tensors of an answer will take at most; small ones count nothing."""
    total = _nodes_bytes(recorder, values)
    match question:
        case PullbackQuestion(cotangents=cotangents):
            total += _nodes_bytes(recorder, _wrt(recorder, question)) * max(1, len(cotangents))
        case HvpQuestion(directions=directions):
            total += _nodes_bytes(recorder, _wrt(recorder, question)) * 2 * max(1, len(directions))
        case PushforwardQuestion(output=output, directions=directions):
            return total + _nodes_bytes(recorder, [output]) * (1 + max(1, len(directions)))
        case None:
            return total
    return total + _nodes_bytes(recorder, [question.loss])


def _wrt(recorder: Recorder, question: PullbackQuestion | HvpQuestion) -> Iterable[int]:
    """The nodes that gradients are asked for: without wrt, at most all leaves."""
    return recorder.large_leaves() if question.wrt is None else question.wrt


def _nodes_bytes(recorder: Recorder, nodes: Iterable[int]) -> int:
    total = 0
    for node in nodes:
        type_ = recorder.types.get(node)
        if type_ is not None and type_.aval.nbytes >= MIN_BYTES:
            total += aligned(type_.aval.nbytes)
    return total
