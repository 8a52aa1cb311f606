"""A server process that is there again a few hundredths of a second after it was killed.

``python -m tests.chaos.zygote PORT`` imports what the server needs once, and forks the servers, as it is told
by lines on stdin: ``start``; or ``kill`` (SIGKILL), which it answers when the server is gone.
"""

from __future__ import annotations

import os
import subprocess
import sys
from typing import NoReturn

from tests.chaos.processes import kill

from backhaul_server.cli import serve
from backhaul_server.effective import load


class Zygote:
    """The process that forks servers, told from here. When it is told nothing more, it ends with its server.

    Attributes:
        target: where the servers are, one after the other.
    """

    def __init__(self, port: int) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.zygote", str(port)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self.target = self.start()

    def start(self) -> str:
        """Start a server; its target, once it answers there."""
        line = self._told("start")
        assert line.startswith("listening on "), line
        return line.split()[-1]

    def kill(self) -> None:
        """SIGKILL."""
        assert self._told("kill") == "killed"

    def close(self) -> None:
        self._process.communicate()

    def _told(self, what: str) -> str:
        process = self._process
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(f"{what}\n")
        process.stdin.flush()
        return process.stdout.readline().strip()


def be_server(port: int) -> NoReturn:
    os.close(0)
    sys.exit(serve(load({"port": port, "log_level": "error"}, None).settings))


def forever(port: int) -> None:
    """Do what comes on stdin, to its end."""
    server = 0
    for line in sys.stdin:
        if line.strip() == "start":
            server = os.fork()  # gRPC is imported, and not used here
            if not server:
                be_server(port)
        else:
            kill(server)
            server = 0
            print("killed", flush=True)
    if server:
        kill(server)


if __name__ == "__main__":
    forever(int(sys.argv[1]))
