"""What a large tensor takes in memory at both ends, up and down, above what was there before.

Client and server are new processes for each figure, as memory that was used before would hide what is
used now. The client's own array is there before; what the server sends is computed there before. Pages
shared by both ends count at both.
"""

from __future__ import annotations

import multiprocessing
from multiprocessing.connection import Connection
from typing import Any, Final

import numpy as np
from benchmarks.memory_use import forget_peak, peak_resident, resident
from benchmarks.timing import Figure
from benchmarks.wire.section import Section
from benchmarks.wire.ways import Target, open_target, serving

import backhaul as bh

_SPAWN: Final = multiprocessing.get_context("spawn")
_SIDE: Final = 5_000  # 5,000² float64 are 200 MB
_BYTES: Final = 8 * _SIDE**2
_SENDER, _RECEIVER, _EMBEDDED = 1.3, 2.2, 1.1
_EMBEDDED_TARGET: Final[Target] = ("embedded", {})


def measure(quick: bool) -> list[Section]:
    """The table; in a quick run over TCP alone."""
    figures: list[Figure] = []
    with serving() as server:
        names = list(server.targets())[: 1 if quick else None]
    for direction in ("up", "down"):
        for name in names:
            with serving() as server:
                client, other = _grown(server.targets()[name], direction, server.pid)
            ends = (("sender", client), ("receiver", other))
            if direction == "down":
                ends = (("receiver", client), ("sender", other))
            for end, grown in ends:
                goal = _SENDER if end == "sender" else _RECEIVER
                figures.append(_figure(f"{name}, {direction}: {end}", grown, goal))
        grown, _ = _grown(_EMBEDDED_TARGET, direction, None)
        figures.append(_figure(f"embedded, {direction}", grown, _EMBEDDED))
    return [Section(f"Memory of a tensor of {_BYTES // 10**6} MB, growth / its size", figures)]


def _figure(name: str, grown: int, goal: float) -> Figure:
    return Figure(name, grown / _BYTES, goal, detail=f"{grown / 1e6:.0f} MB")


def _grown(target: Target, direction: str, server: int | None) -> tuple[int, int]:
    """Bytes that client and server grew by at their peaks."""
    pipe, theirs = _SPAWN.Pipe()
    client = _SPAWN.Process(target=_client, args=(theirs, target, direction), daemon=True)
    client.start()
    theirs.close()
    pipe.recv()  # it is ready
    before = _start(server) if server is not None else 0
    pipe.send(None)
    try:
        grown = pipe.recv()
    except EOFError:
        raise SystemExit(f"The client of {target[0]} ended; what it says stands above.") from None
    other = peak_resident(server) - before if server is not None else 0
    client.join()
    return grown, other


def _start(pid: int | str) -> int:
    forget_peak(pid)
    return resident(pid)


def _client(pipe: Connection, target: Target, direction: str) -> None:
    with open_target(target) as connection:
        tape = bh.Tape(connection)
        (tape.leaf(np.ones(4)) * 2.0).numpy()
        array: Any = np.ones((_SIDE, _SIDE)) if direction == "up" else None
        if direction == "down":
            column = tape.leaf(np.ones(_SIDE))
            product = bh.einsum("i,j->ij", column, column)
            product[0, 0].item()
        pipe.send(None)
        pipe.recv()
        before = _start("self")
        if direction == "up":
            leaf = tape.leaf(array)
            leaf[0, 0].item()
        else:
            value = product.numpy()
            assert value[0, 0] == 1.0
        pipe.send(peak_resident() - before)
