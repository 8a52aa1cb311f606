"""deploy/monitoring: what it asks for is what a server really exports."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from queue import Queue
from urllib.request import urlopen

import grpc
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families
from tests.deploy.yaml_text import read
from tests.e2e.server_process import serving

import backhaul as bh
from backhaul_proto.errors import REASONS
from backhaul_proto.messages import SERVICE
from backhaul_server.config import ServerSettings

FOLDER = Path(__file__).parents[2] / "deploy" / "monitoring"
OPERATORS = {"or", "unless", "offset"}
OF_PROMETHEUS = {"up": {"job", "instance"}}
"""What Prometheus itself adds of each target."""

Labels = Mapping[str, set[str]]


@pytest.fixture(scope="module")
def exported() -> Iterator[Labels]:
    """The samples of a server that has had work of each kind, each with its labels."""
    with serving("--metrics-port", "0") as server:
        assert server.process.stdout is not None
        line = server.process.stdout.readline()
        assert line.startswith("metrics on http://"), line
        work(server.target)
        with one_call_inside(server.target):
            until = time.monotonic() + 120
            while "backhaul_calls_in_flight" not in (found := scrape(line.split()[-1])):
                assert time.monotonic() < until
        yield found


def work(target: str) -> None:
    with bh.connect(target, timeout=60) as connection, bh.Tape(connection) as tape:
        x = tape.leaf_with_tangent(np.ones(3), np.ones(3))
        loss = bh.sum(x * x * x)
        assert tape.pullback(loss)[x].tolist() == [3.0, 3.0, 3.0]
        assert tape.hvp(loss).hvp[x].tolist() == [6.0, 6.0, 6.0]


@contextmanager
def one_call_inside(target: str) -> Iterator[None]:
    """A stream whose client sends nothing yet: calls in the server are counted while there are any."""
    messages: Queue[bytes | None] = Queue()
    with grpc.insecure_channel(target.removeprefix("grpc://")) as channel:
        method: grpc.StreamStreamMultiCallable[bytes, bytes] = channel.stream_stream(
            f"/{SERVICE}/ExecuteStream"
        )
        call = method(iter(messages.get, None))
        try:
            yield
        finally:
            call.cancel()
            messages.put(None)


def scrape(url: str) -> Labels:
    with urlopen(url, timeout=30) as answer:
        text = answer.read().decode()
    found: dict[str, set[str]] = {name: set(labels) for name, labels in OF_PROMETHEUS.items()}
    for family in text_string_to_metric_families(text):
        for sample in family.samples:
            found.setdefault(sample.name, {"job", "instance"}).update(sample.labels)
    return found


def alerts() -> dict[str, dict[str, object]]:
    (group,) = read(FOLDER / "alerts.yml")["groups"]
    return {rule["alert"]: rule for rule in group["rules"]}


def dashboard() -> dict[str, object]:
    loaded: dict[str, object] = json.loads((FOLDER / "grafana" / "backhaul.json").read_text())
    return loaded


def targets() -> Iterator[tuple[str, str]]:
    """Each question of the dashboard, and how its answers are named."""
    panels = dashboard()["panels"]
    assert isinstance(panels, list)
    for panel in panels:
        for target in panel["targets"]:
            yield target["expr"], target["legendFormat"]


EXPRESSIONS = [*(str(rule["expr"]) for rule in alerts().values()), *(each for each, _ in targets())]


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_each_metric_and_label_exists(exported: Labels, expression: str) -> None:
    names = metrics(expression)
    assert names, expression
    assert names - set(exported) == set()
    for name, labels in matched(expression):
        assert labels - exported[name] == set(), name
    known = set().union(*(exported[name] for name in names))
    assert grouped(expression) - known == set()


def test_a_metric_that_is_not_there_is_found_out(exported: Labels) -> None:
    expression = 'sum by (ops) (rate(backhaul_step_total{cod="OK"}[5m])) > 0.5 * time()'
    assert metrics(expression) == {"backhaul_step_total"}
    assert "backhaul_step_total" not in exported
    assert list(matched(expression)) == [("backhaul_step_total", {"cod"})]
    assert grouped(expression) == {"ops"}


def metrics(expression: str) -> set[str]:
    """The names that are neither functions nor operators nor labels."""
    text = re.sub(r'"[^"]*"', "", expression)
    text = re.sub(r"\bby *\([^)]*\)|\{[^}]*\}|\[[^\]]*\]", "", text)
    return set(re.findall(r"\b[a-zA-Z_]\w*\b(?! *\()", text)) - OPERATORS


def matched(expression: str) -> Iterator[tuple[str, set[str]]]:
    """Each metric with a selection, and the labels that this selects by."""
    for name, inner in re.findall(r"(\w+)\{([^}]*)\}", expression):
        yield name, set(re.findall(r"(\w+) *(?:=~|!~|!=|=)", re.sub(r'"[^"]*"', "", inner)))


def grouped(expression: str) -> set[str]:
    """The labels that are summed by."""
    lists = re.findall(r"\bby *\(([^)]*)\)", expression)
    return {label.strip() for each in lists for label in each.split(",")}


@pytest.mark.parametrize("expression", EXPRESSIONS, ids=str)
def test_reasons_are_those_of_the_protocol(expression: str) -> None:
    assert set(re.findall(r'reason="(\w+)"', expression)) <= set(REASONS)


def test_alerts_say_what_to_do() -> None:
    assert len(alerts()) == 8
    for name, rule in alerts().items():
        annotations, labels = rule["annotations"], rule["labels"]
        assert isinstance(annotations, dict)
        assert isinstance(labels, dict)
        assert set(annotations) == {"summary", "description"}, name
        assert labels["severity"] in {"critical", "warning", "info"}, name


def test_options_that_alerts_name_exist() -> None:
    named = set(re.findall(r"--([a-z-]+)", (FOLDER / "alerts.yml").read_text(encoding="utf-8")))
    assert {"rss-limit", "lanes"} <= named
    assert named <= {each.replace("_", "-") for each in ServerSettings.model_fields}


def test_answers_are_named_by_labels_that_they_have(exported: Labels) -> None:
    for expression, legend in targets():
        shown = set(re.findall(r"\{\{(\w+)\}\}", legend))
        has = grouped(expression) or set().union(*(exported[n] for n in metrics(expression)))
        assert shown <= has, expression


def test_panels_do_not_overlap_and_leave_no_holes() -> None:
    panels = dashboard()["panels"]
    assert isinstance(panels, list)
    assert len({panel["id"] for panel in panels}) == len(panels)
    cells = [
        (x, y)
        for panel in panels
        for at in [panel["gridPos"]]
        for x in range(at["x"], at["x"] + at["w"])
        for y in range(at["y"], at["y"] + at["h"])
    ]
    height = 1 + max(y for _, y in cells)
    assert sorted(cells) == [(x, y) for x in range(24) for y in range(height)]


def test_prometheus_reads_the_rules_and_scrapes_the_job_that_they_ask_about() -> None:
    config = read(FOLDER / "prometheus.yml")
    assert config["rule_files"] == ["alerts.yml"]
    (job,) = config["scrape_configs"]
    asked = {job for each in EXPRESSIONS for job in re.findall(r'job="(\w+)"', each)}
    assert asked == {job["job_name"]}


def test_grafana_finds_source_and_dashboard() -> None:
    provisioning = FOLDER / "grafana" / "provisioning"
    (source,) = read(provisioning / "datasources" / "prometheus.yml")["datasources"]
    assert (source["type"], source["url"]) == ("prometheus", "http://prometheus:9090")
    (provider,) = read(provisioning / "dashboards" / "backhaul.yml")["providers"]
    assert (provider["type"], provider["options"]) == (
        "file",
        {"path": "/var/lib/grafana/dashboards"},
    )


@pytest.mark.skipif(shutil.which("promtool") is None, reason="no promtool on the PATH")
def test_promtool_takes_them_and_alerts_fire_when_they_should() -> None:
    cases = str(Path(__file__).with_name("alerts_test.yml"))
    for command in (["check", "config", str(FOLDER / "prometheus.yml")], ["test", "rules", cases]):
        done = subprocess.run(
            ["promtool", *command], capture_output=True, text=True, timeout=60, check=False
        )
        assert done.returncode == 0, done.stdout + done.stderr
