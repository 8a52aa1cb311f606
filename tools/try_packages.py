"""Do the wheel and the sdist work where there is no checkout?

    python tools/try_packages.py --python python3.11 --python python3.12 --oldest grpcio==1.62.3 --oldest ...

Builds both, and installs them into empty environments of each interpreter: the package alone and with
`[server]`, with the newest dependencies and with the oldest that are allowed. In each, from an empty
folder, the package computes a gradient in its own process; with `[server]` it runs `backhaul demo` too.
Prints a line for each, and exits 1 when one failed. An interpreter that is not there is passed over, and
said so.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

ROOT: Final = Path(__file__).parents[1]
PIP: Final = ("-m", "pip", "--disable-pip-version-check", "-qq")
GRADIENT: Final = """
import backhaul as bh
with bh.connect("embedded") as connection, bh.Tape(connection) as tape:
    x = tape.leaf([1.0, 2.0])
    assert tape.pullback(bh.sum(x * x))[x].tolist() == [2.0, 4.0]
"""
TIMEOUT: Final = 600
"""Seconds for one command."""
_NO_OLD_WHEELS: Final = (3, 13)
"""From this Python on, the oldest gRPC that is allowed has no wheels."""


@dataclass(frozen=True, slots=True)
class Trial:
    """One environment.

    Attributes:
        python: its interpreter.
        package: the wheel, or the sdist.
        extra: "" or "[server]".
        pins: versions of dependencies; none: the newest.
    """

    python: str
    package: Path
    extra: str
    pins: tuple[str, ...]

    def __str__(self) -> str:
        kind = "wheel" if self.package.suffix == ".whl" else "sdist"
        dependencies = "oldest" if self.pins else "newest"
        return f"{self.python} {kind}{self.extra or ' alone'}, {dependencies} dependencies"

    def run(self, folder: Path) -> str:
        """Install and use it in an empty folder. Returns what went wrong; nothing: all is well."""
        environment, elsewhere = folder / "environment", folder / "elsewhere"
        elsewhere.mkdir()
        python = str(environment / "bin" / "python")
        commands = [
            [self.python, "-m", "venv", str(environment)],
            [python, *PIP, "install", f"{self.package}{self.extra}", *self.pins],
            [python, *PIP, "check"],
            [python, "-c", GRADIENT],
        ]
        if self.extra:
            commands.append([str(environment / "bin" / "backhaul"), "demo"])
        for command in commands:
            failure = _run(command, elsewhere)
            if failure:
                return failure
        return ""


def _run(command: list[str], folder: Path) -> str:
    done = subprocess.run(
        command, cwd=folder, capture_output=True, text=True, timeout=TIMEOUT, check=False
    )
    if not done.returncode:
        return ""
    return (
        f"{' '.join(command)} ended with {done.returncode}:\n{(done.stdout + done.stderr)[-3000:]}"
    )


def build(python: str, folder: Path) -> list[Path]:
    """The wheel and the sdist, from the checkout."""
    tools = folder / "tools"
    for command in (
        [python, "-m", "venv", str(tools)],
        [str(tools / "bin" / "python"), *PIP, "install", "build"],
        [str(tools / "bin" / "python"), "-m", "build", "--outdir", str(folder), str(ROOT)],
    ):
        failure = _run(command, folder)
        if failure:
            raise SystemExit(failure)
    return [*folder.glob("*.whl"), *folder.glob("*.tar.gz")]


def trials(
    pythons: Iterable[str], packages: Iterable[Path], oldest: Iterable[str]
) -> Iterator[Trial]:
    """What is tried: the wheel in all ways, the sdist once for each interpreter."""
    for python in pythons:
        for package in packages:
            if package.suffix != ".whl":
                yield Trial(python, package, "[server]", ())
                continue
            for extra in ("", "[server]"):
                yield Trial(python, package, extra, ())
                if _version(python) < _NO_OLD_WHEELS:
                    yield Trial(python, package, extra, _of_package(oldest, extra))


def _of_package(pins: Iterable[str], extra: str) -> tuple[str, ...]:
    """Without the extra, only what the package itself depends on is pinned."""
    of_server = (
        "grpcio-health",
        "grpcio-refl",
        "prometheus",
        "pydantic",
        "python-json",
        "threadpool",
    )
    return tuple(pin for pin in pins if extra or not pin.startswith(of_server))


def _version(python: str) -> tuple[int, int]:
    say = "import sys; print(*sys.version_info[:2])"
    said = subprocess.run([python, "-c", say], capture_output=True, text=True, check=True).stdout
    major, minor = said.split()
    return int(major), int(minor)


def _usable(python: str) -> bool:
    if shutil.which(python) is None:
        return False
    return not subprocess.run(
        [python, "-c", "import venv"], capture_output=True, check=False
    ).returncode


def main() -> int:
    """The command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--python", action="append", required=True)
    parser.add_argument("--oldest", action="append", default=[])
    given = parser.parse_args()
    pythons = [each for each in given.python if _usable(each)]
    for each in given.python:
        if each not in pythons:
            print(f"{each} is not here: not tried")
    if not pythons:
        return 1
    failed = 0
    with tempfile.TemporaryDirectory(prefix="backhaul-packages-") as name:
        folder = Path(name)
        packages = build(pythons[0], folder)
        for number, trial in enumerate(trials(pythons, packages, given.oldest)):
            place = folder / str(number)
            place.mkdir()
            failure = trial.run(place)
            failed += bool(failure)
            print(f"{trial}: {failure or 'ok'}", flush=True)
            shutil.rmtree(place)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
