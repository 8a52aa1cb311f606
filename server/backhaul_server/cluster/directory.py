"""The directory: which worker has which session, and that there are as many workers as are wanted.

It is asked when a session is opened, and for calls that carry no epoch. All that it knows it can ask the
workers again, so it may be ended and made anew at any time.
"""

from __future__ import annotations

import logging
import time
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from threading import Lock
from typing import Final, Protocol

from backhaul_server.cluster.facts import (
    Away,
    Died,
    Key,
    Late,
    Link,
    Obituary,
    Pending,
    Report,
    WorkerState,
)
from backhaul_server.cluster.placement import Load, least_loaded

log = logging.getLogger("backhaul.server")

PLACED: Final = 60.0
"""Seconds after which a placed session is looked for at its worker: it may never have been opened."""
SWEEP: Final = 30.0
"""Seconds between such looks."""
LOST: Final = 100_000
"""Sessions of dead workers that are remembered."""
OBITUARIES: Final = 1_000
SHORT_LIFE: Final = 60.0
"""Seconds: a worker that dies sooner than that after its start is replaced after a pause."""
FIRST_PAUSE: Final = 1.0
LONGEST_PAUSE: Final = 60.0
"""Seconds of that pause, which doubles with every further one."""
SWEPT: Final = 10_000
"""Sessions that a worker is asked for at once."""


class Launcher(Protocol):
    """Starts workers and ends them."""

    def start(self, avoided: Sequence[str]) -> None:
        """Start one more, not on these nodes. It may take long, or for ever where there is no room."""

    def started(self) -> Iterator[Link | str]:
        """Those that are up now and were not before; the words of those that could not be started."""

    def end(self, link: Link) -> None:
        """End one."""

    @property
    def starting(self) -> int:
        """How many were started and are not up yet."""


@dataclass(slots=True)
class _Member:
    """A worker.

    Attributes:
        link: the way to it.
        since: when it was first seen.
        report: the last one.
        reported: when that came.
        busy: the part of the time before it that it computed.
        placed: sessions that were placed there since.
        asked: the report that is on its way.
    """

    link: Link
    since: float
    report: Report | None = None
    reported: float = 0.0
    busy: float = 0.0
    placed: int = 0
    asked: Pending | None = None
    sessions: dict[Key, float] = field(default_factory=dict)


class Directory:
    """Knows the workers and their sessions. Many threads may use it at once.

    Args:
        launcher: starts workers.
        clock: seconds, monotonic.
    """

    def __init__(self, launcher: Launcher, clock: Callable[[], float] = time.monotonic) -> None:
        self._launcher = launcher
        self._clock = clock
        self._lock = Lock()
        self._members: dict[bytes, _Member] = {}
        self._where: dict[Key, bytes] = {}
        self._lost: OrderedDict[Key, bytes] = OrderedDict()
        self._dead: OrderedDict[bytes, Obituary] = OrderedDict()
        self._wanted = 0
        self._drained_nodes: set[str] = set()
        self._short_lives = 0
        self._start_after = 0.0
        self._swept = clock()

    # Asked by front ends

    def place(self, key: Key, dead: bytes = b"") -> bytes | None:
        """See `Cluster.place`."""
        with self._lock:
            found = self._where.get(key)
            if found is not None and found != dead:
                return found
            members = [
                each
                for epoch, each in self._members.items()
                if epoch != dead and each.report is not None and not each.report.draining
            ]
            if not members:
                return None
            chosen = members[least_loaded([_load(each) for each in members])]
            chosen.placed += 1
            self._put(key, chosen)
            return chosen.link.facts.epoch

    def find(self, key: Key) -> bytes | None:
        """See `Cluster.find`."""
        with self._lock:
            return self._where.get(key) or self._lost.get(key)

    def obituary(self, epoch: bytes) -> Obituary | None:
        """See `Cluster.obituary`."""
        with self._lock:
            return self._dead.get(epoch)

    def workers(self) -> list[WorkerState]:
        """See `Cluster.workers`."""
        with self._lock:
            return [
                WorkerState(each.link.facts, each.report, each.busy)
                for each in self._members.values()
                if each.report is not None
            ]

    # Asked by operators

    def want(self, workers: int) -> None:
        """Have so many workers from now on. Those beyond are drained, and end when they are empty."""
        with self._lock:
            self._wanted = workers

    def drain(self, name: str) -> list[str]:
        """Let workers have no new sessions; a worker ends when it has none any more, and another is started.

        Args:
            name: of a worker, or of a node: then no worker is started there any more. A part that no other
                begins with is enough.

        Returns:
            The names of the workers.
        """
        with self._lock:
            found = [
                each for each in self._members.values() if each.link.facts.name.startswith(name)
            ]
            if not found:
                nodes = {each.link.facts.node for each in self._members.values()}
                meant = {node for node in nodes if name in (node, *node.split("/"))}
                self._drained_nodes |= meant
                found = [each for each in self._members.values() if each.link.facts.node in meant]
        for each in found:
            _tell(each.link)
        return [each.link.facts.name for each in found]

    # Looked after

    def adopt(self, link: Link, sessions: Sequence[Key]) -> None:
        """Know a worker that is there already, with its sessions."""
        member = _Member(link, self._clock())
        with self._lock:
            self._members[link.facts.epoch] = member
            for key in sessions:
                self._put(key, member)

    def tick(self) -> None:
        """Look at all workers, and start and end some where that is needed. To be called regularly."""
        for up in self._launcher.started():
            if isinstance(up, str):
                log.warning("a worker did not start", extra={"error": up})
                self._was_short_lived()
            else:
                log.info("worker", extra={"worker": up.facts.name, "node": up.facts.node})
                self.adopt(up, ())
        for member in list(self._members.values()):
            self._look(member)
        if self._clock() - self._swept >= SWEEP:
            self._swept = self._clock()
            for member in list(self._members.values()):
                self._sweep(member)
        self._end_drained()
        self._start_wanted()

    def _look(self, member: _Member) -> None:
        """Take the report that has come, and ask for the next."""
        try:
            if member.asked is not None:
                report = member.asked.result(0.0)
                self._note(member, report)
            member.asked = member.link.ask("report")
        except Late:
            return
        except Away:
            member.asked = None
        except Died as error:
            self._bury(member, str(error))

    def _note(self, member: _Member, report: Report) -> None:
        now = self._clock()
        with self._lock:
            if member.report is not None and now > member.reported:
                computed = report.busy_seconds - member.report.busy_seconds
                member.busy = computed / (now - member.reported)
            member.report, member.reported, member.placed = report, now, 0

    def _bury(self, member: _Member, cause: str) -> None:
        facts = member.link.facts
        log.warning("worker died", extra={"worker": facts.name, "node": facts.node, "cause": cause})
        with self._lock:
            self._members.pop(facts.epoch, None)
            self._dead[facts.epoch] = Obituary(facts, cause)
            while len(self._dead) > OBITUARIES:
                self._dead.popitem(last=False)
            for key in member.sessions:
                if self._where.get(key) == facts.epoch:
                    del self._where[key]
                    self._lost[key] = facts.epoch
            while len(self._lost) > LOST:
                self._lost.popitem(last=False)
        if self._clock() - member.since < SHORT_LIFE:
            self._was_short_lived()

    def _was_short_lived(self) -> None:
        pause = min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(self._short_lives, 30))
        self._short_lives += 1
        self._start_after = self._clock() + pause

    def _sweep(self, member: _Member) -> None:
        """Forget sessions that their worker knows nothing of any more, or never did."""
        oldest = self._clock() - PLACED
        with self._lock:
            old = [key for key, when in member.sessions.items() if when <= oldest]
        for first in range(0, len(old), SWEPT):
            try:
                asked = member.link.ask("unknown", old[first : first + SWEPT])
                gone: list[Key] = asked.result(SWEEP)
            except (Away, Late, Died):
                return  # at the next look
            with self._lock:
                for key in gone:
                    member.sessions.pop(key, None)
                    if self._where.get(key) == member.link.facts.epoch:
                        del self._where[key]

    def _end_drained(self) -> None:
        with self._lock:
            kept = [each for each in self._members.values() if not _is_draining(each)]
            surplus = sorted(kept, key=lambda each: len(each.sessions))[
                : max(0, len(kept) - self._wanted)
            ]
            empty = [
                each
                for each in self._members.values()
                if each.report is not None
                and each.report.draining
                and not (each.report.sessions or each.report.calls)
            ]
            for each in empty:
                del self._members[each.link.facts.epoch]
                for key in each.sessions:
                    if self._where.get(key) == each.link.facts.epoch:
                        del self._where[key]
        for each in surplus:
            _tell(each.link)
        for each in empty:
            log.info("worker ended", extra={"worker": each.link.facts.name})
            self._launcher.end(each.link)

    def _start_wanted(self) -> None:
        if self._clock() < self._start_after:
            return
        with self._lock:
            kept = sum(not _is_draining(each) for each in self._members.values())
            settled = all(
                self._clock() - each.since >= SHORT_LIFE for each in self._members.values()
            )
            if settled:
                self._short_lives = 0
            missing = self._wanted - kept - self._launcher.starting
            avoided = sorted(self._drained_nodes)
        for _ in range(missing):
            self._launcher.start(avoided)

    def _put(self, key: Key, member: _Member) -> None:
        before = self._members.get(self._where.get(key, b""))
        if before is not None:
            before.sessions.pop(key, None)
        member.sessions[key] = self._clock()
        self._where[key] = member.link.facts.epoch
        self._lost.pop(key, None)


def _tell(link: Link) -> None:
    """Tell a worker to open no more sessions. One that does not hear it is told again, or is dead."""
    try:
        link.ask("refuse_sessions")
    except (Away, Died):
        return


def _is_draining(member: _Member) -> bool:
    return member.report is not None and member.report.draining


def _load(member: _Member) -> Load:
    report = member.report
    assert report is not None
    return Load(report.held, report.limit, member.busy, report.sessions + member.placed)
