"""Every error that leaves a call is one of ours; a bug is told by the name under which the log has it."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Callable
from typing import TypeVar

from backhaul_proto.errors import BackhaulError, make_error

log = logging.getLogger("backhaul.server")

T = TypeVar("T")


def guarded(method: str, answer: Callable[[], T]) -> T:
    """The answer; what is no error of the caller's is logged and raised as INTERNAL."""
    try:
        return answer()
    except BackhaulError:
        raise
    except Exception as error:
        raise typed(method, error) from None


def typed(method: str, error: Exception) -> BackhaulError:
    """Any error as one of ours, in the handling of it; what is no error of the caller's is logged."""
    if isinstance(error, BackhaulError):
        return error
    if isinstance(error, MemoryError):
        return make_error(
            "MEMORY_LIMIT_EXCEEDED",
            f"The server has not enough memory for this: {error}. Ask for less at once, or release "
            "tensors that are no longer needed.",
        )
    incident = secrets.token_hex(8)
    log.exception("internal error", extra={"incident": incident, "method": method})
    return make_error(
        "INTERNAL",
        f"A bug in the server, logged there as incident {incident}. The tape is as it was before the call.",
        incident=incident,
    )
