"""A dispatcher as the settings want it, in a process of its own or in a Ray actor."""

from __future__ import annotations

import logging
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Final

from threadpoolctl import ThreadpoolController

from backhaul_proto.errors import BackhaulError
from backhaul_proto.messages import Limits
from backhaul_server.accelerators import open_all
from backhaul_server.allocator import give_back, keep_memory
from backhaul_server.cluster.facts import Cluster
from backhaul_server.config import ServerSettings
from backhaul_server.engine.engine import Engine
from backhaul_server.limits import rss_limit_by_default
from backhaul_server.plugins import load_plugins
from backhaul_server.resident import ResidentGuard, Trimmer, resident_bytes
from backhaul_server.rest import Rest, collect, put_off_full_collections
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.host import Host
from backhaul_server.service.routing import RoutingHost
from backhaul_server.sessions.accounts import Quotas
from backhaul_server.workers.call import draining, front_ends
from backhaul_server.workers.turns import TurnsWorker
from backhaul_server.workers.watchdog import Watchdog

log = logging.getLogger("backhaul.server")

SWITCH_INTERVAL: Final = 0.0005
"""Seconds between thread switches: at Python's default, small calls wait tens of ms behind busy ones."""

FRONT_PART: Final = 4
"""A front end may use this part of the memory, one in so many, for requests on their way to workers."""


@dataclass(frozen=True, slots=True)
class Part:
    """What of a machine the sessions may use.

    Attributes:
        cores: processor cores.
        memory: bytes.
    """

    cores: int
    memory: int


@dataclass(frozen=True, slots=True)
class Hosted:
    """What answers calls, and what looks after it.

    Attributes:
        host: answers calls.
        rest: tidies up when the process rests.
        close: ends what looks after it, when the host is closed.
        farewell: what callers are told when it ends.
    """

    host: Host
    rest: Rest
    close: Callable[[], None]
    farewell: Callable[[], BackhaulError] = draining


@dataclass(frozen=True, slots=True)
class Assembled(Hosted):
    """The same of a process that has the sessions.

    Attributes:
        dispatcher: the host.
    """

    dispatcher: Dispatcher = field(kw_only=True)


def assemble(
    settings: ServerSettings,
    part: Part,
    epoch: bytes | None = None,
    resident: Callable[[], int] = resident_bytes,
) -> Assembled:
    """Prepare this process for sessions, and make what answers their calls.

    Args:
        settings: of the server.
        part: what the sessions may use together, as far as the settings do not say.
        epoch: names this life of the worker; None: a random one.
        resident: bytes of this process that count against its limit.

    Raises:
        InvalidArgument: PLUGIN_FAILED, DEVICE_UNAVAILABLE.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    put_off_full_collections()
    keeps = settings.keep_memory and keep_memory()
    if settings.plugins:
        load_plugins()
    lanes = settings.lanes or max(1, part.cores // 4)
    _bound_blas(max(1, part.cores // lanes))
    worker = TurnsWorker(lanes)
    names = settings.devices.split(",")
    accelerators = open_all(names, settings.device_memory)
    for each in accelerators:
        facts = {"device": each.name, "model": each.model, "bytes": each.memory}
        log.info("device opened", extra=facts)
    trimmer = Trimmer(give_back) if keeps else None
    rss_limit: int | None = settings.rss_limit
    if rss_limit is None:
        rss_limit = rss_limit_by_default(part.memory)
    dispatcher = Dispatcher(
        Engine(),
        worker,
        max_message_bytes=settings.max_message_bytes,
        session_memory=settings.session_memory or part.memory // 2,
        memory=settings.memory_limit or part.memory * 4 // 5,
        lease=settings.lease,
        quotas=Quotas(settings.principal_memory, settings.principal_sessions, settings.sessions),
        guard=ResidentGuard(rss_limit, resident, give_back) if rss_limit else None,
        freed=None if trimmer is None else trimmer.freed,
        accelerators=accelerators,
        device=names[0],
        epoch=epoch,
    )
    watchdog = Watchdog(worker, settings.watchdog) if settings.watchdog else None
    if watchdog is not None:
        watchdog.start()

    def tidy() -> None:
        collect()
        if keeps:
            give_back()

    def close() -> None:
        if watchdog is not None:
            watchdog.close()
        if trimmer is not None:
            trimmer.close()

    return Assembled(dispatcher, Rest(time.process_time, tidy), close, dispatcher=dispatcher)


def assemble_front(settings: ServerSettings, cluster: Cluster, memory: int) -> Hosted:
    """Prepare this process for the calls of sessions that live in workers of a cluster.

    Args:
        settings: of the server.
        cluster: the workers.
        memory: bytes that this process may use.
    """
    sys.setswitchinterval(SWITCH_INTERVAL)
    put_off_full_collections()
    host = RoutingHost(cluster, Limits(settings.max_message_bytes), memory // FRONT_PART)
    return Hosted(host, Rest(time.process_time, collect), lambda: None, front_ends)


def _bound_blas(threads: int) -> None:
    """Let BLAS use at most so many threads for a product; fewer where the environment says so."""
    for library in ThreadpoolController().lib_controllers:
        if library.num_threads > threads:
            library.set_num_threads(threads)
