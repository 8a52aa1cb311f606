"""The way to an actor, Ray's errors as ours."""

from __future__ import annotations

from typing import Any, Final

import ray
from ray.exceptions import (
    ActorDiedError,
    ActorUnavailableError,
    GetTimeoutError,
    ObjectLostError,
    ObjectStoreFullError,
    RayActorError,
    RayError,
    RaySystemError,
)

from backhaul_proto.errors import make_error
from backhaul_server.cluster.facts import Away, Died, Late, WorkerFacts

CONTROL: Final = "control"
"""The threads of an actor that answer while its others are busy: Ray interrupts no running method."""
_WORK: Final = frozenset({"answer", "check_arrival"})
_LONGEST: Final = 200
"""Letters of the words about an error of Ray's."""


class RayPending:
    """What an actor was asked; see `Pending`."""

    def __init__(self, reference: Any, who: str) -> None:
        self._reference = reference
        self._who = who

    def result(self, timeout: float | None) -> Any:
        """The answer; see `Pending`."""
        try:
            return ray.get(self._reference, timeout=timeout)
        except GetTimeoutError:
            raise Late from None
        except RayError as error:
            raise _ours(error, self._who) from None


class RayLink:
    """The way to a worker; see `Link`.

    Args:
        handle: Ray's.
        facts: who that is.
    """

    def __init__(self, handle: Any, facts: WorkerFacts) -> None:
        self.handle = handle
        self.facts = facts
        self._methods: dict[str, Any] = {}

    def ask(self, method: str, *args: Any) -> RayPending:
        """Ask it; see `Link`."""
        bound = self._methods.get(method)
        if bound is None:
            bound = getattr(self.handle, method)
            if method not in _WORK:
                bound = bound.options(concurrency_group=CONTROL)
            self._methods[method] = bound
        who = f"Worker {self.facts.name} on node {self.facts.node}"
        try:
            return RayPending(bound.remote(*args), who)
        except RayError as error:
            raise _ours(error, who) from None


def words(error: BaseException) -> str:
    """What an error of Ray's says, in a line."""
    said = str(error).strip()
    for sign in ("The actor died because ", "The actor is dead because ", "cause: "):
        _, found, after = said.partition(sign)
        if found:
            said = after
            break
    line = " ".join(said.split())
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _ours(error: RayError, who: str) -> Exception:
    match error:
        case ActorDiedError():
            return Died(words(error))
        case ObjectStoreFullError():
            full: Exception = make_error(
                "SERVER_BUSY",
                "Ray's object store is full, through which large arrays travel between front ends and "
                "workers. Nothing was run. Try again later; or start Ray with a larger "
                "--object-store-memory.",
                retry_after=1.0,
            )
            return full
        case ActorUnavailableError() | RayActorError() | ObjectLostError() | RaySystemError():
            return Away(who)
        case _:  # a bug of ours there: its traceback goes into this front end's log, under an incident id
            return RuntimeError(str(error))
