"""A project of docker-compose.yml under a name of its own, run by podman."""

from __future__ import annotations

import shutil
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.containers.building import CHECKOUT
from tests.containers.podman import NotHere, Podman, need, output_of, until

FILE: Final = CHECKOUT / "docker-compose.yml"
TOKEN: Final = "/var/lib/backhaul/client/token"
PORTS: Final = {
    "server": "BACKHAUL_PUBLISHED_PORT",
    "server-tls": "BACKHAUL_PUBLISHED_TLS_PORT",
    "envoy": "BACKHAUL_PUBLISHED_ENVOY_PORT",
    "prometheus": "BACKHAUL_PUBLISHED_PROMETHEUS_PORT",
    "grafana": "BACKHAUL_PUBLISHED_GRAFANA_PORT",
}
"""The variables of the ports that are published, by the service."""

_PROFILES: Final = ("demo", "tls", "scale", "monitoring")
_ALL: Final = tuple(word for each in _PROFILES for word in ("--profile", each))


def compose_command() -> list[str]:
    """Compose as it is called here.

    Raises:
        NotHere: there is none.
    """
    if shutil.which("docker"):
        asked = subprocess.run(["docker", "compose", "version"], capture_output=True, check=False)
        if asked.returncode == 0:
            return ["docker", "compose"]
    need("docker-compose")
    return ["docker-compose"]


class Project:
    """The compose file brought up with this image, on ports that are free.

    Attributes:
        ports: where each service is published, by its name.
        environment: of compose and of clients outside.
    """

    def __init__(self, podman: Podman, image: str, prefix: str) -> None:
        # Without it podman makes a network that nothing can be published from.
        need("iptables")
        self.podman = podman
        self.image = image
        self.ports = {service: _free_port() for service in PORTS}
        self.environment = {**podman.environment, "BACKHAUL_IMAGE": image}
        self.environment |= {name: str(self.ports[service]) for service, name in PORTS.items()}
        self._name = prefix.replace("-", "")
        self._compose = [*compose_command(), "-f", str(FILE), "-p", self._name]

    def __call__(self, *words: str, timeout: float = 180) -> str:
        """The output of compose.

        Raises:
            Failed: it did not end with status 0.
        """
        return output_of([*self._compose, *words], self.environment, timeout)

    @contextmanager
    def prepared(self) -> Iterator[None]:
        """An engine that services can be brought up with; all of them are gone afterwards."""
        with self._engine(), self._health_checks():
            try:
                yield
            finally:
                self(*_ALL, "down", "--volumes", "--timeout", "5")

    def ping(self, token: str, where: str, *more: str) -> tuple[int, str]:
        """Status and output of ``backhaul ping`` outside."""
        done = subprocess.run(
            [sys.executable, "-m", "backhaul", "ping", where, *more],
            capture_output=True,
            text=True,
            check=False,
            env={**self.environment, "BACKHAUL_TOKEN": token},
        )
        return done.returncode, done.stdout + done.stderr

    def token(self) -> str:
        """The token that was made at the first start."""
        return self.client_file(TOKEN).strip()

    def client_file(self, path: str) -> str:
        """A file that is for clients."""
        return self("run", "--rm", "-T", "--entrypoint", "cat", "token", path)

    def containers(self, service: str) -> list[str]:
        """The ids of a service's containers."""
        return self(*_ALL, "ps", "--quiet", service).split()

    def container(self, service: str) -> str:
        """The id of the one container of a service."""
        (found,) = self.containers(service)
        return found

    def inspect(self, container: str, template: str) -> str:
        """A fact about a container."""
        return self.podman("inspect", "--format", template, container).strip()

    def until_healthy(self, service: str) -> float:
        """Wait until the service's containers are healthy; the seconds that it took."""
        found = self.containers(service)
        state = "{{.State.Health.Status}}"
        return until(
            lambda: all(self.inspect(each, state) == "healthy" for each in found),
            f"{service} is healthy",
        )

    def need_names(self) -> None:
        """Names of services are told by aardvark-dns, which is beside netavark.

        Raises:
            NotHere: it is not installed.
        """
        folders = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/local/libexec/podman")
        if not any((Path(each) / "aardvark-dns").exists() for each in folders):
            raise NotHere(
                "aardvark-dns missing; on Debian and Ubuntu: apt-get install aardvark-dns"
            )

    @contextmanager
    def _engine(self) -> Iterator[None]:
        """Podman's service, which speaks as docker's does."""
        path = self.podman.folder / "podman.sock"
        service = subprocess.Popen(
            ["podman", "system", "service", "--time", "0", f"unix://{path}"],
            env=self.podman.environment,
            cwd=self.podman.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(path.exists, "podman's service listens", 20)
            self.environment["DOCKER_HOST"] = f"unix://{path}"
            yield
        finally:
            service.terminate()
            service.wait(120)

    @contextmanager
    def _health_checks(self) -> Iterator[None]:
        """Without systemd nobody runs the containers' checks: here somebody does."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(1):
                label = f"label=com.docker.compose.project={self._name}"
                for each in self.podman.attempt("ps", "--quiet", "--filter", label).stdout.split():
                    self.podman.healthy(each)

        thread = threading.Thread(target=run)
        if not self.podman.systemd:
            thread.start()
        try:
            yield
        finally:
            ended.set()
            if thread.is_alive():
                thread.join()


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return int(free.getsockname()[1])
