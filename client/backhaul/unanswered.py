"""Questions that a server of an earlier version passed over, since it does not know them."""

from __future__ import annotations

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_proto.messages import Answer, PushforwardQuestion, Question, keep_from


def check_answered(question: Question | None, answer: Answer) -> None:
    """Raise if an answer has not what was asked for.

    Raises:
        VersionMismatch: it has not, so its server is of an earlier version.
    """
    if isinstance(question, PushforwardQuestion):
        if not answer.tangents:
            raise _unknown("a pushforward")
    elif keep_from(question):
        for each in answer.sets:
            if len(each.kept) != len(each.nodes):
                raise _unknown("fetch=False")


def _unknown(what: str) -> BackhaulError:
    return make_error(
        "VERSION_MISMATCH",
        f"The server passed over {what}: it is of an earlier release that does not know it. Take the same "
        "release at both ends, or do without.",
        call=what,
    )
