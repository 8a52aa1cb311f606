"""Open steps sent in parts, after the server refused them together with a question.

What it takes it gets; a step that it refuses by itself becomes a failed node, as if it had failed there,
and all else on the tape lives on. Blocks that were only too large together travel one after the other.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from backhaul.failures import Failures
from backhaul.recorder import Recorder
from backhaul.steps import Steps
from backhaul_proto.errors import (
    BackhaulError,
    InternalError,
    InvalidArgument,
    MemoryLimitExceeded,
    MessageTooLarge,
    MissingNode,
)
from backhaul_proto.messages import Failure

if TYPE_CHECKING:
    from backhaul.session import Session

MAX_CULPRITS: Final = 16
"""Steps refused by themselves after which a question gives up; the next one goes on from there."""

_OF_THE_PROTOCOL: Final = frozenset(
    {"BLOCK_UNKNOWN", "NODE_ID_TAKEN", "SEQUENCE_GAP", "SEQUENCE_REUSED", "SESSION_EXISTS"}
)


def may_be_of_a_step(error: BackhaulError, *, refused_before: bool) -> bool:
    """Whether a request was refused, and that may be for one of its steps.

    Args:
        error: the refusal.
        refused_before: whether the request before was refused too. Memory may be there the next time:
            its lack is laid to a step only then.
    """
    match error:
        case InternalError():
            return "incident" in error.details  # else it is not the server's own
        case MessageTooLarge():
            return error.details.get("too_large") == "request"
        case MemoryLimitExceeded():
            return refused_before
        case InvalidArgument() | MissingNode():
            return error.reason not in _OF_THE_PROTOCOL
    return False


def send_in_parts(
    session: Session, recorder: Recorder, failures: Failures, released: set[int]
) -> Steps[int]:
    """Send the open steps without a question, halving what is refused down to single steps.

    Args:
        session: where to.
        recorder: holds the steps.
        failures: is told of the steps that fail or are refused.
        released: nodes without a handle. They are released later, with the question.

    Returns:
        The id up to which they were sent: what is recorded meanwhile waits.

    Raises:
        BackhaulError: it is not for the steps that the server refuses, or too many of them are refused.
    """
    recorder.leave_out_unneeded(released)
    yield from session.execute(set(), until=0)  # nothing: what this raises is not for a step
    culprits = 0
    end = recorder.next_id
    ends = [end]
    while ends:
        if ends[-1] <= recorder.columns.base:
            ends.pop()
            continue
        try:
            answer = yield from session.execute(set(), until=ends[-1])
            failures.note(answer.failures)
        except BackhaulError as error:
            if not may_be_of_a_step(error, refused_before=True):
                raise
            steps = recorder.columns.live_steps(ends[-1])
            if len(steps) > 1:
                ends.append(steps[len(steps) // 2].start)
                continue
            culprits += 1
            if not steps or culprits > MAX_CULPRITS:
                raise
            failures.note([_failure(error, steps[0], recorder)], absent=True)
            failures.spread(recorder)
            ends.pop()  # what is left of them travels with what follows
    return end


def _failure(error: BackhaulError, results: range, recorder: Recorder) -> Failure:
    node = results.start
    type_ = recorder.types.get(node)
    what = f"Node {node}" if type_ is None else f"Node {node}, {type_.aval},"
    return Failure(
        node,
        error.reason,
        f"{what} was refused by the server, and so is what depends on it; all else on the tape lives on. "
        f"{error.message}",
        {**error.details, "node": str(node)},
        list(results[1:]),
    )
