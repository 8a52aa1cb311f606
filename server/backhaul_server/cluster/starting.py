"""The one way in to what needs Ray: an optional library, whose environment is to be set before it is read."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_server.config import ServerSettings

if TYPE_CHECKING:
    from backhaul_server.cluster.ray_cluster import RayCluster


def start_front(settings: ServerSettings) -> RayCluster:
    """The cluster that the settings name, with its workers; see `ray_cluster.connect`.

    Raises:
        InvalidArgument: INVALID_VALUE, Ray is not installed; and as `connect`.
    """
    _prepare(alone=settings.ray_address is None)
    try:
        from backhaul_server.cluster.ray_cluster import connect
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return connect(settings)


def find_workers(address: str, namespace: str) -> RayCluster:
    """The workers of a cluster that runs; see `ray_cluster.find`.

    Raises:
        InvalidArgument: INVALID_VALUE, Ray is not installed; and as `find`.
    """
    _prepare(alone=False)
    try:
        from backhaul_server.cluster.ray_cluster import find
    except ModuleNotFoundError as error:
        raise _missing(error) from None
    return find(address, namespace)


def _prepare(*, alone: bool) -> None:
    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # a server tells nobody of its use
    if alone:  # else Ray takes the machine's own address for a loopback one, and listens there
        os.environ.setdefault("RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER", "0")
        os.environ.setdefault(
            "RAY_worker_niceness", "0"
        )  # its own 15 is for work that nobody waits for


def _missing(error: ModuleNotFoundError) -> BackhaulError:
    return make_error(
        "INVALID_VALUE",
        f"Workers in other processes need Ray ({error.name} is missing): pip install 'backhaul[ray]'. "
        "Without it all sessions live in the server's own process (--workers here).",
        actual="ray",
    )
