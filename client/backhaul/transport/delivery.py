"""How a request goes to a server: in one message or in a stream, and again if that broke.

A generator, as in `backhaul.steps`, for the transport that waits and the one that is awaited: each does
the step that it is asked for.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, Final, NamedTuple

from backhaul.retries import Attempt, Pause, Retries
from backhaul.transport.calls import Call
from backhaul_proto.errors import BackhaulError, MessageTooLarge
from backhaul_proto.messages import Answer, Execute, Limits

STREAM_BYTES: Final = 4 << 20
"""Arrays of a request, or of its answer, from which on a stream is faster than one message."""


class Whole(NamedTuple):
    """A step: send the request in one message.

    Attributes:
        timeout: seconds; None: as long as it takes.
    """

    timeout: float | None


Step = Whole | Attempt | Pause
"""What is to be done next. An `Attempt` is of a stream."""


def deliver(
    request: Execute,
    call: Call[Answer],
    limits: Limits | None,
    retries: Retries,
    timeout: float | None,
) -> Generator[Step, Any, Answer]:
    """The answer to a request.

    Args:
        request: what is asked.
        call: the same, ready to be sent.
        limits: the server's, as far as they are known.
        retries: when a stream is made again.
        timeout: seconds for all of it; None: as long as it takes.

    Raises:
        BackhaulError: whatever the last step raised.
    """
    limit = STREAM_BYTES if limits is None else min(STREAM_BYTES, limits.max_message_bytes)
    if max(nbytes(call), request.answer_bytes) <= limit:
        started = retries.clock()
        try:
            answer: Answer = yield Whole(timeout)
            return answer
        except MessageTooLarge as error:
            if not may_be_streamed(error, request):
                raise
        if timeout is not None:
            timeout = max(0.0, timeout - (retries.clock() - started))
    answer = yield from retries.steps(
        timeout, lambda error: bool(request.seq) and may_repeat(error)
    )
    return answer


def nbytes(call: Call[Answer]) -> int:
    """The size of a request."""
    return len(call.header) + sum([each.nbytes for each in call.tensors])


def may_be_streamed(error: MessageTooLarge, request: Execute) -> bool:
    """Whether a request that met the limit of messages may go by a stream after that.

    Of one that was too large itself nothing was run. An answer is given again to a request with a number.
    """
    return error.details.get("too_large") == "request" or bool(request.seq)


def may_repeat(error: BackhaulError) -> bool:
    """Whether a stream that failed so may be made again as a whole."""
    if error.reason == "SERVER_BUSY":
        return "streams" in error.details  # it has too many of them at the moment
    return error.reason in ("UNAVAILABLE", "CHUNK_CHECKSUM")
