"""Podman and its companions as this program calls them, and what they lack on this machine."""

from __future__ import annotations

import os
import shutil
import subprocess
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

_CONFINED: Final = """\
[containers]
default_ulimits = ["nofile=1024:1024", "nproc=4096:4096"]

[engine]
runtime = "runc"
events_logger = "file"
"""
"""For a machine without systemd, such as a container: no journal, and no limits above its own."""

_SYSTEMD: Final = Path("/run/systemd/system")
_PACKAGES: Final = {
    "podman": "podman",
    "buildah": "buildah",
    "runc": "runc",
    "debootstrap": "debootstrap",
    "tar": "tar",
}


class Failed(Exception):
    """A command did not end with status 0, or what was waited for did not come."""


class NotHere(Exception):
    """This machine cannot do it; the text says what is missing and how to get it."""


@dataclass(frozen=True, slots=True)
class Podman:
    """Podman with a configuration.

    Attributes:
        folder: for files of this run; podman works there, and leaves a file where a container was killed
            for memory.
        environment: of its commands.
        systemd: whether timers of systemd run the health checks; else whoever waits for them does.
    """

    folder: Path
    systemd: bool = field(default_factory=_SYSTEMD.exists)
    environment: dict[str, str] = field(default_factory=lambda: dict(os.environ))

    @classmethod
    def here(cls, folder: Path) -> Podman:
        """Podman as it runs on this machine.

        Raises:
            NotHere: it is not installed, or cannot run a thing.
        """
        need("podman", "buildah")
        made = cls(folder)
        if not made.systemd and "CONTAINERS_CONF" not in made.environment:
            need("runc")
            path = folder / "containers.conf"
            path.write_text(_CONFINED, encoding="utf-8")
            made.environment["CONTAINERS_CONF"] = str(path)
        try:
            made("info")
        except Failed as error:
            raise NotHere(f"podman does not run here: {error}") from None
        return made

    def __call__(self, *words: str, timeout: float = 120) -> str:
        """The output of ``podman WORDS``.

        Raises:
            Failed: it did not end with status 0.
        """
        return output_of(["podman", *words], self.environment, timeout, self.folder)

    def attempt(
        self, *words: str, timeout: float = 120, given: str | None = None
    ) -> subprocess.CompletedProcess[str]:
        """The same, whatever its status; ``given`` is its input."""
        return subprocess.run(
            ["podman", *words],
            input=given,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=self.environment,
            cwd=self.folder,
        )

    def has(self, image: str) -> bool:
        """Whether there is such an image."""
        return self.attempt("image", "exists", image).returncode == 0

    def pull(self, image: str) -> None:
        """Have an image, from its registry where it is not here yet.

        Raises:
            NotHere: it cannot be had.
        """
        if self.has(image):
            return
        try:
            self("pull", "--quiet", image, timeout=600)
        except Failed as error:
            raise NotHere(f"no image {image}: {error}") from None

    def try_out(self, image: str) -> None:
        """Run a container that does nothing.

        Raises:
            NotHere: not even that can be done.
        """
        try:
            self("run", "--rm", "--network=none", "--no-healthcheck", "--entrypoint=true", image)
        except Failed as error:
            raise NotHere(f"podman cannot run a container here: {error}") from None

    def id_of(self, image: str) -> str:
        """The id of an image; empty where there is none."""
        return self.attempt("image", "inspect", "--format", "{{.Id}}", image).stdout.strip()

    def healthy(self, container: str) -> bool:
        """Whether the container's own check, run now, says so."""
        return self.attempt("healthcheck", "run", container).returncode == 0

    def log(self, container: str) -> str:
        """What the container wrote, on both streams."""
        found = self.attempt("logs", container)
        return found.stdout + found.stderr

    @contextmanager
    def running(self, name: str, *words: str) -> Iterator[str]:
        """A container of this name for a while: ``podman run -d --name NAME WORDS``."""
        self.attempt("rm", "--force", "--time", "0", name)
        self("run", "--detach", "--name", name, *words)
        try:
            yield name
        finally:
            self.attempt("rm", "--force", "--time", "0", "--volumes", name)


def need(*programs: str) -> None:
    """Complain of programs that are not there.

    Raises:
        NotHere: with the command that installs them on Debian and Ubuntu.
    """
    missing = [each for each in programs if shutil.which(each) is None]
    if missing:
        packages = " ".join(_PACKAGES.get(each, each) for each in missing)
        raise NotHere(
            f"{', '.join(missing)} missing; on Debian and Ubuntu: apt-get install {packages}"
        )


def output_of(
    command: Sequence[str],
    environment: Mapping[str, str],
    timeout: float,
    folder: Path | None = None,
) -> str:
    """What a command writes to stdout; it runs in the folder.

    Raises:
        Failed: it did not end with status 0, or not in time.
    """
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            timeout=timeout,
            check=False,
            env=environment,
            cwd=folder,
        )
    except subprocess.TimeoutExpired:
        raise Failed(f"{' '.join(command[:6])} … did not end within {timeout:g} s") from None
    if done.returncode:
        told = (done.stderr.strip() or done.stdout.strip()).splitlines()
        raise Failed(
            f"{' '.join(command[:6])} … ended with {done.returncode}: {' | '.join(told[-4:])}"
        )
    return done.stdout


def until(holds: Callable[[], bool], what: str, seconds: float = 60) -> float:
    """Wait for something to hold; the seconds that it took.

    Raises:
        Failed: it did not within the time.
    """
    started = time.monotonic()
    while not holds():
        if time.monotonic() - started > seconds:
            raise Failed(f"not within {seconds:g} s: {what}")
        time.sleep(0.1)
    return time.monotonic() - started
