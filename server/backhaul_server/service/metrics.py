"""What a server tells Prometheus. Calls are counted as they end; all else is read when it is asked for."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from http.server import HTTPServer
from threading import Thread

from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    InfoMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from backhaul_proto._version import __version__
from backhaul_proto.errors import BackhaulError, make_error, status_of
from backhaul_proto.messages import PROTOCOL
from backhaul_server.cluster.facts import Away
from backhaul_server.service.dispatch import Dispatcher
from backhaul_server.service.entry import Visit
from backhaul_server.service.routing import RoutingHost
from backhaul_server.service.server import Server
from backhaul_server.tally import SECONDS, Distribution, Notes, Reading

_Ended = tuple[str, str, str, float, float | None]
"""A call that ended: method, code, reason, seconds, and those until its turn; None when it had none."""


class Calls:
    """An observer that counts the calls of a server."""

    def __init__(self) -> None:
        self._notes = Notes[_Ended](self._add)
        self._inside: set[Visit] = set()
        self._ended: Counter[tuple[str, str, str]] = Counter()
        self._seconds: defaultdict[str, Distribution] = defaultdict(Distribution)
        self._queued = Distribution()

    def began(self, visit: Visit) -> None:
        """One more is in the server."""
        self._inside.add(visit)

    def ended(self, visit: Visit, error: BackhaulError | None) -> None:
        """One fewer; how it ended, and how long it took."""
        self._inside.discard(visit)
        code, reason = ("OK", "") if error is None else (status_of(error), error.reason)
        turn = visit.call.first_turn
        queued = None if turn is None else turn - visit.started
        self._notes.take((visit.method, code, reason, visit.seconds, queued))

    def in_flight(self) -> Counter[str]:
        """How many are in the server, by method."""
        return Counter(visit.method for visit in list(self._inside))

    def by_result(self) -> dict[tuple[str, str, str], int]:
        """How many ended, by method, status code and reason."""
        with self._notes.added():
            return dict(self._ended)

    def seconds(self) -> dict[str, Reading]:
        """How long they took, by method; each as `Distribution.read` gives it."""
        with self._notes.added():
            return {method: each.read() for method, each in self._seconds.items()}

    def queued(self) -> Reading:
        """How long they waited for their turn."""
        with self._notes.added():
            return self._queued.read()

    def _add(self, ended: _Ended) -> None:
        method, code, reason, seconds, queued = ended
        self._ended[method, code, reason] += 1
        self._seconds[method].add(seconds)
        if queued is not None:
            self._queued.add(queued)


class ServerCollector(Collector):
    """The metrics of a server, each time they are asked for.

    No label holds a session or a principal: there may be any number of them.

    Args:
        server: what is read.
        calls: its observer.
    """

    def __init__(self, server: Server, calls: Calls) -> None:
        self._server = server
        self._calls = calls

    def collect(self) -> Iterator[Metric]:
        yield from self._of_calls()
        yield from self._of_segments()
        info = {
            "version": __version__,
            "protocol": PROTOCOL,
            "python": platform.python_version(),
        }
        host = self._server.host
        if isinstance(host, Dispatcher):  # else the sessions are elsewhere
            info["backend"] = host.devices.default.engines.backend
            yield from self._of_work(host)
            yield from self._of_memory(host)
            yield from self._of_devices(host)
        if isinstance(host, RoutingHost):
            yield from _of_workers(host)
        yield InfoMetricFamily("backhaul_build", "What runs.", value=info)

    def _of_calls(self) -> Iterator[Metric]:
        ended = CounterMetricFamily(
            "backhaul_calls",
            "Calls that ended, by gRPC status code; refused ones by reason too.",
            labels=("method", "code", "reason"),
        )
        for labels, count in self._calls.by_result().items():
            ended.add_metric(labels, count)
        yield ended
        in_flight = GaugeMetricFamily(
            "backhaul_calls_in_flight",
            "Calls that are in the server; streams are those of ExecuteStream.",
            labels=("method",),
        )
        for method, count in self._calls.in_flight().items():
            in_flight.add_metric((method,), count)
        yield in_flight
        yield _histogram(
            "backhaul_call_seconds",
            "From a call's arrival to its answer.",
            "method",
            self._calls.seconds(),
        )
        queued = HistogramMetricFamily(
            "backhaul_queue_seconds",
            "From a call's arrival until its work has its turn, reading of the request included.",
        )
        queued.add_metric((), *_buckets(self._calls.queued()))
        yield queued

    def _of_work(self, dispatcher: Dispatcher) -> Iterator[Metric]:
        work = dispatcher.work
        steps = CounterMetricFamily(
            "backhaul_steps", "Steps of blocks that were run, by op.", labels=("op",)
        )
        for op, count in work.steps().items():
            steps.add_metric((op,), count)
        yield steps
        yield _histogram(
            "backhaul_work_seconds",
            "Time that parts of requests took: running the block, and answering the question.",
            "kind",
            work.seconds(),
        )
        blocks = dispatcher.read_blocks()
        lookups = CounterMetricFamily(
            "backhaul_block_cache_lookups", "Blocks looked for by hash.", labels=("result",)
        )
        lookups.add_metric(("hit",), blocks.hits)
        lookups.add_metric(("miss",), blocks.misses)
        yield lookups
        yield CounterMetricFamily(
            "backhaul_plans", "Plans made, for blocks with inputs of new shapes.", blocks.plans
        )
        yield GaugeMetricFamily(
            "backhaul_block_cache_bytes", "Memory of kept blocks and plans, about.", blocks.nbytes
        )

    def _of_memory(self, dispatcher: Dispatcher) -> Iterator[Metric]:
        held, reserved = dispatcher.pool.read()
        for name, text, value in (
            ("sessions_open", "Sessions that are open.", dispatcher.session_count),
            ("memory_held_bytes", "Memory that sessions hold, at most.", held),
            ("memory_reserved_bytes", "Memory set aside for requests under way.", reserved),
            ("memory_limit_bytes", "Memory of all sessions together.", dispatcher.pool.limit),
        ):
            yield GaugeMetricFamily(f"backhaul_{name}", text, value)

    def _of_segments(self) -> Iterator[Metric]:
        segments = self._server.segments
        for name, text, value in (
            ("shared_memory_bytes", "Memory shared with clients.", segments.nbytes),
            ("shared_memory_limit_bytes", "Most of it that there may be.", segments.limit),
        ):
            yield GaugeMetricFamily(f"backhaul_{name}", text, value)

    def _of_devices(self, dispatcher: Dispatcher) -> Iterator[Metric]:
        pools = [(each.name, each.pool) for each in dispatcher.devices]
        texts = {
            "held": "Memory that sessions hold on a device, at most.",
            "reserved": "Memory of a device set aside for requests under way.",
            "limit": "Memory of a device for all sessions together.",
        }
        families = [
            GaugeMetricFamily(f"backhaul_device_memory_{name}_bytes", text, labels=("device",))
            for name, text in texts.items()
        ]
        for device, pool in pools:
            for family, value in zip(families, (*pool.read(), pool.limit), strict=True):
                family.add_metric((device,), value)
        yield from families


def _of_workers(host: RoutingHost) -> Iterator[Metric]:
    """How the workers of a cluster are. Every front end tells of all: take ``max by (worker)`` of them."""
    try:
        workers = host.cluster.workers()
    except Away:
        return
    yield GaugeMetricFamily("backhaul_workers", "Workers of the cluster.", len(workers))
    labels = ("worker", "node", "device")
    families: list[tuple[type[GaugeMetricFamily | CounterMetricFamily], str, str, str]] = [
        (GaugeMetricFamily, "sessions_open", "Sessions that are open.", "sessions"),
        (GaugeMetricFamily, "memory_held_bytes", "Memory held and set aside, at most.", "held"),
        (GaugeMetricFamily, "memory_limit_bytes", "Memory of all its sessions.", "limit"),
        (GaugeMetricFamily, "calls_in_flight", "Calls that are in it.", "calls"),
        (GaugeMetricFamily, "draining", "1: it takes no new sessions.", "draining"),
        (CounterMetricFamily, "steps", "Steps that were run.", "steps"),
        (CounterMetricFamily, "busy_seconds", "Seconds of computing.", "busy_seconds"),
    ]
    for kind, name, text, field in families:
        family = kind(f"backhaul_worker_{name}", text, labels=labels)
        for each in workers:
            where = (each.facts.name, each.facts.node, each.facts.device)
            family.add_metric(where, float(getattr(each.report, field)))
        yield family


def _histogram(
    name: str, text: str, label: str, read: Mapping[str, Reading]
) -> HistogramMetricFamily:
    family = HistogramMetricFamily(name, text, labels=(label,))
    for value, reading in read.items():
        family.add_metric((value,), *_buckets(reading))
    return family


def _buckets(reading: Reading) -> tuple[list[tuple[str, float]], float]:
    counts, total = reading
    bounds = [*map(str, SECONDS), "+Inf"]
    return list(zip(bounds, map(float, counts), strict=True)), total


def registry_of(server: Server, calls: Calls) -> CollectorRegistry:
    """The metrics of a server and of its process, in a registry of their own."""
    registry = CollectorRegistry()
    registry.register(ServerCollector(server, calls))
    ProcessCollector(registry=registry)
    return registry


@dataclass(frozen=True, slots=True)
class Exposition:
    """Metrics served by HTTP, on a thread that ends with the process.

    Attributes:
        url: where.
        close: ends it.
    """

    url: str
    close: Callable[[], None]


def expose(registry: CollectorRegistry, host: str, port: int) -> Exposition:
    """Serve metrics at ``http://host:port/metrics``; port 0: any free one.

    Raises:
        InvalidArgument: INVALID_TARGET, an address that cannot be listened on.
    """
    try:
        http, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise make_error(
            "INVALID_TARGET",
            f"Cannot serve metrics on {host}:{port}: {error.strerror}. Choose another --metrics-port or "
            "--metrics-host.",
            actual=f"{host}:{port}",
        ) from None
    shown = f"[{host}]" if ":" in host else host
    return Exposition(f"http://{shown}:{http.server_port}/metrics", lambda: _end(http, thread))


def _end(http: HTTPServer, thread: Thread) -> None:
    http.shutdown()
    http.server_close()
    thread.join()
