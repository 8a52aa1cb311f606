"""Clients that are processes of their own."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from tests.faults.ways import Way

import backhaul as bh

PREAMBLE = """
import gc, os, select, sys, threading, time
import numpy as np
import backhaul as bh

def connect():
    return bh.connect({target!r}, **{options!r})

def square(connection):
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])
"""
"""What every program begins with."""


def run(
    way: Way,
    targets: Mapping[str, str],
    program: str,
    *,
    environment: Mapping[str, str] | None = None,
    file: Path | None = None,
    timeout: float = 60,
) -> subprocess.CompletedProcess[str]:
    """Run a program that has `connect` and `square` by this way to its end. One that hangs is an error.

    Args:
        way: which one.
        targets: where the server is.
        program: what follows the preamble.
        environment: variables to set.
        file: where to write the program; left out: it is given on the command line.
        timeout: seconds.
    """
    options: dict[str, Any] = {"timeout": 30, **way.options}
    head = PREAMBLE.format(target=targets[way.by], options=options)
    if file is not None:
        file.write_text(head + program)
    return subprocess.run(
        [sys.executable, *(["-c", head + program] if file is None else [str(file)])],
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
        env={**os.environ, **(environment or {})},
    )


def square(connection: bh.Connection) -> float:
    """A small question; its answer is 6."""
    with bh.Tape(connection) as tape:
        x = tape.leaf(3.0)
        return float(tape.pullback(x * x)[x])
