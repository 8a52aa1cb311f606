"""Envoy in a process of its own, with the configuration of deploy/envoy but for addresses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.deploy.yaml_text import read

CONFIG = Path(__file__).parents[2] / "deploy" / "envoy" / "envoy.yaml"
START_SECONDS = 60


def envoy_program() -> str | None:
    """Envoy itself: $ENVOY, or what is on the PATH."""
    return os.environ.get("ENVOY") or shutil.which("envoy")


class EnvoyProcess:
    """Envoy before these servers (host:port), on a free port."""

    def __init__(self, servers: Sequence[str], folder: Path) -> None:
        config = folder / "envoy.json"
        config.write_text(json.dumps(configuration(servers)), encoding="utf-8")
        where = folder / "admin"
        program = envoy_program()
        assert program is not None
        self.log = folder / "envoy.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [
                    program,
                    *("--config-path", str(config)),
                    *("--admin-address-path", str(where)),
                    *("--concurrency", "2", "--disable-hot-restart", "--log-level", "warning"),
                ],
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        until = time.monotonic() + START_SECONDS
        while not (where.exists() and where.read_text()):
            assert self.process.poll() is None, self.log.read_text()
            assert time.monotonic() < until, self.log.read_text()
        self.admin = f"http://{where.read_text()}"
        while self.ask("/ready").strip() != "LIVE" or self.healthy() != len(servers):
            assert time.monotonic() < until, self.log.read_text()
        (listener,) = json.loads(self.ask("/listeners?format=json"))["listener_statuses"]
        self.port: int = listener["local_address"]["socket_address"]["port_value"]
        self.target = f"127.0.0.1:{self.port}"

    def ask(self, path: str) -> str:
        """The answer of its admin interface; empty while there is none."""
        try:
            with urlopen(self.admin + path, timeout=10) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def healthy(self) -> int:
        """How many servers it sends calls to."""
        name = "cluster.backhaul.membership_healthy"
        found = self.ask(f"/stats?filter={name}$").strip()
        return int(found.removeprefix(f"{name}: ")) if found else 0


def configuration(servers: Sequence[str]) -> Any:
    """The configuration of deploy/envoy before these servers, on free ports of the loopback."""
    config = read(CONFIG)
    (listener,), (cluster,) = (
        config["static_resources"]["listeners"],
        config["static_resources"]["clusters"],
    )
    for address in (config["admin"]["address"], listener["address"]):
        address["socket_address"] = {"address": "127.0.0.1", "port_value": 0}
    (locality,) = cluster["load_assignment"]["endpoints"]
    (endpoint,) = locality["lb_endpoints"]
    assert set(endpoint) == {"endpoint"}
    locality["lb_endpoints"] = [
        {
            "endpoint": {
                "address": {
                    "socket_address": {"address": host, "port_value": int(port)},
                }
            }
        }
        for host, _, port in (each.rpartition(":") for each in servers)
    ]
    return config


@contextmanager
def before(servers: Sequence[str], folder: Path) -> Iterator[EnvoyProcess]:
    envoy = EnvoyProcess(servers, folder)
    try:
        yield envoy
    finally:
        envoy.process.terminate()
        envoy.process.wait(timeout=30)
