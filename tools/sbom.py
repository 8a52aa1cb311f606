"""What is installed, as a bill of materials: CycloneDX 1.5, JSON.

    python tools/sbom.py [--dpkg /var/lib/dpkg/status] [--output FILE]

Lists the packages of the interpreter that runs it, and Debian's where a status file is given. The same
environment gives the same bytes: there is no date in it, and the serial number follows from what is listed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import uuid
from collections.abc import Iterator, Mapping
from importlib import metadata
from pathlib import Path
from typing import Any, Final

ROOT: Final = "backhaul"
_NAME: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]*")
_NAMESPACE: Final = uuid.uuid5(
    uuid.NAMESPACE_URL, "https://cyclonedx.org/schema/bom-1.5.schema.json"
)
_SHORT: Final = 100
"""The field License holds a name or a whole text; a name is not longer."""

Component = dict[str, Any]


def bill(dpkg: Path | None = None) -> dict[str, Any]:
    """The bill of materials of this environment, with the project as its subject."""
    found = {canonical(each.name): each for each in metadata.distributions()}
    if ROOT not in found:
        raise SystemExit(
            f"sbom: {ROOT} is not installed for {sys.executable}; use the Python it is installed for"
        )
    components = {name: component(each) for name, each in sorted(found.items())}
    references = {name: made["bom-ref"] for name, made in components.items()}
    subject = {**components.pop(ROOT), "type": "application"}
    system = [] if dpkg is None else list(debian(dpkg.read_text(encoding="utf-8")))
    listed = [*components.values(), *system]
    serial = uuid.uuid5(_NAMESPACE, json.dumps([subject, listed], sort_keys=True))
    return {
        "$schema": "http://cyclonedx.org/schema/bom-1.5.schema.json",
        "bomFormat": "CycloneDX",
        "specVersion": "1.5",
        "serialNumber": f"urn:uuid:{serial}",
        "version": 1,
        "metadata": {"component": subject},
        "components": listed,
        "dependencies": [
            {"ref": references[name], "dependsOn": sorted(references[each] for each in needs)}
            for name, needs in dependencies(found).items()
        ],
    }


def component(distribution: metadata.Distribution) -> Component:
    """A Python package as a component."""
    name = canonical(distribution.name)
    reference = f"pkg:pypi/{name}@{distribution.version}"
    made: Component = {
        "type": "library",
        "bom-ref": reference,
        "name": name,
        "version": distribution.version,
        "purl": reference,
    }
    return made | licenses(distribution.metadata.json)


def licenses(fields: Mapping[str, Any]) -> dict[str, Any]:
    """The license as the package states it: an SPDX expression, else a name."""
    expression = fields.get("license_expression")
    if expression:
        return {"licenses": [{"expression": expression}]}
    classified = [
        each.rpartition(" :: ")[2]
        for each in fields.get("classifier", [])
        if each.startswith("License :: ") and not each.endswith(":: OSI Approved")
    ]
    stated = str(fields.get("license", "")).strip()
    names = classified or (
        [stated] if stated and len(stated) <= _SHORT and "\n" not in stated else []
    )
    return {"licenses": [{"license": {"name": each}} for each in names]} if names else {}


def dependencies(found: Mapping[str, metadata.Distribution]) -> dict[str, list[str]]:
    """What each installed package requires that is installed too; requirements of extras included."""
    return {
        name: sorted(
            {canonical(match[0]) for line in each.requires or () if (match := _NAME.match(line))}
            & (found.keys() - {name})
        )
        for name, each in sorted(found.items())
    }


def debian(status: str) -> Iterator[Component]:
    """The installed packages of dpkg's status file."""
    for paragraph in status.split("\n\n"):
        fields = dict(
            line.split(": ", 1)
            for line in paragraph.splitlines()
            if ": " in line and line[0] != " "
        )
        if not fields.get("Status", "").endswith(" installed"):
            continue
        name, version = fields["Package"], fields["Version"]
        # A package URL has no "+" or ":" in a version as it is.
        quoted = version.replace("+", "%2B").replace(":", "%3A")
        reference = (
            f"pkg:deb/debian/{name.replace('+', '%2B')}@{quoted}?arch={fields['Architecture']}"
        )
        yield {
            "type": "library",
            "bom-ref": reference,
            "name": name,
            "version": version,
            "purl": reference,
        }


def canonical(name: str) -> str:
    """A package's name as indexes compare it."""
    return re.sub(r"[-_.]+", "-", name).lower()


def main() -> None:
    """Write the bill to stdout, or to a file."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--dpkg", type=Path, help="dpkg's status file, to list Debian's packages too"
    )
    parser.add_argument("--output", type=Path, help="where to write it; else stdout")
    given = parser.parse_args()
    text = json.dumps(bill(given.dpkg), indent=2, ensure_ascii=False) + "\n"
    if given.output is None:
        sys.stdout.write(text)
        return
    given.output.parent.mkdir(parents=True, exist_ok=True)
    given.output.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
