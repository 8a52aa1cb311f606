"""A server process whose steps take time until a test lets them go, on a machine of any speed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from tests.client.waiting import wait_until
from tests.e2e.server_process import ServerProcess, serving

import backhaul as bh

STEPS = 20_000
"""Steps of `Held.chain`: minutes, as long as they are held, and a second or so when they are let go."""

# What the server imports as a plugin.
_HOLDING = """
import time
from pathlib import Path
from backhaul_server.engine.tape import Tape

run = Tape.run

def held(*arguments):
    Path({begun!r}).touch()
    go_on, stuck = Path({go_on!r}), Path({stuck!r})
    if not go_on.exists():
        time.sleep(0.01)
    while stuck.exists():
        time.sleep(0.01)
    return run(*arguments)

Tape.run = held
"""


class Held:
    """The server, and what holds its steps.

    Attributes:
        server: the process.
        target: where it listens.
    """

    def __init__(self, server: ServerProcess, folder: Path) -> None:
        self.server = server
        self.target = server.target
        self._folder = folder

    def chain(self, tape: bh.Tape) -> Any:
        """A loss of `STEPS`, in as many steps."""
        one, total = tape.leaf(1.0), tape.leaf(0.0)
        for _ in range(STEPS):
            total = total + one
        return total

    def asked(self, pool: ThreadPoolExecutor, loss: Any, *, stuck: bool = False) -> Future[float]:
        """A loss that is asked for; the server is at it.

        Args:
            pool: where to ask.
            loss: what.
            stuck: its first step does not end.
        """
        begun = self._folder / "begun"
        begun.unlink(missing_ok=True)
        if stuck:
            (self._folder / "stuck").touch()
        asked = pool.submit(lambda: float(loss))
        wait_until(begun.exists)
        return asked

    def go_on(self) -> None:
        """Steps take no more time than they need from now on."""
        (self._folder / "go_on").touch()


@contextmanager
def held(folder: Path, *options: str) -> Iterator[Held]:
    """Such a server; what holds it lies in the folder."""
    record = folder / "held-1.dist-info"
    record.mkdir()
    (record / "METADATA").write_text("Metadata-Version: 2.1\nName: held\nVersion: 1\n")
    (record / "entry_points.txt").write_text("[backhaul.ops]\nheld = holding_steps\n")
    files = {name: str(folder / name) for name in ("begun", "go_on", "stuck")}
    (folder / "holding_steps.py").write_text(_HOLDING.format(**files))
    path = os.pathsep.join(filter(None, (str(folder), os.environ.get("PYTHONPATH", ""))))
    with serving(*options, environment={"PYTHONPATH": path}) as server:
        yield Held(server, folder)
