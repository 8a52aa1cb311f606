"""The errors of what can be used no more: closed connections and tapes, forked processes, dead handles."""

from __future__ import annotations

from backhaul.handle import Handle
from backhaul_proto.errors import BackhaulError, make_error


def connection_closed(target: object) -> BackhaulError:
    """A call on a connection that was closed."""
    return make_error(
        "CONNECTION_CLOSED",
        f"The connection to {target} was closed; connect again, and make a new tape.",
        target=target,
    )


def forked(target: object) -> BackhaulError:
    """A call in a process that was forked from the one that connected."""
    return make_error(
        "FORKED",
        f"The connection to {target} was made in another process, from which this one was forked, and "
        "cannot be shared. Connect, and make tapes, in the process that uses them.",
        target=target,
    )


def tape_closed(tape: object) -> BackhaulError:
    """Any use of a tape that was closed."""
    return make_error(
        "SESSION_CLOSED", f"{tape} was closed, and its tensors are gone; make a new tape."
    )


def released(what: str, handle: Handle) -> BackhaulError:
    """A tensor that was released by name."""
    return make_error(
        "MISSING_NODE",
        f"{what}, node {-handle._id} of {handle._tape}, was released; record it again, or release it "
        "later.",
        node=-handle._id,
    )


def must_be_awaited(what: str, instead: str) -> BackhaulError:
    """What would have to wait for the server, where nothing may wait."""
    return make_error(
        "MUST_BE_AWAITED",
        f"{what} would have to be waited for, and a tape of backhaul.aio never waits. {instead}",
    )


def other_event_loop(target: object) -> BackhaulError:
    """A call in an event loop that the connection does not belong to."""
    return make_error(
        "OTHER_EVENT_LOOP",
        f"The connection to {target} belongs to the event loop that it was first used in, and was used in "
        "another one, or in none. Connect, and make tapes, within the loop that uses them: for example in "
        "what asyncio.run() is given.",
        target=target,
    )
