"""A server in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class ServerProcess:
    """``backhaul serve`` in a process of its own; its log is kept."""

    def __init__(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "backhaul", "serve", "--port", "0", *options]
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line.startswith(("listening on grpc://", "listening on grpcs://")), line
        self.target = line.split()[-1]

    def stop(self) -> tuple[int, list[dict[str, Any]]]:
        """SIGTERM: the exit status, and the log."""
        self.process.send_signal(signal.SIGTERM)
        _, log = self.process.communicate(timeout=30)
        return self.process.returncode, [json.loads(line) for line in log.splitlines()]


@contextmanager
def serving(*options: str, environment: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    server = ServerProcess(*options, environment=environment)
    try:
        yield server
    finally:
        if server.process.poll() is None:
            server.process.kill()
        server.process.communicate()
