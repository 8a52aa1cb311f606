"""What the compose file puts around the server: further ones behind Envoy, Prometheus, Grafana."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final
from urllib.error import URLError
from urllib.parse import urlencode
from urllib.request import urlopen

from tests.containers.podman import until
from tests.containers.project import Project
from tests.containers.report import Report
from tests.containers.stand_in import ENVOY, GRAFANA, PROMETHEUS, Program, image_of
from tests.containers.talking import CLIENTS, client

_SESSIONS: Final = 24
_READ_METRICS: Final = """\
import urllib.request
print(urllib.request.urlopen('http://127.0.0.1:9464/metrics', timeout=10).read().decode())
"""


class Around:
    """The profiles ``scale`` and ``monitoring``, each check a method."""

    def __init__(self, project: Project, report: Report, pull: bool) -> None:
        self._project = project
        self._report = report
        self._pull = pull
        self._made: list[str] = []

    @contextmanager
    def images(self) -> Iterator[None]:
        """Images that were made here are gone afterwards."""
        try:
            yield
        finally:
            for each in self._made:
                self._project.podman.attempt("rmi", each)

    def scale(self) -> None:
        """Two servers behind Envoy, with the configuration of deploy/envoy."""
        project, report = self._project, self._report
        project.need_names()
        self._image(ENVOY)
        project("--profile", "scale", "up", "--detach", "envoy")
        took = project.until_healthy("envoy")
        report.check("envoy: healthy", True, f"after {took:.1f} s")
        shown = project("--profile", "scale", "run", "--rm", "-T", "demo-scale")
        report.check("demo-scale: the main job through Envoy", shown.count(" ok ") == 4, "4 checks")
        where = f"127.0.0.1:{project.ports['envoy']}"
        command = [sys.executable, str(CLIENTS / "sessions.py"), where, str(_SESSIONS)]
        environment = {**project.environment, "BACKHAUL_TOKEN": project.token()}
        with client(command, environment) as asking:
            report.equal("sessions through Envoy", asking.said(), f"{_SESSIONS} right")
            servers = [*project.containers("server"), *project.containers("replica")]
            held = [self._sessions(each) for each in servers]
            whole = len(held) == 2 and sum(held) == _SESSIONS and min(held) > 0
            report.check("each in one of the two servers, and both have some", whole, held)
            report.equal("told to end, they are", asking.told(), "closed")

    def _sessions(self, container: str) -> int:
        text = self._project.podman("exec", container, "python", "-c", _READ_METRICS)
        found = re.search(r"^backhaul_sessions_open (\S+)$", text, re.MULTILINE)
        return int(float(found[1])) if found else -1

    def prometheus(self) -> None:
        """Prometheus with the configuration of deploy/monitoring finds every server that runs."""
        project, report = self._project, self._report
        project.need_names()
        self._image(PROMETHEUS)
        project("--profile", "monitoring", "up", "--detach", "prometheus")
        took = project.until_healthy("prometheus")
        report.check("prometheus: healthy", True, f"after {took:.1f} s")
        servers = len(project.containers("server")) + len(project.containers("replica"))
        until(lambda: self._up() == ["1"] * servers, f"{servers} servers are scraped", 90)
        report.check("servers that it scrapes", True, servers)
        limits = {each["metric"]["job"] for each in self._query("backhaul_memory_limit_bytes")}
        report.equal("what they export has the job of the alerts", limits, {"backhaul"})
        (group,) = self._asked("rules")["groups"]
        rules = [(each["name"], each["health"] in ("ok", "unknown")) for each in group["rules"]]
        report.all_of("alerts that it has loaded", rules)

    def _up(self) -> list[str]:
        return [each["value"][1] for each in self._query('up{job="backhaul"}')]

    def _query(self, expression: str) -> list[Any]:
        found: list[Any] = self._asked(f"query?{urlencode({'query': expression})}")["result"]
        return found

    def _asked(self, path: str) -> Any:
        where = f"http://127.0.0.1:{self._project.ports['prometheus']}/api/v1/{path}"
        with urlopen(where, timeout=60) as answer:
            return json.load(answer)["data"]

    def grafana(self) -> None:
        """Grafana shows the dashboard to whoever asks."""
        project, report = self._project, self._report
        self._image(GRAFANA)
        self._image(PROMETHEUS)
        project("--profile", "monitoring", "up", "--detach", "grafana")
        took = until(self._dashboard, "Grafana has the dashboard", 120)
        report.check("grafana: has the dashboard", True, f"after {took:.1f} s")

    def _dashboard(self) -> bool:
        where = f"http://127.0.0.1:{self._project.ports['grafana']}/api/dashboards/uid/backhaul"
        try:
            with urlopen(where, timeout=60) as answer:
                return bool(json.load(answer)["dashboard"]["panels"])
        except (URLError, ConnectionError):
            return False

    def _image(self, program: Program) -> None:
        """Find the image of a service, once."""
        project = self._project
        if program.variable in project.environment:
            return
        image, told = image_of(program, project.podman, project.image, self._pull)
        project.environment[program.variable] = image
        if image != program.image:
            self._made.append(image)
        print(f"  image   {program.name}: {told}", flush=True)
