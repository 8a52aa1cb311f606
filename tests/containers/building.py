"""The image, built from the checkout; also where a build reaches no registry and no package index."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Final

from tests.containers.podman import Failed, NotHere, Podman, need, output_of

CHECKOUT: Final = Path(__file__).parents[2]
IMAGE: Final = "localhost/backhaul:container-test"
DEBOOTSTRAP: Final = "debootstrap"
"""As a base: one that is made here."""

_SUITE: Final = "bookworm"
_MADE: Final = f"localhost/backhaul-base:{_SUITE}"
_DEFAULT_MIRROR: Final = "http://deb.debian.org/debian"
_PACKAGES: Final = "python3,python3-venv,ca-certificates"
# Left out of slim images too.
_SURPLUS: Final = (
    "var/cache/apt/archives/*.deb",
    "var/cache/apt/*.bin",
    "var/lib/apt/lists/*",
    "usr/share/doc/*",
    "usr/share/man/*",
    "usr/share/locale/*",
)
_WHEELS: Final = CHECKOUT / "build" / "containers" / "wheels"


def build(podman: Podman, base: str | None) -> str:
    """Build the image; its base's name.

    Args:
        podman: with which.
        base: an image; "debootstrap" for one made here, and wheels downloaded beforehand; None: that of
            the Dockerfile.

    Raises:
        NotHere: a program for it is missing, the base or the wheels cannot be had, no container runs.
        Failed: the build itself went wrong.
    """
    words = ["--tag", IMAGE, "--file", "server/Dockerfile", "--format", "docker"]
    words += ["--build-arg", f"REVISION={_revision()}", "--build-arg", f"VERSION={_version()}"]
    if not podman.systemd:
        words += ["--isolation", "chroot", "--network", "host"]
    if base == DEBOOTSTRAP:
        base = _MADE
        try:
            if not podman.has(base):
                _make_base(podman)
            podman.try_out(base)
            wheels = _download(podman, base)
        except Failed as error:
            raise NotHere(str(error)) from None
        words += ["--volume", f"{wheels}:/wheels:ro", "--build-arg", "PIP_NO_INDEX=1"]
        words += ["--build-arg", "PIP_FIND_LINKS=/wheels"]
    else:
        base = base or _default_base()
        try:
            podman.pull(base)
        except NotHere as error:
            hint = f"Where no registry can be reached: make container-test BASE={DEBOOTSTRAP}"
            raise NotHere(f"{error}\n{hint}") from None
        podman.try_out(base)
    words += ["--build-arg", f"BASE={base}"]
    before = podman.id_of(IMAGE)
    output_of(["buildah", "bud", *words, str(CHECKOUT)], podman.environment, 1800)
    if before not in ("", podman.id_of(IMAGE)):
        # What the name meant until now; it stays where a container of it is left.
        podman.attempt("rmi", before)
    return base


def _default_base() -> str:
    """The base that the Dockerfile names."""
    text = (CHECKOUT / "server/Dockerfile").read_text(encoding="utf-8")
    found = re.search(r"^ARG BASE=(\S+)$", text, re.MULTILINE)
    if found is None:
        raise Failed("no ARG BASE=… in server/Dockerfile")
    return found[1]


def debian_mirror(targets: str) -> str:
    """The mirror of Debian that apt uses, from lines LABEL REPO_URI of ``apt-get indextargets``."""
    for line in targets.splitlines():
        label, _, uri = line.partition(" ")
        if label == "Debian" and uri.startswith(("http://", "https://", "file:")):
            return uri.rstrip("/")
    return _DEFAULT_MIRROR


def _make_base(podman: Podman) -> None:
    """A slim Debian with Python, as a local image."""
    need("debootstrap", "tar")
    if os.geteuid() != 0:
        raise NotHere(
            "debootstrap needs root; as another user give --base an image that podman can pull"
        )
    found = subprocess.run(
        ["apt-get", "indextargets", "--format", "$(LABEL) $(REPO_URI)", "Created-By: Packages"],
        capture_output=True,
        text=True,
        check=False,
    )
    root = podman.folder / "rootfs"
    mirror = debian_mirror(found.stdout)
    print(f"  making {_MADE} by debootstrap", flush=True)
    command = ["debootstrap", "--variant=minbase", f"--include={_PACKAGES}", _SUITE]
    output_of([*command, str(root), mirror], podman.environment, 1200)
    for pattern in _SURPLUS:
        for path in root.glob(pattern):
            shutil.rmtree(path) if path.is_dir() and not path.is_symlink() else path.unlink()
    archive = podman.folder / "rootfs.tar"
    output_of(["tar", "-C", str(root), "-cf", str(archive), "."], podman.environment, 600)
    podman("import", "--quiet", str(archive), _MADE, timeout=600)
    archive.unlink()


def _download(podman: Podman, base: str) -> Path:
    """The wheels that the image is built from, for the base's Python."""
    theirs = podman(
        "run", "--rm", "--network", "none", base, "python3", "-c", _TELL_VERSION
    ).strip()
    ours = f"{sys.version_info.major}.{sys.version_info.minor}"
    if theirs != ours:
        # pip asks its own interpreter which lines of the lock hold, not the one it downloads for.
        raise NotHere(
            f"the wheels for the base's Python {theirs} have to be downloaded by a Python {theirs}, and "
            f"this is {ours}: make container-test VENV=.venv{theirs} PYTHON=python{theirs}"
        )
    _WHEELS.mkdir(parents=True, exist_ok=True)
    pip = [sys.executable, "-m", "pip", "download", "-q", "--dest", str(_WHEELS)]
    print(f"  downloading wheels for Python {theirs}", flush=True)
    output_of(
        [
            *pip,
            "-c",
            "requirements-dev.lock",
            "--only-binary",
            ":all:",
            ".[server]",
            "-r",
            _BUILD_LOCK,
        ],
        podman.environment,
        1200,
    )
    return _WHEELS


_TELL_VERSION: Final = "import sys; print('%d.%d' % sys.version_info[:2])"
_BUILD_LOCK: Final = "server/container/build.lock"


def _version() -> str:
    text = (CHECKOUT / "proto/backhaul_proto/_version.py").read_text(encoding="utf-8")
    found = re.search(r'"([^"]+)"$', text, re.MULTILINE)
    if found is None:
        raise Failed("no version in proto/backhaul_proto/_version.py")
    return found[1]


def _revision() -> str:
    found = subprocess.run(
        ["git", "-C", str(CHECKOUT), "rev-parse", "HEAD"],
        capture_output=True,
        text=True,
        check=False,
    )
    return found.stdout.strip() or "unknown"
