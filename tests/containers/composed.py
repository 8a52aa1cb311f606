"""docker-compose.yml as it is, brought up by podman: first start, ports, demo, TLS, a killed server."""

from __future__ import annotations

import os
import shutil
import signal
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
from tests.containers.report import Report
from tests.containers.talking import CLIENTS, client

FILE: Final = CHECKOUT / "docker-compose.yml"
_TOKEN: Final = "/var/lib/backhaul/client/token"
_PROFILES: Final = ("--profile", "demo", "--profile", "tls")


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


def valid(report: Report) -> None:
    """The compose file, and the Dockerfile, by whatever here can check them."""
    checks = {
        "docker-compose.yml: compose config": [
            *_command_or_nothing(),
            "-f",
            str(FILE),
            "config",
            "--quiet",
        ],
        "docker-compose.yml: the schema": [
            "check-jsonschema",
            "--builtin-schema",
            "vendor.compose-spec",
            str(FILE),
        ],
        "Dockerfile: hadolint": ["hadolint", str(CHECKOUT / "server/Dockerfile")],
    }
    for what, command in checks.items():
        if shutil.which(command[0]) is None:
            report.skip(what, f"{command[0]} is not installed")
            continue
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        report.check(what, done.returncode == 0, (done.stdout + done.stderr).strip())


def _command_or_nothing() -> list[str]:
    try:
        return compose_command()
    except NotHere:
        return ["docker-compose"]


class Composed:
    """The project of the compose file, under a name of its own."""

    def __init__(self, podman: Podman, image: str, report: Report, prefix: str) -> None:
        self._podman = podman
        self._report = report
        self._compose = [*compose_command(), "-f", str(FILE), "-p", prefix.replace("-", "")]
        self._project = prefix.replace("-", "")
        self._ports = {"server": _free_port(), "server-tls": _free_port()}
        self._environment = {
            **podman.environment,
            "BACKHAUL_IMAGE": image,
            "BACKHAUL_PUBLISHED_PORT": str(self._ports["server"]),
            "BACKHAUL_PUBLISHED_TLS_PORT": str(self._ports["server-tls"]),
        }

    def run(self) -> None:
        """All of it."""
        # Without them podman makes a network that nothing can be published from, or without names.
        need("iptables")
        with self._engine(), self._health_checks():
            try:
                self._in_the_clear()
                self._with_tls()
            finally:
                self(*_PROFILES, "down", "--volumes", "--timeout", "5")

    def __call__(self, *words: str, timeout: float = 180) -> str:
        """The output of compose.

        Raises:
            Failed: it did not end with status 0.
        """
        return output_of([*self._compose, *words], self._environment, timeout)

    def _in_the_clear(self) -> None:
        report = self._report
        self("up", "--detach", "server")
        container = self._container("server")
        took = until(lambda: self._state(container) == "healthy", "the server is healthy")
        report.check("server: healthy", True, f"after {took:.1f} s")
        self._confined(container)
        self._published("server", container)
        token = self._token()
        self._files(container, token)
        shown = self("run", "--rm", "-T", "demo")
        report.check("demo: the main job against the server", shown.count(" ok ") == 4, "4 checks")
        where = f"127.0.0.1:{self._ports['server']}"
        report.equal("with the token, from outside", self._ping(token, where)[0], 0)
        status, said = self._ping("", where)
        report.check("without it", status == 1 and "UNAUTHENTICATED" in said, said.strip()[-80:])
        self._killed(container, token, where)
        self("stop", "server")
        report.equal("exit status after stop", self._inspect(container, "{{.State.ExitCode}}"), "0")

    def _with_tls(self) -> None:
        report = self._report
        self("--profile", "tls", "up", "--detach", "server-tls")
        container = self._container("server-tls")
        until(lambda: self._state(container) == "healthy", "the server with TLS is healthy")
        self._published("server-tls", container)
        where = f"127.0.0.1:{self._ports['server-tls']}"
        authority = self._podman.folder / "ca.pem"
        authority.write_text(
            self._from_token_service("cat", "/var/lib/backhaul/client/ca.pem"), encoding="utf-8"
        )
        token = self._token()
        report.equal(
            "by TLS, from outside",
            self._ping(token, f"grpcs://{where}", "--tls-ca", str(authority))[0],
            0,
        )
        status, said = self._ping(token, f"grpcs://{where}")
        report.check(
            "by TLS, without its certificate",
            status == 1 and "TLS_HANDSHAKE_FAILED" in said,
            said.strip()[-80:],
        )
        try:
            self._resolver()
        except NotHere as error:
            report.skip("demo-tls: the main job by TLS", error)
            return
        shown = self("--profile", "tls", "run", "--rm", "-T", "demo-tls")
        report.check("demo-tls: the main job by TLS", shown.count(" ok ") == 4, "4 checks")

    def _confined(self, container: str) -> None:
        """What compose asked for is what the engine was told."""
        wanted = {
            "{{.HostConfig.ReadonlyRootfs}}": "true",
            "{{.EffectiveCaps}}": "[]",
            "{{.HostConfig.Memory}}": str(4 << 30),
            "{{.HostConfig.NanoCpus}}": str(10**9),
            "{{.HostConfig.PidsLimit}}": "512",
            "{{.HostConfig.ShmSize}}": str(64 << 20),
            "{{.HostConfig.RestartPolicy.Name}}": "unless-stopped",
        }
        for template, value in wanted.items():
            name = template.strip("{}.").removeprefix("HostConfig.")
            self._report.equal(f"server: {name}", self._inspect(container, template), value)
        status = self._podman("exec", container, "grep", "NoNewPrivs", "/proc/1/status")
        self._report.equal("server: NoNewPrivs", status.split()[-1], "1")

    def _published(self, service: str, container: str) -> None:
        found = [line.split()[-1] for line in self._podman("port", container).splitlines()]
        self._report.equal(f"{service}: published at", found, [f"127.0.0.1:{self._ports[service]}"])

    def _files(self, container: str, token: str) -> None:
        """The server has the digest alone, and cannot write beside it."""
        report = self._report
        text = self._podman(
            "exec",
            container,
            "sh",
            "-c",
            "cat /var/lib/backhaul/server/*; ls -A /var/lib/backhaul/client",
        )
        lines = [line for line in text.splitlines() if line and not line.startswith("#")]
        digest = len(lines) == 1 and lines[0].startswith("compose:")
        report.check(
            "the server has the token's digest alone",
            digest and token not in text,
            f"{len(lines)} line",
        )
        mode = self._podman(
            "exec", container, "stat", "-c", "%a %u", "/var/lib/backhaul/server/tokens"
        ).strip()
        report.equal("mode and owner of the token file", mode, "600 10001")
        done = self._podman.attempt("exec", container, "touch", "/var/lib/backhaul/server/new")
        report.check(
            "the server cannot write to it", "Read-only" in done.stderr, done.stderr.strip()
        )
        self("up", "--detach", "token")
        report.check("another start makes no new token", self._token() == token)

    def _killed(self, container: str, token: str, where: str) -> None:
        """SIGKILL from outside: the engine starts it again, the client goes on."""
        report = self._report
        pid = int(self._inspect(container, "{{.State.Pid}}"))
        command = [sys.executable, str(CLIENTS / "recovering.py"), where]
        with client(command, {**self._environment, "BACKHAUL_TOKEN": token}) as asking:
            report.equal("a client outside has computed", asking.said(), "before 6084")
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError as error:
                report.skip("a killed server is started again", error)
                return
            until(
                lambda: self._inspect(container, "{{.State.Pid}}") not in ("0", str(pid)),
                "the engine starts the server again",
            )
            report.equal("after SIGKILL and a new start the tape is", asking.told(), "recovered")

    def _ping(self, token: str, where: str, *more: str) -> tuple[int, str]:
        done = subprocess.run(
            [sys.executable, "-m", "backhaul", "ping", where, *more],
            capture_output=True,
            text=True,
            check=False,
            env={**self._environment, "BACKHAUL_TOKEN": token},
        )
        return done.returncode, done.stdout + done.stderr

    def _token(self) -> str:
        return self._from_token_service("cat", _TOKEN).strip()

    def _from_token_service(self, entry: str, *words: str) -> str:
        return self("run", "--rm", "-T", "--entrypoint", entry, "token", *words)

    def _container(self, service: str) -> str:
        """The id of a service's container."""
        return self(*_PROFILES, "ps", "--quiet", service).strip()

    def _inspect(self, container: str, template: str) -> str:
        return self._podman("inspect", "--format", template, container).strip()

    def _state(self, container: str) -> str:
        return self._inspect(container, "{{.State.Health.Status}}")

    def _resolver(self) -> None:
        """Names of services are told by aardvark-dns, which is beside netavark."""
        folders = ("/usr/lib/podman", "/usr/libexec/podman", "/usr/local/libexec/podman")
        if not any((Path(each) / "aardvark-dns").exists() for each in folders):
            raise NotHere(
                "aardvark-dns missing; on Debian and Ubuntu: apt-get install aardvark-dns"
            )

    @contextmanager
    def _engine(self) -> Iterator[None]:
        """Podman's service, which speaks as docker's does."""
        path = self._podman.folder / "podman.sock"
        service = subprocess.Popen(
            ["podman", "system", "service", "--time", "0", f"unix://{path}"],
            env=self._podman.environment,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        try:
            until(path.exists, "podman's service listens", 20)
            self._environment["DOCKER_HOST"] = f"unix://{path}"
            yield
        finally:
            service.terminate()
            service.wait(20)

    @contextmanager
    def _health_checks(self) -> Iterator[None]:
        """Without systemd nobody runs the containers' checks: here somebody does."""
        ended = threading.Event()

        def run() -> None:
            while not ended.wait(1):
                label = f"label=com.docker.compose.project={self._project}"
                for each in self._podman.attempt("ps", "--quiet", "--filter", label).stdout.split():
                    self._podman.healthy(each)

        thread = threading.Thread(target=run)
        if not self._podman.systemd:
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
