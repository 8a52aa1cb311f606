"""The tapes that functions are recorded on: a connection's own, used again and again.

Nobody sees them, so a session that the server lost is no loss: the function is recorded again on a new one.
A tape is used by one call at a time. Its constants stay known to it, so that data which come back are
not sent again.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from contextlib import suppress
from typing import Any, Final, NamedTuple, TypeVar

from backhaul.any_tape import AnyTape, Node, T, Wanted
from backhaul.connection import AnyConnection, Connection, default_connection
from backhaul.constants import Content
from backhaul.steps import run
from backhaul.tape import Tape
from backhaul.tensor import TrackedTensor
from backhaul_proto.errors import SessionError, make_error
from backhaul_proto.messages import Answer, Question

IDLE_TAPES: Final = 8
"""Tapes that a connection keeps for the next calls; further ones are closed."""

Result = TypeVar("Result")


class Asking(NamedTuple):
    """What one round trip asks.

    Attributes:
        values: nodes whose values are asked.
        question: what else is.
        spent: nodes that nobody asks for afterwards.
        held: what is not to be released before.
    """

    values: tuple[int, ...] = ()
    question: Question | None = None
    spent: Sequence[int] = ()
    held: object = None


Work = Generator[Asking, Answer, Result]
"""A call of a function of ours: it records, yields what it asks, and is sent the answer."""


class Watched(AnyTape[T]):
    """A tape that notes what a function does on it.

    Attributes:
        looked: whether a value was asked for, which the function may have acted upon.
        contents: of the constants that were used, by node; None: nobody wants to know.
    """

    looked = False
    contents: dict[int, Content] | None = None

    def watch(self, *, contents: bool) -> None:
        """Note from now on what is done."""
        self.looked = False
        self.contents = {} if contents else None

    def _wanted(self, tensors: Sequence[TrackedTensor]) -> list[Wanted]:
        self.looked = True
        return super()._wanted(tensors)

    def _noted(self, loss: Node, answer: Answer) -> Answer:
        self.looked = True
        return super()._noted(loss, answer)

    def _constant(self, content: Content) -> T:
        tensor = super()._constant(content)
        if self.contents is not None:
            self.contents[tensor._id] = content
        return tensor


class WatchedTape(Watched[TrackedTensor], Tape):
    """A tape whose questions are waited for."""


def call(connection: Connection | None, begin: Callable[[WatchedTape], Work[Result]]) -> Result:
    """The result of a call, on a tape of the connection.

    Args:
        connection: where to; None: the default one.
        begin: the call, on a tape. It is begun anew when the server has lost the session meanwhile.
    """
    where = checked_connection(connection)
    tape, is_new = lend(where, WatchedTape)
    try:
        return _called(tape, begin)
    except SessionError:
        if is_new:
            raise
    return _called(WatchedTape(where), begin)


def _called(tape: WatchedTape, begin: Callable[[WatchedTape], Work[Result]]) -> Result:
    try:
        return run(begin(tape), lambda asked: answer(tape, asked))
    finally:
        give_back(tape)


def answer(tape: WatchedTape, asked: Asking) -> Answer:
    """The answer to what is asked of a tape, in one round trip."""
    return tape._core.ask(asked.values, asked.question, spent=asked.spent)


def checked_connection(connection: Any) -> Connection:
    """The connection, or the default one.

    Raises:
        InvalidArgument: INVALID_VALUE for what is none.
    """
    if connection is None:
        return default_connection()
    if not isinstance(connection, Connection):
        raise make_error(
            "INVALID_VALUE",
            f"connection= is {connection!r:.100}; it is what bh.connect() gives. For one of backhaul.aio, "
            "use the functions of backhaul.aio.",
        )
    return connection


class Placed:
    """A function of ours that was told where it is computed; None: by the default connection."""

    _connection: Any = None


def connection_of(f: Any, connection: Any) -> Any:
    """The connection that is named, or that of the function where it is one of ours."""
    return f._connection if connection is None and isinstance(f, Placed) else connection


Lent = TypeVar("Lent", bound=Watched[Any])


def lend(connection: AnyConnection, kind: Callable[[Any], Lent]) -> tuple[Lent, bool]:
    """A tape for one call, and whether it is a new one."""
    with suppress(IndexError):  # there is none, or another thread was faster
        while True:
            tape = connection.idle_tapes.pop()
            if _can_be_used(tape):
                return tape, False
    return kind(connection), True


def _can_be_used(tape: Watched[Any]) -> bool:
    """Whether a tape is good for another call.

    Steps that were recorded and never sent, as the call failed before, are left out of it.
    """
    core = tape._core
    session, recorder = core.session, core.recorder
    if core.closed or not session.begun:
        return False
    core.check_usable()  # in a forked process its lock may be held for ever
    with recorder.lock:
        if session.in_doubt or session.lost:
            return False
        recorder.mend()
        if recorder.columns.steps:
            recorder.leave_out(range(recorder.columns.base, recorder.next_id))
    return True


def give_back(tape: Watched[Any]) -> None:
    """Keep a tape for a later call. For finalizers: takes no lock."""
    tape.watch(contents=False)
    idle = tape._core.connection.idle_tapes
    if len(idle) < IDLE_TAPES:
        idle.append(tape)
