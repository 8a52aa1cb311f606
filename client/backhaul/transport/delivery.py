"""How a request goes to a server: in one message or in a stream, and again if that failed.

A generator, as in `backhaul.steps`, for the transport that waits and the one that is awaited: each does
the step that it is asked for.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from typing import Any, Final, NamedTuple

from backhaul.retries import Attempt, Pause, Retries, may_repeat
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
    failed: BackhaulError | None = None,
) -> Generator[Step, Any, Answer]:
    """The answer to a request.

    Args:
        request: what is asked.
        call: the same, ready to be sent.
        limits: the server's, as far as they are known. A server that told them may be waited for.
        retries: when it is sent again.
        timeout: seconds for all of it; None: as long as it takes.
        failed: the error of a try that was made another way.

    Raises:
        BackhaulError: whatever the last step raised.
    """
    started = retries.clock()
    limit = STREAM_BYTES if limits is None else min(STREAM_BYTES, limits.max_message_bytes)
    attempt: Callable[[float | None], Step] = Whole
    if max(nbytes(call), request.answer_bytes) > limit:
        attempt = Attempt

    def may_be_sent_again(error: BackhaulError) -> bool:
        return bool(request.seq) and may_repeat(error)

    try:
        while True:
            try:
                answer: Answer
                if failed is None:
                    answer = yield attempt(timeout)
                else:
                    answer = yield from retries.again(
                        failed,
                        started,
                        timeout,
                        may_be_sent_again,
                        attempt,
                        patient=limits is not None,
                    )
                return answer
            except MessageTooLarge as error:
                if attempt is Attempt or not may_be_streamed(error, request):
                    raise
                attempt, failed = Attempt, None
                if timeout is not None:
                    now = retries.clock()
                    timeout, started = max(0.0, timeout - (now - started)), now
            except BackhaulError as error:
                if failed is not None or not may_be_sent_again(error):
                    raise
                failed = error
    finally:
        del failed  # else it would refer to itself through this frame, and keep tensors alive


def nbytes(call: Call[Answer]) -> int:
    """The size of a request."""
    return len(call.header) + sum([each.nbytes for each in call.tensors])


def may_be_streamed(error: MessageTooLarge, request: Execute) -> bool:
    """Whether a request that met the limit of messages may go by a stream after that.

    Of one that was too large itself nothing was run. An answer is given again to a request with a number.
    """
    return error.details.get("too_large") == "request" or bool(request.seq)
