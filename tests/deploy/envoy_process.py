"""Envoy in a process of its own, with the configuration of deploy/envoy but for addresses."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from tests.deploy.yaml_text import parse, read

CONFIG = Path(__file__).parents[2] / "deploy" / "envoy" / "envoy.yaml"
PAGE = Path(__file__).parents[2] / "docs" / "deploying.md"
START_SECONDS = 120


def envoy_program() -> str | None:
    """Envoy itself: $ENVOY, or what is on the PATH."""
    return os.environ.get("ENVOY") or shutil.which("envoy")


class EnvoyProcess:
    """Envoy before these servers (host:port), on a free port."""

    def __init__(
        self, servers: Sequence[str], folder: Path, replaced: Mapping[str, str] | None
    ) -> None:
        config = folder / "envoy.json"
        made = configuration(servers)
        if replaced is not None:
            add_tls(made, replaced)
        config.write_text(json.dumps(made), encoding="utf-8")
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
            with urlopen(self.admin + path, timeout=120) as answer:
                return str(answer.read().decode())
        except OSError:
            return ""

    def healthy(self) -> int:
        """How many servers it sends calls to."""
        name = "cluster.backhaul.membership_healthy"
        found = self.ask(f"/stats?filter={name}$").strip()
        return int(found.removeprefix(f"{name}: ")) if found else 0

    def wait_for_healthy(self, count: int) -> None:
        """Until it sends calls to so many."""
        until = time.monotonic() + 120
        while self.healthy() != count:
            assert time.monotonic() < until, self.log.read_text()


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


def add_tls(config: Any, replaced: Mapping[str, str]) -> None:
    """Put the two pieces of docs/deploying.md where they belong, with these words replaced."""
    page = PAGE.read_text(encoding="utf-8")
    pieces = {}
    for name, piece in re.findall(r"^```yaml\n# (\w+)\[0\]\n(.*?)^```$", page, re.M | re.S):
        for word, by in replaced.items():
            piece = piece.replace(word, by)
        pieces[name] = parse(piece)
    resources = config["static_resources"]
    resources["listeners"][0]["filter_chains"][0] |= pieces["filter_chains"]
    resources["clusters"][0] |= pieces["clusters"]


@contextmanager
def before(
    servers: Sequence[str], folder: Path, replaced: Mapping[str, str] | None = None
) -> Iterator[EnvoyProcess]:
    envoy = EnvoyProcess(servers, folder, replaced)
    try:
        yield envoy
    finally:
        envoy.process.terminate()
        envoy.process.wait(timeout=120)
