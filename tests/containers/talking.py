"""A client program that says what it has done, and waits to be told that the server was stopped or killed."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Final

CLIENTS: Final = Path(__file__).with_name("clients")


@dataclass(frozen=True, slots=True)
class Client:
    """A program of the folder clients that runs."""

    process: subprocess.Popen[str]

    def said(self) -> str:
        """Its next line."""
        assert self.process.stdout is not None
        return self.process.stdout.readline().strip()

    def told(self, timeout: float = 90) -> str:
        """What it says after it was told that the server was stopped or killed."""
        answer, _ = self.process.communicate("\n", timeout=timeout)
        return answer.strip()


@contextmanager
def client(command: Sequence[str], environment: Mapping[str, str]) -> Iterator[Client]:
    """Such a program for a while; it does not outlive it."""
    process = subprocess.Popen(
        command,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=environment,
    )
    try:
        yield Client(process)
    finally:
        if process.poll() is None:
            process.kill()
            process.communicate()
