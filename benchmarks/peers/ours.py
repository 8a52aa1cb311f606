"""backhaul: one tape on a warm connection, two leaves and one pullback a job."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from benchmarks.peers.job import Ask
from benchmarks.wire.job import remote
from benchmarks.wire.ways import connections, serving


@contextmanager
def connected(variant: str, n: int, port: int) -> Iterator[Ask]:
    with serving() as server, connections(server) as ways:
        yield remote(ways[variant])
