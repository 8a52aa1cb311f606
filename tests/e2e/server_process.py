"""A server in a process of its own."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any


class ServerProcess:
    """``backhaul serve`` in a process of its own; its log is kept."""

    def __init__(self, *options: str, environment: Mapping[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "backhaul", "serve", "--port", "0", *options]
        # A file: a pipe that nobody reads would be full one day.
        self._log = tempfile.TemporaryFile("w+", encoding="utf-8")  # noqa: SIM115 - closed in `close`
        self.process = subprocess.Popen(
            command,
            stdout=subprocess.PIPE,
            stderr=self._log,
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
        status = self.process.wait(timeout=120)
        self._log.seek(0)
        return status, [json.loads(line) for line in self._log]

    def close(self) -> None:
        """End it in whatever state it is."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.communicate()
        self._log.close()


@contextmanager
def serving(*options: str, environment: Mapping[str, str] | None = None) -> Iterator[ServerProcess]:
    server = ServerProcess(*options, environment=environment)
    try:
        yield server
    finally:
        server.close()
