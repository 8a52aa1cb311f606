"""What is told of workers, between them, the directory and front ends; and what can go wrong on the way."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

Key = tuple[str, bytes]
"""A session: its principal and id."""


@dataclass(frozen=True, slots=True)
class WorkerFacts:
    """What does not change of a worker.

    Attributes:
        epoch: its name for clients; a worker has one life.
        node: the node that it runs on, as address/id.
        device: what it computes on: ``cpu``, or ``gpu:`` and the numbers of GPUs.
        pid: its process.
    """

    epoch: bytes
    node: str
    device: str
    pid: int

    @property
    def name(self) -> str:
        """Its name for people."""
        return self.epoch.hex()


@dataclass(frozen=True, slots=True)
class Report:
    """How a worker is.

    Attributes:
        sessions: how many are open.
        held: bytes that they hold at most, or that are set aside for them.
        limit: bytes that they may use.
        busy_seconds: seconds of computing since it began.
        steps: steps that it has run.
        calls: calls that are in it.
        draining: whether it takes no new sessions.
    """

    sessions: int
    held: int
    limit: int
    busy_seconds: float
    steps: int
    calls: int
    draining: bool


@dataclass(frozen=True, slots=True)
class WorkerState:
    """A worker as the directory knows it.

    Attributes:
        facts: what does not change.
        report: how it was at the last look.
        busy: the part of a second that it computed, of the time between the last two looks.
    """

    facts: WorkerFacts
    report: Report
    busy: float


@dataclass(frozen=True, slots=True)
class Obituary:
    """A worker that died.

    Attributes:
        facts: of it.
        cause: why, in words.
    """

    facts: WorkerFacts
    cause: str


@dataclass(frozen=True, slots=True)
class Refusal:
    """An error of ours on its way from a worker: what makes it up, and no traceback.

    Attributes:
        reason: its code.
        message: for people.
        details: its facts.
    """

    reason: str
    message: str
    details: dict[str, str]


class Died(Exception):
    """The worker is no more, and with it its sessions. The text says why."""


class Away(Exception):
    """The worker, or the directory, cannot be reached at the moment. It may come back, or be dead."""


class Late(Exception):
    """No answer came in time."""


class Pending(Protocol):
    """What a worker was asked, until it answers."""

    def result(self, timeout: float | None) -> Any:
        """The answer.

        Args:
            timeout: seconds to wait; None: as long as it takes.

        Raises:
            Died, Away, Late: there is none.
        """


class Link(Protocol):
    """The way to a worker."""

    @property
    def facts(self) -> WorkerFacts:
        """Who that is."""

    def ask(self, method: str, *args: Any) -> Pending:
        """Ask it. The methods are those of `SessionWorker`.

        Raises:
            Died, Away: it cannot be asked.
        """


class Cluster(Protocol):
    """The workers and their directory, as a front end sees them. Many threads may use it at once."""

    def place(self, key: Key, dead: bytes = b"") -> bytes | None:
        """The epoch of the worker where a session is, or is to be opened; None: there is no worker.

        Args:
            key: the session.
            dead: the epoch of a worker that was found dead: it is not at that one.

        Raises:
            Away: the directory cannot be asked.
        """

    def find(self, key: Key) -> bytes | None:
        """The epoch of the worker where a session is, or was until that died; None: it is at none."""

    def link(self, epoch: bytes) -> Link | None:
        """The way to a worker; None when it is no more."""

    def obituary(self, epoch: bytes) -> Obituary | None:
        """Of a worker that died; None when it is not known any more."""

    def workers(self) -> Sequence[WorkerState]:
        """Those that are there."""

    def close(self) -> None:
        """Let go of it."""
