"""Ray clusters for tests: nodes on this machine and its loopback alone, and front ends as processes."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final

import pytest
from tests.e2e.server_process import ServerProcess, serving

STORE: Final = 400 << 20
"""Bytes of a node's object store."""
ENVIRONMENT: Final = {
    "RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER": "0",  # else Ray takes the machine's address for the loopback
    "RAY_USAGE_STATS_ENABLED": "0",
    "RAY_AUTH_MODE": "disabled",
    "RAY_worker_niceness": "0",  # else whatever else runs here goes first
}


class Nodes:
    """A cluster of nodes with a core each, and front ends of its workers.

    Args:
        cores: of each node.
        detection: seconds after which a node that is silent is dead; None: Ray's own.
    """

    def __init__(self, *cores: int, detection: float | None = None) -> None:
        # Ray reads the environment when it is imported.
        os.environ.update(ENVIRONMENT)
        pytest.importorskip("ray", reason="pip install 'backhaul[ray]'")
        from ray.cluster_utils import Cluster

        # Paths of unix sockets are short, and Ray adds much to this one.
        self.folder = Path(tempfile.mkdtemp(prefix="bh", dir="/tmp"))
        os.environ["RAY_TMPDIR"] = str(self.folder)
        options: dict[str, Any] = {}
        if detection is not None:
            options["_system_config"] = {
                "health_check_initial_delay_ms": 0,
                "health_check_period_ms": round(detection * 1e3 / 3),
                "health_check_timeout_ms": round(detection * 1e3 / 3),
                "health_check_failure_threshold": 3,
            }
        self._stack = ExitStack()
        self.cluster: Any = Cluster()
        # The head has no cores, so workers and their directory are elsewhere: it is not to be ended.
        self.cluster.add_node(
            num_cpus=0, node_ip_address="127.0.0.1", object_store_memory=STORE, **options
        )
        self.nodes = [self.add(each) for each in cores]

    def add(self, cores: int) -> Any:
        """One more node."""
        node = self.cluster.add_node(
            num_cpus=cores, node_ip_address="127.0.0.1", object_store_memory=STORE
        )
        self.cluster.wait_for_nodes()
        return node

    @property
    def address(self) -> str:
        """Where it is, as Ray names it."""
        return str(self.cluster.address)

    def front(self, *options: str, workers: str = "ray:2") -> ServerProcess:
        """One more front end."""
        # Nobody reads its log: with a line for each refusal the pipe would be full, and it would wait.
        quiet = ("--log-level", "warning")
        return self._stack.enter_context(
            serving("--workers", workers, "--ray-address", self.address, *quiet, *options)
        )

    def close(self) -> None:
        """End all of it."""
        import ray

        self._stack.close()
        ray.shutdown()
        self.cluster.shutdown()
        shutil.rmtree(self.folder, ignore_errors=True)


@contextmanager
def nodes(*cores: int, detection: float | None = None) -> Iterator[Nodes]:
    """A cluster, ended with the ``with``."""
    made = Nodes(*cores, detection=detection)
    try:
        yield made
    finally:
        made.close()
