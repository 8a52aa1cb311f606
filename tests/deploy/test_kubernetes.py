"""deploy/kubernetes: its parts fit each other, the server's settings, and a server that runs with them."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.access.authority import Authority
from tests.deploy.yaml_text import read
from tests.e2e.server_process import ServerProcess, serving
from typer.testing import CliRunner

import backhaul as bh
from backhaul.cli import app
from backhaul_proto._version import __version__
from backhaul_proto.tokens import line_of, new_token
from backhaul_server.config import ServerSettings
from backhaul_server.effective import load

FOLDER = Path(__file__).parents[2] / "deploy" / "kubernetes"
NAME = {"app.kubernetes.io/name": "backhaul"}


@pytest.fixture(autouse=True)
def bare_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in [each for each in os.environ if each.startswith("BACKHAUL_")]:
        monkeypatch.delenv(name)


@pytest.fixture
def settings() -> ServerSettings:
    return load({}, FOLDER / "backhaul.toml").settings


def resource(name: str) -> Any:
    return read(FOLDER / f"{name}.yaml")


def pod() -> Any:
    return resource("deployment")["spec"]["template"]["spec"]


def container() -> Any:
    (only,) = pod()["containers"]
    return only


def named_ports() -> dict[str, int]:
    return {port["name"]: port["containerPort"] for port in container()["ports"]}


# ---------------------------------------------------------------- parts fit each other


def test_every_file_is_a_resource_of_the_base() -> None:
    listed = read(FOLDER / "kustomization.yaml")["resources"]
    there = {path.name for path in FOLDER.glob("*.yaml")} - {"kustomization.yaml"}
    assert sorted(listed) == sorted(there)
    kinds = {read(FOLDER / name)["kind"] for name in listed}
    assert kinds == {
        "Namespace", "Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy"
    }  # fmt: skip


def test_selectors_select_the_pods() -> None:
    spec = resource("deployment")["spec"]
    assert spec["template"]["metadata"]["labels"] == NAME
    assert spec["selector"]["matchLabels"] == NAME
    assert resource("service")["spec"]["selector"] == NAME
    assert resource("service-headless")["spec"]["selector"] == NAME
    assert resource("poddisruptionbudget")["spec"]["selector"]["matchLabels"] == NAME
    assert resource("networkpolicy")["spec"]["podSelector"]["matchLabels"] == NAME
    (spread,) = spec["template"]["spec"]["topologySpreadConstraints"]
    assert spread["labelSelector"]["matchLabels"] == NAME


def test_services_and_the_policy_name_ports_of_the_container() -> None:
    ports = named_ports()
    for name in ("service", "service-headless"):
        for port in resource(name)["spec"]["ports"]:
            assert port["port"] == ports[port["targetPort"]]
    calls, metrics = resource("networkpolicy")["spec"]["ingress"]
    assert [calls["ports"], metrics["ports"]] == [[{"port": "grpc"}], [{"port": "metrics"}]]
    assert {"grpc", "metrics"} <= set(ports)


def test_the_policy_lets_nobody_in_by_default_and_nothing_out() -> None:
    spec = resource("networkpolicy")["spec"]
    assert spec["policyTypes"] == ["Ingress", "Egress"]
    assert spec["egress"] == []
    assert all(each["from"] and {} not in each["from"] for each in spec["ingress"])


def test_one_service_keeps_a_client_with_its_server_and_one_tells_all_servers() -> None:
    assert resource("service")["spec"]["sessionAffinity"] == "ClientIP"
    assert resource("service-headless")["spec"]["clusterIP"] == "None"


def test_nodes_can_be_emptied_one_server_at_a_time() -> None:
    deployment = resource("deployment")["spec"]
    allowed = resource("poddisruptionbudget")["spec"]["maxUnavailable"]
    assert 1 <= allowed < deployment["replicas"]
    assert deployment["strategy"]["rollingUpdate"] == {"maxSurge": 1, "maxUnavailable": 0}


def test_what_is_mounted_is_made_by_the_base() -> None:
    base = read(FOLDER / "kustomization.yaml")
    made = {each["name"]: each for each in (*base["configMapGenerator"], *base["secretGenerator"])}
    volumes = {volume["name"]: volume for volume in pod()["volumes"]}
    mounted = {mount["name"] for mount in container()["volumeMounts"]}
    assert mounted == set(volumes)
    secrets = {v["secret"]["secretName"] for v in volumes.values() if "secret" in v}
    maps = {v["configMap"]["name"] for v in volumes.values() if "configMap" in v}
    assert secrets == {each["name"] for each in base["secretGenerator"]}
    assert maps == {each["name"] for each in base["configMapGenerator"]}
    assert all(made[name]["options"] == {"disableNameSuffixHash": True} for name in secrets)
    assert not any("subPath" in mount for mount in container()["volumeMounts"])
    modes = {v["secret"]["defaultMode"] for v in volumes.values() if "secret" in v}
    assert modes == {0o440}


def test_no_secret_is_part_of_the_project() -> None:
    ignored = (FOLDER / "secrets" / ".gitignore").read_text(encoding="utf-8").splitlines()
    assert ignored[-2:] == ["*", "!.gitignore"]


# ---------------------------------------------------------------- they fit the server


def test_ports_are_those_of_the_settings(settings: ServerSettings) -> None:
    assert named_ports() == {
        "grpc": settings.port,
        "health": settings.health_port,
        "metrics": settings.metrics_port,
    }
    assert settings.port == ServerSettings.model_fields["port"].default
    assert settings.host == "0.0.0.0"
    for probe in ("startupProbe", "readinessProbe", "livenessProbe"):
        assert container()[probe]["grpc"] == {"port": settings.health_port}


def test_files_of_the_settings_are_mounted(settings: ServerSettings) -> None:
    base = read(FOLDER / "kustomization.yaml")
    keys = {
        each["name"]: {Path(file).name for file in each["files"]}
        for each in (*base["secretGenerator"], *base["configMapGenerator"])
    }
    sources = {
        volume["name"]: volume.get("secret", {}).get("secretName")
        or volume.get("configMap", {}).get("name")
        for volume in pod()["volumes"]
    }
    there = {
        Path(mount["mountPath"]) / key
        for mount in container()["volumeMounts"]
        for key in keys.get(sources[mount["name"]], ())
    }
    command = container()["command"]
    config = Path(command[command.index("--config") + 1])
    assert there == {config, settings.tls_cert, settings.tls_key, settings.token_file}


def test_callers_must_be_known(settings: ServerSettings) -> None:
    assert settings.tls_cert
    assert settings.token_file
    assert not settings.insecure


def test_the_command_is_one_that_the_program_has() -> None:
    program, command, *options = container()["command"]
    assert (program, command) == ("backhaul", "serve")
    helped = CliRunner().invoke(app, ["serve", "--help"], env={"COLUMNS": "200"}).stdout
    known = set(re.findall(r"--[a-z-]+", helped))
    given = {each for each in options if each.startswith("--")}
    assert given == {"--config"}
    assert given <= known


def test_kubernetes_waits_for_the_end_of_calls(settings: ServerSettings) -> None:
    patience = pod()["terminationGracePeriodSeconds"]
    assert settings.drain_delay >= 5
    assert patience >= settings.drain_delay + settings.grace + 5


def test_a_probe_gives_up_only_after_a_minute() -> None:
    startup, liveness = container()["startupProbe"], container()["livenessProbe"]
    assert startup["periodSeconds"] * startup["failureThreshold"] >= 60
    assert liveness["periodSeconds"] * liveness["failureThreshold"] >= 60


def test_variables_of_services_are_not_taken_for_settings() -> None:
    assert pod()["enableServiceLinks"] is False


def test_it_runs_without_rights() -> None:
    assert pod()["automountServiceAccountToken"] is False
    own = pod()["securityContext"]
    assert own["runAsNonRoot"] is True
    assert min(own["runAsUser"], own["runAsGroup"], own["fsGroup"]) >= 10000
    assert own["seccompProfile"] == {"type": "RuntimeDefault"}
    assert container()["securityContext"] == {
        "allowPrivilegeEscalation": False,
        "readOnlyRootFilesystem": True,
        "capabilities": {"drop": ["ALL"]},
    }
    assert resource("namespace")["metadata"]["labels"] == {
        "pod-security.kubernetes.io/enforce": "restricted"
    }


def test_memory_is_its_own_and_cores_are_bounded() -> None:
    resources = container()["resources"]
    assert resources["requests"]["memory"] == resources["limits"]["memory"]
    assert resources["limits"]["cpu"] >= resources["requests"]["cpu"] >= 1


def test_the_image_is_this_version() -> None:
    (image,) = read(FOLDER / "kustomization.yaml")["images"]
    assert image["name"] == container()["image"]
    assert image["newTag"] == __version__


# ---------------------------------------------------------------- it runs


def mounted(folder: Path, files: dict[str, bytes]) -> None:
    """Put files into a mounted folder as a kubelet does: new data beside the old, one link exchanged."""
    data = folder / f"..{time.time_ns()}"
    data.mkdir(parents=True)
    for name, content in files.items():
        (data / name).write_bytes(content)
        if not (folder / name).is_symlink():
            (folder / name).symlink_to(f"..data/{name}")
    (folder / "..new").symlink_to(data.name)
    os.replace(folder / "..new", folder / "..data")


def lines(server: ServerProcess) -> dict[str, str]:
    """The server's further addresses, as it says them."""
    assert server.process.stdout is not None
    said = [server.process.stdout.readline().split() for _ in range(2)]
    return {words[0]: words[-1] for words in said}


def test_a_server_runs_with_it_and_takes_a_changed_secret(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    pair = authority.issue("localhost")
    alice, bob = new_token(), new_token()
    etc = tmp_path / "etc"
    mounted(
        etc / "tls",
        {"tls.crt": pair.certificate.read_bytes(), "tls.key": pair.key.read_bytes()},
    )
    mounted(etc / "tokens", {"tokens": f"{line_of('alice', alice)}\n".encode()})
    text = (FOLDER / "backhaul.toml").read_text(encoding="utf-8")
    replaced = {
        '"0.0.0.0"': '"localhost"',
        "/etc/backhaul": str(etc),
        "port = 50052": "port = 0",
        "port = 9464": "port = 0",
    }
    for before, after in replaced.items():
        assert before in text
        text = text.replace(before, after)
    config = tmp_path / "backhaul.toml"
    config.write_text(text.replace("drain_delay = 5", "drain_delay = 0"), encoding="utf-8")

    with serving("--config", str(config)) as server:
        assert server.target.startswith("grpcs://")
        where = lines(server)
        assert set(where) == {"health", "metrics"}
        probe = CliRunner().invoke(app, ["ping", where["health"], "--health"])
        assert probe.exit_code == 0, probe.stdout
        tls = bh.TLS(roots=authority.roots)
        with bh.connect(server.target, tls=tls, token=alice, timeout=30) as connection:
            assert total(connection) == 3.0
        with (
            bh.connect(server.target, tls=tls, token=bob, timeout=30) as connection,
            pytest.raises(bh.Unauthenticated),
        ):
            total(connection)
        mounted(etc / "tokens", {"tokens": f"{line_of('bob', bob)}\n".encode()})
        until = time.monotonic() + 120
        while not known(server.target, tls, bob):
            assert time.monotonic() < until
            time.sleep(0.1)
        status, _log = server.stop()
        assert status == 0


def total(connection: bh.Connection) -> float:
    with bh.Tape(connection) as tape:
        return float(bh.sum(tape.leaf(np.ones(3))))


def known(target: str, tls: bh.TLS, token: str) -> bool:
    with bh.connect(target, tls=tls, token=token, timeout=30) as connection:
        try:
            return total(connection) == 3.0
        except bh.Unauthenticated:
            return False


@pytest.fixture
def made_base(tmp_path: Path) -> Path:
    """A copy of the base with the files that its user makes."""
    if shutil.which("kubectl") is None:
        pytest.skip("no kubectl on the PATH")
    copy = tmp_path / "kubernetes"
    shutil.copytree(FOLDER, copy)
    for name in ("tls.crt", "tls.key", "tokens"):
        (copy / "secrets" / name).write_text("of the test\n", encoding="utf-8")
    return copy


def kustomized(folder: Path) -> str:
    command = ["kubectl", "kustomize", str(folder)]
    made = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    assert made.stderr == ""
    return made.stdout


def test_kustomize_makes_it(made_base: Path) -> None:
    made = kustomized(made_base)
    assert f"image: backhaul:{__version__}" in made
    # The policy's clients are others' pods: they must not be asked for the servers' own label.
    ingress = made[made.index("  ingress:") : made.index("  podSelector:\n    matchLabels:")]
    assert "backhaul-client" in ingress
    assert "app.kubernetes.io/name" not in ingress


def test_kustomize_refuses_without_the_secrets(made_base: Path) -> None:
    (made_base / "secrets" / "tokens").unlink()
    with pytest.raises(AssertionError, match="secrets/tokens"):
        kustomized(made_base)


def test_the_overlay_of_the_page_changes_it(made_base: Path) -> None:
    page = (FOLDER.parents[1] / "docs" / "deploying.md").read_text(encoding="utf-8")
    (overlay,) = re.findall(r"^```yaml\n(# kustomization.*?)^```$", page, re.M | re.S)
    folder = made_base.parent / "overlay"
    folder.mkdir()
    (folder / "kustomization.yaml").write_text(overlay, encoding="utf-8")
    made = kustomized(folder)
    assert f"image: registry.example.org/backhaul:{__version__}" in made
    assert "replicas: 4" in made
    assert made.count("memory: 16Gi") == 2


def test_the_page_builds_the_image_of_the_base() -> None:
    page = (FOLDER.parents[1] / "docs" / "deploying.md").read_text(encoding="utf-8")
    assert f"-t backhaul:{__version__} ." in page
    for name in ("service", "service-headless"):
        assert f"DNS:{resource(name)['metadata']['name']}.backhaul.svc" in page
