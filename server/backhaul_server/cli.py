"""``backhaul serve``: run a server until it is told to stop."""

from __future__ import annotations

import logging
import logging.config
import signal
import sys
import threading
import time
from types import FrameType
from typing import Final

from threadpoolctl import ThreadpoolController

from backhaul_server.allocator import give_back, keep_memory
from backhaul_server.config import ServerSettings
from backhaul_server.engine.engine import Engine
from backhaul_server.limits import shared_memory_by_default, usable_cores, usable_memory
from backhaul_server.plugins import load_plugins
from backhaul_server.rest import Rest, collect, put_off_full_collections
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Entry, Log, Observer
from backhaul_server.service.metrics import Calls, expose, registry_of
from backhaul_server.service.server import Server
from backhaul_server.service.tracing import tracing
from backhaul_server.workers.turns import TurnsWorker

SWITCH_INTERVAL: Final = 0.0005
"""Seconds between thread switches: at Python's default, small calls wait tens of ms behind busy ones."""

IDLE_LOOK: Final = 10.0
"""Seconds between looks whether the process rests."""

log = logging.getLogger("backhaul.server")


def serve(settings: ServerSettings) -> int:
    """Run a server until SIGTERM or SIGINT; its exit status.

    The line ``listening on TARGET`` on stdout says, for each address, that calls are answered there.
    """
    configure_logging(settings)
    sys.setswitchinterval(SWITCH_INTERVAL)
    put_off_full_collections()
    keeps = settings.keep_memory and keep_memory()
    stop = threading.Event()

    def on_signal(number: int, _frame: FrameType | None) -> None:
        log.info("stopping", extra={"signal": signal.Signals(number).name})
        stop.set()

    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, on_signal)
    if settings.plugins:
        load_plugins()
    cores = usable_cores()
    lanes = settings.lanes or max(1, cores // 4)
    bound_blas(max(1, cores // lanes))
    dispatcher = Dispatcher(
        Engine(),
        TurnsWorker(lanes),
        max_message_bytes=settings.max_message_bytes,
        session_memory=settings.session_memory,
        memory=settings.memory,
        lease=settings.lease,
    )
    calls = Calls()
    observers: list[Observer] = [Log(), calls, *tracing()]
    by_default = shared_memory_by_default(usable_memory())
    server = Server(
        dispatcher,
        settings.addresses,
        threads=settings.threads,
        streams=settings.streams,
        shared_memory=by_default if settings.shared_memory is None else settings.shared_memory,
        entry=Entry(observers=observers),
    )
    if settings.metrics_port:
        expose(
            registry_of(server, calls),
            settings.metrics_host or settings.host,
            settings.metrics_port,
        )
    server.start()
    for target in server.targets:
        print(f"listening on {target}", flush=True)

    def tidy() -> None:
        collect()
        if keeps:
            give_back()

    rest = Rest(time.process_time, tidy)
    while not stop.wait(IDLE_LOOK):
        rest.look(IDLE_LOOK)
    server.stop(settings.grace)
    return 0


def bound_blas(threads: int) -> None:
    """Let BLAS use at most so many threads for a product; fewer where the environment says so."""
    for library in ThreadpoolController().lib_controllers:
        if library.num_threads > threads:
            library.set_num_threads(threads)


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
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
            "root": {"handlers": ["stderr"], "level": settings.log_level.upper()},
        }
    )
