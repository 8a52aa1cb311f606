"""How large an answer may be, from what is asked: by it the way that a request takes is chosen."""

from __future__ import annotations

from collections.abc import Sequence

from backhaul.recorder import Recorder
from backhaul_proto.messages import (
    HvpQuestion,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
    asked_node,
)


def answer_bytes(recorder: Recorder, values: Sequence[int], question: Question | None) -> int:
    """Bytes of the answer's arrays at most, as far as the client knows.

    Without ``wrt`` a gradient is counted for each leaf of the tape that has a handle. Leaves without one may
    get gradients too; so what comes of this can be too low, and must not be relied on.
    """
    total = sum([_size(recorder, each) for each in values]) if values else 0
    if question is None:
        return total
    total += _size(recorder, asked_node(question))
    match question:
        case PullbackQuestion():
            return total + (len(question.cotangents) or 1) * _gradients(recorder, question.wrt)
        case HvpQuestion():
            return total + 2 * (len(question.directions) or 1) * _gradients(recorder, question.wrt)
        case PushforwardQuestion():
            return total + (len(question.directions) or 1) * _size(recorder, question.output)


def _gradients(recorder: Recorder, wrt: Sequence[int] | None) -> int:
    if wrt is None:
        return recorder.leaf_bytes
    return sum([_size(recorder, each) for each in wrt])


def _size(recorder: Recorder, node: int) -> int:
    type_ = recorder.types.get(node)
    return 0 if type_ is None else type_.aval.nbytes
