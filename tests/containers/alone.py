"""Checks of the image by itself: what it holds, and a server of it as confined as compose makes it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from typing import Any, Final

from tests.containers.building import CHECKOUT
from tests.containers.podman import Podman, until
from tests.containers.report import Report
from tests.containers.talking import CLIENTS, Client, client

MB: Final = 10**6
_LARGEST: Final = 400 * MB
_MEMORY: Final = 1 << 30
_CONFINED: Final = (
    "--read-only",
    "--tmpfs=/tmp:size=64m",
    "--cap-drop=all",
    "--security-opt=no-new-privileges",
    "--pids-limit=512",
)
_LIMIT_FILES: Final = "/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"
_TAKES_A_GIGABYTE: Final = "print(len(bytearray(b'x') * (1 << 30)))"


class Alone:
    """The checks of one image, each a method; containers are named after the prefix.

    A container that does nothing holds the network, which has the loopback alone: servers and clients
    come and go in it.
    """

    def __init__(self, podman: Podman, image: str, base: str, report: Report, prefix: str) -> None:
        self._podman = podman
        self._image = image
        self._base = base
        self._report = report
        self._net = f"{prefix}-net"
        self._name = f"{prefix}-server"
        self._client = f"{prefix}-client"

    def contents(self) -> None:
        """What the image holds, and says of itself."""
        report, podman = self._report, self._podman
        found: dict[str, Any] = json.loads(podman("image", "inspect", self._image))[0]
        size = found["Size"]
        on = (
            f", {(size - self._size(self._base)) / MB:.0f} MB of them on the base"
            if self._base
            else ""
        )
        report.check("less than 400 MB", size < _LARGEST, f"{size / MB:.0f} MB{on}")
        config = found["Config"]
        report.equal("runs as", config["User"], "10001:10001")
        report.equal("the server is the first process", config["Entrypoint"], ["backhaul"])
        report.equal("stops by", config.get("StopSignal"), "SIGTERM")
        check = found.get("Healthcheck", config.get("Healthcheck")) or {}
        report.check(
            "has a health check", "ping --health" in str(check.get("Test")), check.get("Test")
        )
        labels = found["Labels"] or {}
        wanted = ("title", "description", "licenses", "version", "revision")
        named = [(key, f"org.opencontainers.image.{key}") for key in wanted]
        report.all_of(
            "OCI labels", ((key, labels.get(name, "unknown") != "unknown") for key, name in named)
        )
        self._bill()
        done = self._once("python", "-m", "pip", "--version")
        report.check("nothing to install by", done[0] != 0, done[1].splitlines()[-1])

    def _size(self, image: str) -> int:
        return int(json.loads(self._podman("image", "inspect", image))[0]["Size"])

    def _bill(self) -> None:
        """The bill of materials in the image, against the lock."""
        bill = json.loads(self._once("cat", "/opt/backhaul/sbom.cdx.json")[1])
        listed = {
            (each["name"], each["version"])
            for each in bill["components"]
            if ":pypi/" in each["purl"]
        }
        system = [each["name"] for each in bill["components"] if ":deb/" in each["purl"]]
        lock = (CHECKOUT / "requirements-dev.lock").read_text(encoding="utf-8")
        locked = set(re.findall(r"^([a-z0-9-]+)==([^ ;\n]+)", lock, re.MULTILINE))
        self._report.all_of(
            "Python packages in the versions of the lock",
            ((f"{name} {version}", (name, version) in locked) for name, version in sorted(listed)),
        )
        self._report.check(
            "Debian packages in the bill of materials", "libc6" in system, len(system)
        )

    def _once(self, *words: str) -> tuple[int, str]:
        """A command in a container of its own: its status and output."""
        entry, *rest = words
        done = self._podman.attempt(
            "run", "--rm", "--network=none", f"--entrypoint={entry}", *_CONFINED, self._image, *rest
        )
        return done.returncode, (done.stdout or done.stderr).strip()

    def demonstrates(self) -> None:
        """The main job by the image alone, on a server of its own."""
        status, said = self._once("backhaul", "demo")
        right = status == 0 and said.count(" ok ") == 4
        self._report.check(
            "the main job, with its own server", right, "4 checks" if right else said
        )

    def refuses(self) -> None:
        """Started with nothing said, it does not let anybody in."""
        done = self._podman.attempt("run", "--rm", "--network=none", self._image)
        said = "INSECURE_ADDRESS" in done.stderr
        self._report.check(
            "no server in the clear unless it is asked for",
            done.returncode == 1 and said,
            "INSECURE_ADDRESS",
        )

    def confined(self) -> None:
        """A server with a read-only root, without capabilities, in bounds."""
        report, podman = self._report, self._podman
        with self._network(), self._server(f"--memory={_MEMORY}", "--shm-size=64m"):
            took = self._until_healthy()
            report.check("healthy by its own check", True, f"after {took:.1f} s")
            status = dict(
                line.split(":\t", 1)
                for line in self._inside("cat", "/proc/1/status").splitlines()
                if ":\t" in line
            )
            report.equal("uid of the process", status["Uid"].split(), ["10001"] * 4)
            report.equal("gid of the process", status["Gid"].split(), ["10001"] * 4)
            for kind in ("CapPrm", "CapEff", "CapBnd"):
                report.equal(f"capabilities, {kind}", int(status[kind], 16), 0)
            report.equal("no new privileges", status["NoNewPrivs"].strip(), "1")
            for path in ("/", "/opt/backhaul", "/var/lib/backhaul"):
                done = podman.attempt("exec", "--user=0", self._name, "touch", f"{path}/new")
                report.check(
                    f"nothing can be written to {path}",
                    "Read-only" in done.stderr,
                    done.stderr.strip(),
                )
            report.equal(
                "/tmp can be written",
                self._inside("sh", "-c", "echo yes >/tmp/new; cat /tmp/new").strip(),
                "yes",
            )
            self._memory_limit()
            self._demo()
            self._stops()

    def _memory_limit(self) -> None:
        read = f"cat {' '.join(_LIMIT_FILES)} 2>/dev/null || :"
        self._report.equal(
            "memory limit of its control group",
            self._inside("sh", "-c", read).split(),
            [str(_MEMORY)],
        )
        metrics = self._inside("python", "-c", _READ_METRICS)
        found = re.search(r"^backhaul_memory_limit_bytes (\S+)$", metrics, re.MULTILINE)
        share = float(found[1]) / _MEMORY if found else 0.0
        self._report.check(
            "the server divides that limit",
            abs(share - 0.8) < 1e-6,
            f"{share:.2f} of it for sessions",
        )
        done = self._podman.attempt(
            "run",
            "--rm",
            "--network=none",
            "--memory=128m",
            "--entrypoint=python",
            self._image,
            "-c",
            _TAKES_A_GIGABYTE,
        )
        self._report.equal(
            "status of what takes more than its limit (137: killed)", done.returncode, 137
        )

    def _demo(self) -> None:
        done = self._podman.attempt(
            *self._beside("backhaul"), self._image, "demo", "--target", "127.0.0.1:50051"
        )
        right = done.returncode == 0 and done.stdout.count(" ok ") == 4
        self._report.check(
            "the main job from another container",
            right,
            "4 checks" if right else done.stdout + done.stderr,
        )

    def drains(self) -> None:
        """SIGTERM while a call is running."""
        report, podman = self._report, self._podman
        with self._network(), self._server():
            self._until_healthy()
            with self._talking("drained.py") as asking:
                report.equal("a call is", asking.said(), "running")
                podman("kill", "--signal=TERM", self._name)
                until(lambda: '"draining"' in podman.log(self._name), "the log tells of draining")
                answered = "answered 24000 after, a new session: DRAINING"
                report.equal("the call that was running", asking.told(), answered)
            self._ended()

    def recovers(self) -> None:
        """SIGKILL, and the server started again: a client with ``recover=True`` goes on."""
        report, podman = self._report, self._podman
        with self._network(), self._server():
            self._until_healthy()
            with self._talking("recovering.py") as asking:
                report.equal("the client has computed", asking.said(), "before 6084")
                podman("kill", "--signal=KILL", self._name)
                report.equal("status of the server", podman("wait", self._name).strip(), "137")
                podman("start", self._name)
                self._until_healthy()
                report.equal(
                    "after SIGKILL and a new start the tape is", asking.told(), "recovered"
                )
            self._stops()

    @contextmanager
    def _talking(self, program: str) -> Iterator[Client]:
        """A program of the folder clients, in the image."""
        words = self._beside("python", f"--volume={CLIENTS}:/clients:ro")
        command = ["podman", *words, self._image, f"/clients/{program}"]
        try:
            with client(command, self._podman.environment) as asking:
                yield asking
        finally:
            self._podman.attempt("rm", "--force", "--time", "0", self._client)

    def _stops(self) -> None:
        self._podman("kill", "--signal=TERM", self._name)
        self._ended()

    def _ended(self) -> None:
        self._report.equal(
            "exit status after SIGTERM", self._podman("wait", self._name, timeout=40).strip(), "0"
        )
        log = self._podman.log(self._name)
        lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
        told = [
            each["message"]
            for each in lines
            if each["message"] in ("stopping", "draining", "stopped")
        ]
        self._report.equal("the log tells", told[-3:], ["stopping", "draining", "stopped"])
        self._report.equal("calls cut off", lines[-1].get("cut_off"), 0)

    def _network(self) -> AbstractContextManager[str]:
        holds = ("--network=none", "--no-healthcheck", "--entrypoint=sleep")
        return self._podman.running(self._net, *holds, self._image, "infinity")

    def _server(self, *more: str) -> AbstractContextManager[str]:
        words = [f"--network=container:{self._net}", *_CONFINED, *more, self._image, "serve"]
        metrics = ("--metrics-port=9464", "--metrics-host=127.0.0.1")
        return self._podman.running(self._name, *words, "--insecure", *metrics)

    def _beside(self, entry: str, *more: str) -> list[str]:
        """The words of ``podman run`` for a client in the server's network."""
        where = f"--network=container:{self._net}"
        words = ["run", "--rm", "--interactive", f"--name={self._client}", where]
        return [*words, *_CONFINED, "--no-healthcheck", f"--entrypoint={entry}", *more]

    def _until_healthy(self) -> float:
        return until(lambda: self._podman.healthy(self._name), "the server is healthy")

    def _inside(self, *words: str) -> str:
        return self._podman("exec", self._name, *words)


_READ_METRICS: Final = """\
import urllib.request
print(urllib.request.urlopen('http://127.0.0.1:9464/metrics', timeout=120).read().decode())
"""
