"""Connections: where tapes send their work."""

from __future__ import annotations

import atexit
import contextlib
import os
import threading
import time
import weakref
from collections import Counter, deque
from collections.abc import Callable, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from backhaul.constants import frozen
from backhaul.endpoint import Endpoint, endpoint
from backhaul.known_blocks import KnownBlocks
from backhaul.leases import Leases, Renewer
from backhaul.progress import Progress
from backhaul.record import Record
from backhaul.retries import Retries
from backhaul.server_ops import OpInfo
from backhaul.steps import run
from backhaul.tls import TLS
from backhaul.unusable import connection_closed
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes
from backhaul_proto.errors import BackhaulError, TransportError
from backhaul_proto.messages import (
    Answer,
    ContractionCost,
    Execute,
    Inferred,
    ServerInfo,
    SessionSummary,
)

if TYPE_CHECKING:
    from backhaul.core import Core
    from backhaul.recorder import Recorder
    from backhaul.session import Session
    from backhaul.transport import Transport

Array = np.ndarray[Any, Any]

INFERRED_KEPT: Final = 4096
WAITED_FOR: Final = 60.0
"""Seconds that a server which was there is waited for, with ``recover=True`` and without a timeout."""
CLOSED_AT_ONCE: Final = 8
"""Sessions of tapes that are gone which a call closes on its way; the rest wait for later ones."""

CLOSING_SECONDS: Final = 5.0
"""Seconds that the server is waited for at most when a session is closed; its lease ends it then."""
AT_EXIT_SECONDS: Final = 1.0
"""Seconds that the end of the program waits for servers at most, to close what nobody closed."""

Inferring = Generator[tuple[str, tuple[Aval, ...], Attributes], Inferred, Inferred]


def connect(
    target: str | None = None,
    *,
    token: str | None = None,
    tls: TLS | str | os.PathLike[str] | None = None,
    timeout: float | None = None,
    shared_memory: bool | None = None,
    progress: Callable[[Progress], object] | bool | None = None,
    recover: bool = False,
    recover_bytes: int | None = None,
) -> Connection:
    """Say where tapes send their work. Nothing is sent before the first question.

    Args:
        target: ``host:port``, ``grpc://host:port``, ``grpcs://host:port`` (TLS),
            ``unix:///path/to/socket``, or ``embedded``: a server inside this process. Left out:
            ``$BACKHAUL_TARGET``, else embedded.
        token: sent with each call as a bearer token; beyond this machine only with TLS. Left out:
            ``$BACKHAUL_TOKEN``. ``""``: none.
        tls: file of root certificates (PEM) that the server's certificate is checked against, with
            ``grpcs://`` or ``host:port``; or a `TLS`, which also has this client's certificate. Left
            out: with ``grpcs://`` the system's roots.
        timeout: seconds that each call may take; None: as long as it takes.
        shared_memory: whether large tensors travel by memory shared with the server, on this machine and as
            this user. Left out: with ``unix://`` where it can be had, else by the socket, with one
            RuntimeWarning where something is wrong. False: never. True: it is an error
            (Unavailable, SHARED_MEMORY_UNAVAILABLE) where a large tensor cannot have it.
        progress: called with a `Progress` as large arrays (over 4 MiB) travel through a socket, by the thread
            that asks; what it raises ends the call. True: a bar in the terminal or notebook for
            transfers that take over 2 seconds.
        recover: whether tapes are made again, with the same numbers, on a server that was restarted or
            ended their sessions, so that they go on as if nothing had been. For that the client keeps what
            the tensors that live were made of. A server that answered once and is out of reach is then
            waited for: until the timeout, or for 60 seconds without one.
        recover_bytes: bytes that may be kept for that for each tape. With more it is given up, with a
            RuntimeWarning. Left out: 256 MiB.

    Raises:
        InvalidArgument: INVALID_TARGET; INVALID_VALUE for an argument or combination that cannot be.
        PermissionDenied: the token would travel in the clear.

    Example:
        >>> import backhaul as bh
        >>> with bh.connect("embedded") as connection:
        ...     tape = bh.Tape(connection)
        ...     float(bh.sum(tape.leaf([1.0, 2.0])))
        3.0
    """
    given = endpoint(target, token, tls, timeout, shared_memory, progress, recover, recover_bytes)
    return Connection(given)


class AnyConnection:
    """What a connection is, whether its calls are waited for or awaited.

    Attributes:
        timeout: seconds that each call may take; None: as long as it takes.
        known_blocks: the blocks that the server is thought to hold.
        leases: the sessions of its tapes, and when they are renewed.
        idle_tapes: those that functions are recorded on (`backhaul.functional`), for the next call.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._endpoint = endpoint
        self._target = endpoint.target
        self.timeout = endpoint.timeout
        self.known_blocks = KnownBlocks()
        self.leases = Leases()
        self._inferred: dict[tuple[str, tuple[Aval, ...], Attributes], Inferred] = {}
        self.idle_tapes: deque[Any] = deque()
        self._closed = False
        # (session, epoch) of tapes that are gone. Finalizers append; the next call closes them.
        self._forgotten: deque[tuple[bytes, bytes]] = deque()

    @property
    def closed(self) -> bool:
        """Whether it was closed."""
        return self._closed

    @property
    def target(self) -> str:
        """Where the server is, as it was given."""
        return self._target.text

    def __repr__(self) -> str:
        return f"<Connection to {self._target}>"

    # For tapes

    def frozen(self, array: Array) -> Array:
        """A copy of an array in C order, which nobody else holds, where it is to be sent from."""
        return frozen(array)

    def session(
        self, recorder: Recorder, memory_limit: int = 0, lease: float = 0.0, device: str = ""
    ) -> Session:
        """A new session for a tape."""
        from backhaul.session import Session

        limit = self._endpoint.recover_bytes
        record = None if limit is None else Record(limit)
        return Session(self.known_blocks, recorder, memory_limit, lease, record, device)

    def _retries(self) -> Retries:
        return Retries(patience=0.0 if self._endpoint.recover_bytes is None else WAITED_FOR)

    def keep(self, core: Core) -> None:
        """Renew the lease of a tape whose session has begun, and close it with the connection."""
        if self._target.kind == "embedded" or self._closed:
            return  # there sessions do not end by themselves, but with the connection
        sooner = self.leases.add(core)
        if core.session.lease != 0:
            self._renew_from_now_on(sooner)

    def _renew_from_now_on(self, sooner: bool) -> None:
        """See that leases are renewed.

        Args:
            sooner: whether the next time is to be before it was planned.
        """

    def _bounded(self, seconds: float) -> float:
        """A timeout of so many seconds, or the connection's where that is less."""
        return seconds if self.timeout is None else min(seconds, self.timeout)

    def forget(self, session: bytes, epoch: bytes) -> None:
        """Let a session be closed at the next call. For finalizers: makes no call, takes no lock."""
        self._forgotten.append((session, epoch))

    def _infer(self, op: str, avals: tuple[Aval, ...], attributes: Attributes) -> Inferring:
        """The results of an op; asked once for these arguments."""
        key = (op, avals, attributes)
        found = self._inferred.get(key)
        if found is None:
            found = yield key
            if len(self._inferred) >= INFERRED_KEPT:
                self._inferred.clear()
            self._inferred[key] = found
        return found

    def _close_forgotten(self, at_most: int) -> Generator[tuple[bytes, bytes], None, None]:
        for _ in range(at_most):
            try:
                forgotten = self._forgotten.popleft()
                yield forgotten
            except (IndexError, TransportError):
                return  # another thread was faster; or nothing answers: leases end them
            except BackhaulError:
                continue  # it has ended already


class Connection(AnyConnection):
    """The way to one server, made by `connect`. Threads may share it; processes may not.

    It is a context manager: at its end it is closed.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        super().__init__(endpoint)
        self._transport: Transport | None = None
        self._renewer: Renewer | None = None
        self._lock = threading.Lock()

    @property
    def calls(self) -> Counter[str]:
        """How many calls were made so far, by their names in the protocol."""
        return Counter() if self._transport is None else self._transport.calls

    def ping(self) -> float:
        """Seconds that a call takes to the server and back.

        Raises:
            TransportError: no server answers.
        """
        transport = self._ready()
        start = time.perf_counter()
        transport.server_info(timeout=self.timeout)
        return time.perf_counter() - start

    def info(self) -> ServerInfo:
        """Version, backend and limits of the server.

        Raises:
            TransportError: no server answers.
        """
        return self._ready().server_info(timeout=self.timeout)

    def ops(self) -> tuple[OpInfo, ...]:
        """The ops of the server, by name, with their documentation.

        Raises:
            TransportError: no server answers.
        """
        return self._ready().list_ops(timeout=self.timeout)

    def sessions(self) -> list[SessionSummary]:
        """One's own sessions on the server, in the order in which they were opened.

        They are told apart by digests: nobody learns an id from the list.

        Raises:
            TransportError: no server answers.

        Example:
            >>> import backhaul as bh
            >>> with bh.connect("embedded") as connection:
            ...     tape = bh.Tape(connection)
            ...     x = tape.leaf([1.0, 2.0])
            ...     tape.flush()
            ...     [each.info.nodes for each in connection.sessions()]
            [1]
        """
        return list(self._ready().list_sessions(timeout=self.timeout))

    def close(self) -> None:
        """Close it, and with it the sessions of its tapes, which are of no use then.

        Sessions that are computing at the moment are left to their leases. Closing again does nothing. At the
        end of the program those that are open are closed so, without waiting long.
        """
        self._close(CLOSING_SECONDS)

    def _close(self, seconds: float) -> None:
        with self._lock:
            transport, renewer = self._transport, self._renewer
            self._closed = True
        if renewer is not None:
            renewer.wake()
        if transport is not None:
            self._forgotten += self.leases.idle_sessions()
            self._end_forgotten(transport, len(self._forgotten), timeout=self._bounded(seconds))
            transport.close()

    def __enter__(self) -> Connection:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self.close()

    # For tapes

    def execute(self, request: Execute) -> Answer:
        """One request of a session."""
        return self._ready().execute(request, timeout=self.timeout)

    def frozen(self, array: Array) -> Array:
        """A copy of an array in C order, which nobody else holds, where it is to be sent from."""
        recovers = self._endpoint.recover_bytes is not None  # its record would hold shared memory
        if self._target.kind != "unix" or self._closed or recovers:
            return frozen(array)
        return (self._transport or self._open()).frozen(array)

    def infer(self, op: str, avals: tuple[Aval, ...], attributes: Attributes) -> Inferred:
        """The results of an op that the client does not know: asked once for these arguments."""
        return run(
            self._infer(op, avals, attributes),
            lambda asked: self._ready().infer(*asked, timeout=self.timeout),
        )

    def contract_path(
        self, avals: tuple[Aval, ...], attributes: Attributes, memory_limit: int, device: str = ""
    ) -> ContractionCost:
        """How the server would contract an einsum."""
        ready = self._ready()
        return ready.contract_path(avals, attributes, memory_limit, device, timeout=self.timeout)

    def close_session(self, session: bytes, epoch: bytes) -> None:
        """Close a session if the server can be reached; if not, its lease ends it."""
        with contextlib.suppress(BackhaulError):
            self._ready().close_session(session, epoch, timeout=self._bounded(CLOSING_SECONDS))

    def _ready(self) -> Transport:
        transport = self._transport or self._open()
        if self._forgotten:
            self._end_forgotten(transport, CLOSED_AT_ONCE, timeout=self._bounded(CLOSING_SECONDS))
        return transport

    def _end_forgotten(self, transport: Transport, at_most: int, *, timeout: float | None) -> None:
        run(
            self._close_forgotten(at_most),
            lambda each: transport.close_session(*each, timeout=timeout),
        )

    def _renew_from_now_on(self, sooner: bool) -> None:
        with self._lock:
            if self._renewer is None:
                self._renewer = Renewer(self)
            elif sooner:
                self._renewer.wake()

    def renew_leases(self) -> None:
        """Renew the leases of its tapes, and close the sessions of those that are gone."""
        transport = self._transport
        if transport is None:
            return
        timeout = self._bounded(max(1.0, self.leases.pause))
        run(
            self.leases.renewing(),
            lambda batch: transport.renew_lease(*batch, timeout=timeout),
        )
        self._end_forgotten(transport, len(self._forgotten), timeout=timeout)

    def _open(self) -> Transport:
        with self._lock:
            if self._transport is None:
                if self._closed:
                    raise connection_closed(self._target)
                self._transport = self._make_transport()
            return self._transport

    def _make_transport(self) -> Transport:
        if self._target.kind == "embedded":
            from backhaul.transport.embedded import EmbeddedTransport

            return EmbeddedTransport(self._target)
        from backhaul.transport.grpc import GrpcTransport

        of = self._endpoint
        _REMOTE.open[self] = os.getpid()
        return GrpcTransport(
            self._target,
            token=of.token,
            tls=of.tls,
            shared_memory=of.shared_memory,
            reporting=of.reporting,
            retries=self._retries(),
        )


class _Remote:
    """The connections to other processes that are in use, and which process uses each."""

    def __init__(self) -> None:
        self.open: weakref.WeakKeyDictionary[Connection, int] = weakref.WeakKeyDictionary()
        atexit.register(self.close)

    def close(self) -> None:
        """Close those of this process: else their sessions would be held until their leases end."""
        end = time.monotonic() + AT_EXIT_SECONDS
        for each, process in list(self.open.items()):
            left = end - time.monotonic()
            if left > 0 and process == os.getpid() and not each.closed:
                with contextlib.suppress(BackhaulError):
                    each._close(left)


_REMOTE: Final = _Remote()


class _Default:
    """The connection of tapes that name none: one a process, made when it is needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process = 0
        self._connection: Connection | None = None

    def get(self) -> Connection:
        with self._lock:
            if self._connection is None or self._process != os.getpid():
                self._connection = connect()
                self._process = os.getpid()
            return self._connection


_default = _Default()


def default_connection() -> Connection:
    """The connection to ``$BACKHAUL_TARGET``, else to a server inside this process."""
    return _default.get()
