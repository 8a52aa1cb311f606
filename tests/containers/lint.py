"""docker-compose.yml and server/Dockerfile by the tools for them: ``make container-lint``.

Runs nothing of them. It prints what it could not do, and why; the status is 1 where a tool complained.
"""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Sequence

from tests.containers.building import CHECKOUT
from tests.containers.podman import NotHere
from tests.containers.project import FILE, compose_command
from tests.containers.report import Report


def main() -> int:
    """The command."""
    report = Report()
    schema = ["check-jsonschema", "--builtin-schema", "vendor.compose-spec", str(FILE)]
    told_by(report, "docker-compose.yml: the schema of the Compose specification", schema)
    told_by(
        report, "server/Dockerfile: hadolint", ["hadolint", str(CHECKOUT / "server/Dockerfile")]
    )
    try:
        compose = compose_command()
    except NotHere as error:
        report.skip("docker-compose.yml: compose config, with every profile", error)
    else:
        profiles = [word for each in _PROFILES for word in ("--profile", each)]
        command = [*compose, "-f", str(FILE), *profiles, "config", "--quiet"]
        told_by(
            report, f"docker-compose.yml: {' '.join(compose)} config, with every profile", command
        )
    return report.end()


def told_by(report: Report, what: str, command: Sequence[str]) -> None:
    """What a tool says, where it is installed."""
    if shutil.which(command[0]) is None:
        report.skip(what, f"{command[0]} is not installed")
        return
    done = subprocess.run(command, capture_output=True, text=True, check=False, cwd=CHECKOUT)
    said = (done.stdout + done.stderr).strip()
    report.check(what, done.returncode == 0, said if done.returncode else "")


_PROFILES = ("demo", "tls", "scale", "monitoring", "gpu")


if __name__ == "__main__":
    raise SystemExit(main())
