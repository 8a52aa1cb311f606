"""The servers of docker-compose.yml as they are: first start, ports, demo, TLS, a killed server."""

from __future__ import annotations

import os
import signal
import sys

from tests.containers.podman import NotHere, until
from tests.containers.project import Project
from tests.containers.report import Report
from tests.containers.talking import CLIENTS, client


class Composed:
    """The servers of the compose file, each check a method."""

    def __init__(self, project: Project, report: Report) -> None:
        self._project = project
        self._podman = project.podman
        self._report = report

    def in_the_clear(self) -> None:
        """The server that is published in the clear: confined, asking for tokens, killed and stopped."""
        project = self._project
        report = self._report
        self._project("up", "--detach", "server")
        container = project.container("server")
        took = project.until_healthy("server")
        report.check("server: healthy", True, f"after {took:.1f} s")
        self._confined(container)
        self._published("server", container)
        token = self._project.token()
        self._files(container, token)
        shown = self._project("run", "--rm", "-T", "demo")
        report.check("demo: the main job against the server", shown.count(" ok ") == 4, "4 checks")
        where = f"127.0.0.1:{self._project.ports['server']}"
        report.equal("with the token, from outside", project.ping(token, where)[0], 0)
        status, said = project.ping("", where)
        report.check("without it", status == 1 and "UNAUTHENTICATED" in said, said.strip()[-80:])
        self._killed(container, token, where)
        self._project("stop", "server")
        report.equal(
            "exit status after stop", self._project.inspect(container, "{{.State.ExitCode}}"), "0"
        )

    def with_tls(self) -> None:
        """The one with TLS."""
        project = self._project
        report = self._report
        self._project("--profile", "tls", "up", "--detach", "server-tls")
        container = project.container("server-tls")
        project.until_healthy("server-tls")
        self._published("server-tls", container)
        where = f"127.0.0.1:{self._project.ports['server-tls']}"
        authority = self._podman.folder / "ca.pem"
        authority.write_text(
            project.client_file("/var/lib/backhaul/client/ca.pem"), encoding="utf-8"
        )
        token = self._project.token()
        report.equal(
            "by TLS, from outside",
            project.ping(token, f"grpcs://{where}", "--tls-ca", str(authority))[0],
            0,
        )
        status, said = project.ping(token, f"grpcs://{where}")
        report.check(
            "by TLS, without its certificate",
            status == 1 and "TLS_HANDSHAKE_FAILED" in said,
            said.strip()[-80:],
        )
        try:
            project.need_names()
        except NotHere as error:
            report.skip("demo-tls: the main job by TLS", error)
            return
        shown = self._project("--profile", "tls", "run", "--rm", "-T", "demo-tls")
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
            self._report.equal(f"server: {name}", self._project.inspect(container, template), value)
        status = self._podman("exec", container, "grep", "NoNewPrivs", "/proc/1/status")
        self._report.equal("server: NoNewPrivs", status.split()[-1], "1")

    def _published(self, service: str, container: str) -> None:
        found = [line.split()[-1] for line in self._podman("port", container).splitlines()]
        self._report.equal(
            f"{service}: published at", found, [f"127.0.0.1:{self._project.ports[service]}"]
        )

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
        self._project("up", "--detach", "token")
        report.check("another start makes no new token", self._project.token() == token)

    def _killed(self, container: str, token: str, where: str) -> None:
        """SIGKILL from outside: the engine starts it again, the client goes on."""
        report = self._report
        pid = int(self._project.inspect(container, "{{.State.Pid}}"))
        command = [sys.executable, str(CLIENTS / "recovering.py"), where]
        with client(command, {**self._project.environment, "BACKHAUL_TOKEN": token}) as asking:
            report.equal("a client outside has computed", asking.said(), "before 6084")
            try:
                os.kill(pid, signal.SIGKILL)
            except PermissionError as error:
                report.skip("a killed server is started again", error)
                return
            until(
                lambda: self._project.inspect(container, "{{.State.Pid}}") not in ("0", str(pid)),
                "the engine starts the server again",
            )
            report.equal("after SIGKILL and a new start the tape is", asking.told(), "recovered")
