"""The programs beside the server in docker-compose.yml: their images, or local ones with the same program."""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.containers.podman import NotHere, Podman, output_of
from tests.containers.project import FILE


@dataclass(frozen=True, slots=True)
class Program:
    """Such a program.

    Attributes:
        name: of its service.
        variable: of the compose file, for another image.
        binaries: what a local image holds, the first one above all; none: no local image can be made.
        entrypoint: of its own image.
        user: of its own image, or of the service.
        writes_to: a folder that is that user's.
        get: how its binaries come by.
    """

    name: str
    variable: str
    binaries: tuple[str, ...] = ()
    entrypoint: str = ""
    user: str = ""
    writes_to: str = "/run"
    get: str = ""

    @property
    def image(self) -> str:
        """The image that the compose file names."""
        found = re.search(rf"\$\{{{self.variable}:-([^}}]+)\}}", FILE.read_text(encoding="utf-8"))
        assert found is not None, self.variable
        return found[1]


ENVOY = Program(
    "envoy",
    "BACKHAUL_ENVOY_IMAGE",
    binaries=("envoy",),
    user="101:101",
    get="make envoy-test installs it",
)
PROMETHEUS = Program(
    "prometheus",
    "BACKHAUL_PROMETHEUS_IMAGE",
    binaries=("prometheus", "promtool"),
    entrypoint="prometheus",
    user="65534:65534",
    writes_to="/prometheus",
    get="on Debian and Ubuntu: apt-get install prometheus",
)
GRAFANA = Program("grafana", "BACKHAUL_GRAFANA_IMAGE")


def image_of(program: Program, podman: Podman, ours: str, pull: bool) -> tuple[str, str]:
    """An image that holds the program, and what is to be said of it.

    Args:
        program: which.
        podman: with which.
        ours: the server's image; a local one is made on it.
        pull: whether registries are asked.

    Raises:
        NotHere: there is none.
    """
    wanted = program.image
    why = f"no image {wanted}: registries are not asked"
    if pull or podman.has(wanted):
        try:
            podman.pull(wanted)
        except NotHere as error:
            why = str(error)
        else:
            return wanted, wanted
    if not program.binaries:
        raise NotHere(why)
    found = [_binary(each) for each in program.binaries]
    missing = [name for name, path in zip(program.binaries, found, strict=True) if path is None]
    if missing:
        raise NotHere(f"{why}; and no {' and '.join(missing)} to make one of: {program.get}")
    made = _make(program, podman, ours, [path for path in found if path is not None])
    return made, f"made here with {found[0]}, for want of {wanted}"


def _binary(name: str) -> Path | None:
    """A program of this machine: $NAME, or what is on the PATH."""
    text = os.environ.get(name.upper()) or shutil.which(name)
    if not text or not Path(text).exists():
        return None
    path = Path(text).absolute()
    if not path.read_bytes().startswith(b"#!"):
        return path
    # A script of a Python package that brings the program along.
    inside = f"lib/python*/site-packages/{name}/_bin/{name}"
    return next(path.parents[1].glob(inside), None)


def _make(program: Program, podman: Podman, ours: str, binaries: Sequence[Path]) -> str:
    """The server's image with these programs in it, and nothing of the server that would start."""
    folder = podman.folder / program.name
    folder.mkdir()
    for path in binaries:
        shutil.copy(path, folder)
    owner, group = program.user.split(":")
    names = " ".join(program.binaries)
    entry = f'["{program.entrypoint}"]' if program.entrypoint else "[]"
    (folder / "Dockerfile").write_text(
        f"FROM {ours}\nUSER 0:0\nCOPY {names} /usr/local/bin/\n"
        f"RUN install -d -o {owner} -g {group} {program.writes_to} && "
        f"chmod 0755 {' '.join(f'/usr/local/bin/{each}' for each in program.binaries)}\n"
        f"USER {program.user}\nHEALTHCHECK NONE\nENTRYPOINT {entry}\nCMD []\n",
        encoding="utf-8",
    )
    made = f"localhost/backhaul-{program.name}:container-test"
    words = ["--format", "docker", "--tag", made, "--file", str(folder / "Dockerfile")]
    if not podman.systemd:
        words += ["--isolation", "chroot", "--network", "host"]
    output_of(["buildah", "bud", *words, str(folder)], podman.environment, 300)
    done = podman.attempt(
        "run", "--rm", "--network=none", f"--entrypoint={program.binaries[0]}", made, "--version"
    )
    if done.returncode:
        raise NotHere(f"{binaries[0]} does not run in the image: {done.stderr.strip()[-200:]}")
    return made
