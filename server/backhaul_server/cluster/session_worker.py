"""A worker: a dispatcher with its sessions, asked by front ends. Ray makes an actor of it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Final, TypeVar

from backhaul_proto import tensors
from backhaul_proto.errors import BackhaulError
from backhaul_proto.messages import Array
from backhaul_server.cluster.facts import Key, Refusal, Report, WorkerFacts
from backhaul_server.cluster.packing import Bytes, packed, unpacked
from backhaul_server.cluster.store_share import StoreShare
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.sessions.reaper import Reaper
from backhaul_server.workers.call import Call

T = TypeVar("T")

_EARLY: Final = 10_000
"""Cancellations that came before their calls, and are remembered."""

Answer = tuple[Bytes, list[Array]] | Refusal


class SessionWorker:
    """Answers calls of front ends, by their numbers. Many threads may use it at once.

    Args:
        dispatcher: what answers; closed with it.
        facts: what it tells of itself.
        store: what may be kept of arrays as they came.
    """

    def __init__(self, dispatcher: Dispatcher, facts: WorkerFacts, store: StoreShare) -> None:
        self._dispatcher = dispatcher
        self._facts = facts
        self._store = store
        self._calls: dict[str, Call] = {}
        self._cancelled_early: OrderedDict[str, None] = OrderedDict()
        self._lock = threading.Lock()
        self._draining = False
        self._reaper = Reaper(dispatcher.expire)
        self._reaper.start()

    # Work, on a thread of its own each

    def answer(
        self,
        number: str,
        method: str,
        header: Bytes,
        arrays: Sequence[Array],
        principal: str,
        remaining: float | None,
    ) -> Answer:
        """Answer a call.

        Args:
            number: tells it from all other calls of all front ends.
            method: its name.
            header: the request's message without its tensors, `packed`.
            arrays: the tensors.
            principal: who asks.
            remaining: seconds that the caller waits still. No time of day travels: clocks of machines differ.
        """
        with self._called(number, remaining) as call:
            data = unpacked(header)
            kept = self._store.admit(arrays) if arrays else []
            return _told(lambda: self._answer(method, data, kept, principal, call))

    def check_arrival(
        self, number: str, header: Bytes, nbytes: int, principal: str, remaining: float | None
    ) -> Refusal | None:
        """Why an Execute would be refused whatever its tensors are, of so many bytes; None: it may come."""
        with self._called(number, remaining) as call:
            data = unpacked(header)
            return _told(lambda: self._dispatcher.check_header(data, nbytes, principal, call))

    # Control: answered while all threads for work are taken

    def cancel(self, number: str) -> None:
        """Nobody waits for a call any more. It may be still to come."""
        with self._lock:
            call = self._calls.get(number)
            if call is None:
                self._cancelled_early[number] = None
                while len(self._cancelled_early) > _EARLY:
                    self._cancelled_early.popitem(last=False)
        if call is not None:
            call.cancel()

    def facts(self) -> WorkerFacts:
        """What it tells of itself."""
        return self._facts

    def report(self) -> Report:
        """How it is."""
        dispatcher = self._dispatcher
        held, aside = dispatcher.pool.read()
        work = dispatcher.work
        return Report(
            sessions=dispatcher.session_count,
            held=held + aside,
            limit=dispatcher.pool.limit,
            busy_seconds=sum(total for _, total in work.seconds().values()),
            steps=sum(work.steps().values()),
            calls=len(self._calls),
            draining=self._draining,
        )

    def keys(self) -> list[Key]:
        """The sessions that it has, or knows to have ended."""
        return self._dispatcher.known_sessions()

    def unknown(self, keys: Sequence[Key]) -> list[Key]:
        """Those of these sessions that it knows nothing of."""
        return [key for key in keys if not self._dispatcher.knows(key)]

    def refuse_sessions(self) -> None:
        """Open no more sessions."""
        self._draining = True
        self._dispatcher.refuse_sessions()

    def close(self) -> None:
        """Free all sessions, after the step that is run."""
        self._reaper.stop()
        self._dispatcher.close()

    @contextmanager
    def _called(self, number: str, remaining: float | None) -> Iterator[Call]:
        call = Call(remaining)
        with self._lock:
            if number in self._cancelled_early:
                del self._cancelled_early[number]
                call.cancel()
            self._calls[number] = call
        try:
            yield call
        finally:
            del self._calls[number]

    def _answer(
        self, method: str, data: bytes, arrays: Sequence[Array], principal: str, call: Call
    ) -> Answer:
        header, results = self._dispatcher.call(
            method, data, arrays, principal=principal, call=call
        )
        return packed(header), [tensors.little_endian(each) for each in results]


def _told(work: Callable[[], T]) -> T | Refusal:
    """What the work gives; an error of ours as what makes it up."""
    try:
        return work()
    except BackhaulError as error:
        return Refusal(error.reason, error.message, error.details)
