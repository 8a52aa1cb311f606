"""What operators see and do: workers listed, drained, measured."""

from __future__ import annotations

import json
import subprocess
import sys
import time
import urllib.request
from threading import Event
from typing import Any

import pytest
from tests.ray.clusters import Nodes, nodes

import backhaul as bh

pytestmark = pytest.mark.slow


def command(cluster: Nodes, *words: str) -> str:
    """What ``backhaul workers`` prints."""
    found = subprocess.run(
        [sys.executable, "-m", "backhaul", "workers", *words, "--ray-address", cluster.address],
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert found.returncode == 0, found.stderr
    return found.stdout


def listed(cluster: Nodes) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads(command(cluster, "list", "--json"))["workers"]
    return found


def test_workers_are_listed_measured_and_drained() -> None:
    with nodes(1, 1) as cluster:
        front = cluster.front("--metrics-port", "0")
        assert front.process.stdout is not None
        url = front.process.stdout.readline().split()[-1]
        with bh.connect(front.target, timeout=60) as connection:
            tapes = [bh.Tape(connection) for _ in range(4)]
            for tape in tapes:
                assert float(tape.leaf(1.0) + 1.0) == 2.0
            _until(lambda: sum(each["sessions"] for each in listed(cluster)) == 4)
            workers = listed(cluster)
            assert [each["sessions"] for each in workers] == [2, 2]
            assert {each["node"] for each in workers} == {
                f"127.0.0.1/{node.node_id[:8]}" for node in cluster.nodes
            }
            with urllib.request.urlopen(url) as answer:
                metrics = answer.read().decode()
            for each in workers:
                labels = f'{{device="cpu",node="{each["node"]}",worker="{each["worker"]}"}}'
                assert f"backhaul_worker_sessions_open{labels} 2.0" in metrics
            node = workers[0]["node"].partition("/")[2]
            assert command(cluster, "drain", node) == f"draining {workers[0]['worker']}\n"
            with bh.Tape(connection) as one, bh.Tape(connection) as other:
                for tape in (one, other):
                    assert float(tape.leaf(1.0) + 1.0) == 2.0
                    assert tape._core.session.epoch.hex() == workers[1]["worker"]
            for tape in tapes:  # those on the drained one go on to their end
                assert float(tape.leaf(2.0) + 1.0) == 3.0
                tape.close()
            _until(lambda: workers[0]["worker"] not in {each["worker"] for each in listed(cluster)})


def _until(so: Any, seconds: float = 60.0) -> None:
    until = time.monotonic() + seconds
    pause = Event()
    while not so():
        assert time.monotonic() < until, "it did not come to be"
        pause.wait(0.1)
