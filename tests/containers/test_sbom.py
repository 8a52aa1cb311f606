"""The bill of materials: what is installed, once each, and the same bytes each time."""

from __future__ import annotations

import json
import subprocess
import sys
from importlib import metadata
from pathlib import Path

from tools import sbom

_TOOL = Path(sbom.__file__)
_STATUS = """\
Package: libc6
Status: install ok installed
Architecture: amd64
Version: 2.36-9+deb12u10
Description: GNU C Library
 Shared libraries: of the system

Package: gone
Status: deinstall ok config-files
Architecture: amd64
Version: 1.0

Package: libstdc++6
Status: install ok installed
Architecture: amd64
Version: 1:12.2.0-14
"""


def test_every_installed_package_is_listed_once() -> None:
    bill = sbom.bill()
    listed = [each["name"] for each in bill["components"]]
    installed = {sbom.canonical(each.name) for each in metadata.distributions()}
    assert sorted(listed) == sorted(installed - {"backhaul"})
    assert (
        bill["metadata"]["component"]["purl"] == f"pkg:pypi/backhaul@{metadata.version('backhaul')}"
    )
    numpy = next(each for each in bill["components"] if each["name"] == "numpy")
    assert numpy["version"] == metadata.version("numpy")
    assert numpy["bom-ref"] == numpy["purl"] == f"pkg:pypi/numpy@{metadata.version('numpy')}"


def test_dependencies_are_references_to_what_is_listed() -> None:
    bill = sbom.bill()
    references = {each["bom-ref"] for each in bill["components"]}
    subject = bill["metadata"]["component"]["bom-ref"]
    needs = {each["ref"]: each["dependsOn"] for each in bill["dependencies"]}
    assert needs.keys() == references | {subject}
    assert all(references >= set(each) - {subject} for each in needs.values())
    ours = {each.split("@")[0] for each in needs[subject]}
    assert {"pkg:pypi/numpy", "pkg:pypi/grpcio", "pkg:pypi/pydantic-settings"} <= ours
    assert f"pkg:pypi/scipy@{metadata.version('scipy')}" in needs[subject]
    assert (
        needs[f"pkg:pypi/scipy@{metadata.version('scipy')}"].count(
            f"pkg:pypi/numpy@{metadata.version('numpy')}"
        )
        == 1
    )


def test_licenses_as_the_packages_state_them() -> None:
    assert sbom.licenses({"license_expression": "MIT", "license": "other"}) == {
        "licenses": [{"expression": "MIT"}]
    }
    classified = {
        "classifier": ["License :: OSI Approved", "License :: OSI Approved :: BSD License"]
    }
    assert sbom.licenses(classified) == {"licenses": [{"license": {"name": "BSD License"}}]}
    assert sbom.licenses({"license": "Apache 2.0"}) == {
        "licenses": [{"license": {"name": "Apache 2.0"}}]
    }
    assert sbom.licenses({"license": "Permission is hereby\ngranted"}) == {}
    assert sbom.licenses({}) == {}


def test_debian_packages_that_are_installed() -> None:
    found = list(sbom.debian(_STATUS))
    assert [(each["name"], each["version"]) for each in found] == [
        ("libc6", "2.36-9+deb12u10"),
        ("libstdc++6", "1:12.2.0-14"),
    ]
    assert [each["purl"] for each in found] == [
        "pkg:deb/debian/libc6@2.36-9%2Bdeb12u10?arch=amd64",
        "pkg:deb/debian/libstdc%2B%2B6@1%3A12.2.0-14?arch=amd64",
    ]


def test_the_command_writes_the_same_bytes_each_time(tmp_path: Path) -> None:
    status = tmp_path / "status"
    status.write_text(_STATUS, encoding="utf-8")
    texts = []
    for name in ("first.json", "second.json"):
        path = tmp_path / "made" / name
        command = [sys.executable, str(_TOOL), "--dpkg", str(status), "--output", str(path)]
        subprocess.run(command, check=True)
        texts.append(path.read_bytes())
    assert texts[0] == texts[1]
    bill = json.loads(texts[0])
    assert (bill["bomFormat"], bill["specVersion"], bill["version"]) == ("CycloneDX", "1.5", 1)
    assert bill["components"][-1]["name"] == "libstdc++6"
