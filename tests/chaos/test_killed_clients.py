"""A short form of `killed_clients`."""

from __future__ import annotations

import subprocess
import sys


def test_nothing_is_left_of_killed_clients() -> None:
    # Of eight clients 64 MB would be left; a fifth of the server's memory is half of that.
    options = [
        "--clients",
        "8",
        "--at-once",
        "4",
        "--lease",
        "0.7",
        "--seed",
        "5",
        "--within",
        "0.2",
    ]
    command = [sys.executable, "-m", "tests.chaos.killed_clients", *options]
    # In a process of its own: it forks clients, which gRPC allows only before it is used.
    ran = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "nothing is left of them" in ran.stdout
