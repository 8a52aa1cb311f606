"""A server process that is there again a few hundredths of a second after it was killed.

``python -m tests.chaos.zygote OPTIONS`` imports what ``backhaul serve`` needs once, and forks the servers, as
it is told by lines on stdin: ``start``; or ``kill`` (SIGKILL), which it answers when the server is gone.
"""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Sequence
from typing import NoReturn

from backhaul.cli import main
from backhaul_server.cli import serve as _serve  # noqa: F401: imported before the first fork


class Zygote:
    """The process that forks servers, told from here; its servers die with it.

    Attributes:
        target: where they are, one after the other.
    """

    def __init__(self, *options: str) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.chaos.zygote", *options],
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


def serve(options: Sequence[str]) -> NoReturn:
    os.close(0)
    sys.argv = ["backhaul", "serve", *options]
    main()


def forever(options: Sequence[str]) -> None:
    """Do what comes on stdin, to its end."""
    server = 0
    for line in sys.stdin:
        if line.strip() == "start":
            server = os.fork()  # gRPC is imported, and not used here
            if not server:
                serve(options)
        else:
            _kill(server)
            server = 0
            print("killed", flush=True)
    if server:
        _kill(server)


def _kill(server: int) -> None:
    os.kill(server, signal.SIGKILL)
    os.waitpid(server, 0)


if __name__ == "__main__":
    forever(sys.argv[1:])
