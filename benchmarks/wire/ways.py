"""A server in a process of its own, and the ways to it."""

from __future__ import annotations

import inspect
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

import backhaul as bh

Target = tuple[str, dict[str, Any]]
"""What `backhaul.connect` is given."""

SHARED: Final = "unix, shared memory"
_TIMEOUT: Final = 120.0


@dataclass(frozen=True, slots=True)
class Server:
    """``backhaul serve``: its process, and where it listens."""

    pid: int
    tcp: str
    unix: str

    def targets(self) -> dict[str, Target]:
        """Every way to it from another process, by name."""
        if not has_shared_memory():
            return {"TCP": (self.tcp, {}), "unix": (self.unix, {})}
        return {
            "TCP": (self.tcp, {}),
            "unix": (self.unix, {"shared_memory": False}),
            SHARED: (self.unix, {}),
        }


def has_shared_memory() -> bool:
    """Whether this release shares memory with a server on the same machine."""
    return "shared_memory" in inspect.signature(bh.connect).parameters


@contextmanager
def serving(*options: str) -> Iterator[Server]:
    """A server on a free port of the loopback and on a unix socket."""
    with tempfile.TemporaryDirectory(prefix="backhaul-bench-") as folder:
        command = [
            *(sys.executable, "-m", "backhaul", "serve", "--port", "0"),
            *("--unix", str(Path(folder, "socket")), "--log-level", "warning", *options),
        ]
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
            try:
                assert process.stdout is not None
                tcp, unix = (_target(process.stdout.readline()) for _ in range(2))
                yield Server(process.pid, tcp, unix)
            finally:
                process.terminate()
                process.wait(30)


@contextmanager
def connections(server: Server, *, embedded: bool = True) -> Iterator[dict[str, bh.Connection]]:
    """A connection for each way to the server, and one to a server in this process."""
    with ExitStack() as stack:
        found = {
            name: stack.enter_context(open_target(target))
            for name, target in server.targets().items()
        }
        if embedded:
            found["embedded"] = stack.enter_context(bh.connect("embedded"))
        yield found


def open_target(target: Target) -> bh.Connection:
    """A connection that has met its server."""
    place, options = target
    connection = bh.connect(place, timeout=_TIMEOUT, **options)
    connection.ping()
    return connection


def _target(line: str) -> str:
    found = re.fullmatch(r"listening on (\S+)\n", line)
    if found is None:
        raise SystemExit(f"The server did not start (it printed {line!r}).")
    return found[1]
