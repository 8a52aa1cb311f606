"""Memory for messages while their calls are answered."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final

from backhaul_proto.errors import make_error
from backhaul_proto.units import size
from backhaul_server.sessions.pool import Pool
from backhaul_server.sessions.waiting import Waiting
from backhaul_server.workers.call import Call

MESSAGE_TIMES: Final = 2
"""A message is in memory so often beside its arrays: as it came, and parsed."""


@contextmanager
def room_for_message(
    pool: Pool, waiting: Waiting, nbytes: int, principal: str, call: Call
) -> Iterator[None]:
    """Memory of the pool for a message of so many bytes; see `Host.message`."""
    nbytes *= MESSAGE_TIMES
    if nbytes > pool.of_one_principal:
        raise make_error(
            "MEMORY_LIMIT_EXCEEDED",
            f"The message would need {size(nbytes)} beside its arrays while it is answered, and at most "
            f"{size(pool.of_one_principal)} may be used. Send it in pieces, by ExecuteStream; or "
            "give the server more with --memory-limit.",
            needed=nbytes,
            limit=pool.of_one_principal,
        )
    claim = waiting.claim(call, principal, nbytes)
    call.message_bytes = nbytes
    try:
        yield
    finally:
        pool.release(claim)
