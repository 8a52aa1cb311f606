"""``backhaul serve``: run a server until it is told to stop."""

from __future__ import annotations

import logging
import logging.config
import os
import signal
import sys
import threading
from types import FrameType
from typing import Final, NoReturn

from backhaul_proto.errors import make_error
from backhaul_server.assembly import Hosted, Part, assemble, assemble_front
from backhaul_server.cluster.starting import start_front
from backhaul_server.config import HERE, ServerSettings
from backhaul_server.effective import slips
from backhaul_server.limits import shared_memory_by_default, usable_cores, usable_memory
from backhaul_server.log_stream import LogStream
from backhaul_server.service.access import Tokens, access_of
from backhaul_server.service.admission import Slots
from backhaul_server.service.certificates import Certificates
from backhaul_server.service.console import Console
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.draining import Drain
from backhaul_server.service.entry import Access, Entry, Log, Observer
from backhaul_server.service.metrics import Calls, expose, registry_of
from backhaul_server.service.server import Server
from backhaul_server.service.tracing import tracing

IDLE_LOOK: Final = 10.0
"""Seconds between looks whether the process rests."""

CONNECTION_AGE: Final = 3600.0
"""Seconds that a connection by TLS lasts, when nothing else is said."""

STDERR: Final = 2
"""The file descriptor of a process's errors."""

log = logging.getLogger("backhaul.server")


def serve(settings: ServerSettings) -> int:
    """Run a server until SIGTERM or SIGINT; its exit status. A second signal ends the process at once.

    The line ``listening on TARGET`` on stdout says, for each address, that calls are answered there.
    """
    configure_logging(settings)
    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        log.info("stopping", extra={"signal": signal.Signals(number).name})
        if stop.is_set():  # the second one
            end_at_once(128 + number)
        stop.set()

    for slip, near in slips(os.environ).items():
        log.warning("a variable that nobody reads", extra={"variable": slip, "nearest": near})
    if settings.console is not None and settings.workers != HERE:
        raise make_error(
            "INVALID_VALUE",
            "--console shows sessions of the server's own process, and with --workers they live in "
            "others. Leave it out: `backhaul top` and `backhaul workers` show those.",
            actual=settings.workers,
        )
    hosted = host_of(settings)
    for number in (signal.SIGTERM, signal.SIGINT):  # after that: Ray has handlers of its own
        signal.signal(number, on_signal)
    access, certificates = access_by(settings)
    age = settings.max_connection_age
    calls = None if settings.metrics_port is None else Calls()
    observers: list[Observer] = [Log(), *tracing()]
    if calls is not None:
        observers.append(calls)
    by_default = shared_memory_by_default(usable_memory())
    server = Server(
        hosted.host,
        settings.addresses,
        threads=settings.threads,
        streams=settings.streams,
        shared_memory=by_default if settings.shared_memory is None else settings.shared_memory,
        entry=Entry(
            access,
            Slots(settings.threads, settings.principal_calls),
            observers,
            drain=Drain(farewell=hosted.farewell),
        ),
        certificates=certificates,
        max_connection_age=CONNECTION_AGE if age is None and certificates else age,
        insecure=settings.insecure,
        health_address=settings.health_address,
    )
    metrics = None
    if calls is not None:
        host = settings.metrics_host or settings.host
        metrics = expose(registry_of(server, calls), host, settings.metrics_port or 0)
    console = None
    if settings.console is not None and isinstance(hosted.host, Dispatcher):
        tokens = access if isinstance(access, Tokens) else None
        console = Console(hosted.host, tokens, settings.console)
    server.start()
    for target in server.targets:
        print(f"listening on {target}", flush=True)
    if server.health_target:
        print(f"health on {server.health_target}", flush=True)
    if metrics is not None:
        print(f"metrics on {metrics.url}", flush=True)
    if console is not None:
        console.start()
        how = f", password {console.password}" if console.password else ", with a token as password"
        print(f"console on {console.url}{how}", flush=True)

    while not stop.wait(IDLE_LOOK):
        hosted.rest.look(IDLE_LOOK)
    if console is not None:
        console.close()
    ended = server.stop(settings.grace, settings.drain_delay)
    hosted.close()
    if not ended:
        log.warning("left behind: a step that did not end")
        end_at_once(0)
    return 0


def host_of(settings: ServerSettings) -> Hosted:
    """What answers the calls: this process, or workers of a Ray cluster.

    Raises:
        InvalidArgument: PLUGIN_FAILED; INVALID_VALUE or INVALID_TARGET, there is no such cluster.
    """
    if settings.workers == HERE:
        return assemble(settings, Part(usable_cores(), usable_memory()))
    return assemble_front(settings, start_front(settings), usable_memory())


def access_by(settings: ServerSettings) -> tuple[Access, Certificates | None]:
    """Who tells who is calling, and the certificates for TLS; None: calls travel in the clear.

    Raises:
        InvalidArgument: INVALID_VALUE, a file is missing or cannot be used.
    """
    certificates = _certificates(settings)
    tokens = None if settings.token_file is None else Tokens(settings.token_file)
    return access_of(tokens, mutual=certificates is not None and certificates.mutual), certificates


def _certificates(settings: ServerSettings) -> Certificates | None:
    certificate, key = settings.tls_cert, settings.tls_key
    if certificate is not None and key is not None:
        return Certificates(certificate, key, settings.client_ca)
    if certificate is None and key is None and settings.client_ca is None:
        return None
    raise make_error(
        "INVALID_VALUE",
        "TLS needs both the server's certificate and its private key: --tls-cert and --tls-key, with "
        "--client-ca for certificates of clients.",
    )


def end_at_once(status: int) -> NoReturn:
    """End the process whatever its threads are doing."""
    logging.shutdown()
    sys.stdout.flush()
    os._exit(status)


def configure_logging(settings: ServerSettings) -> None:
    """Log to stderr, one JSON object a line or as text. Tensor data are never logged."""
    formatter: dict[str, object] = {"format": "%(asctime)s %(levelname)s %(name)s %(message)s"}
    if settings.log_format == "json":
        formatter["()"] = "pythonjsonlogger.json.JsonFormatter"
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {"line": formatter},
            "handlers": {"stderr": {"()": LogStream, "descriptor": STDERR, "formatter": "line"}},
            "root": {"handlers": ["stderr"], "level": settings.log_level.upper()},
        }
    )
