"""``backhaul bench``: how fast a server is from here, in half a minute at most."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass
from typing import Annotated, Any, Final

import numpy as np
import typer
from rich.progress import Progress

import backhaul as bh
from backhaul.commands.common import (
    Json,
    Target,
    TlsCa,
    TlsCert,
    TlsKey,
    TlsName,
    Token,
    connected,
    console,
    print_json,
    table,
    tls_of,
)

_MIN_REPEATS: Final = 5
_GEMM: Final = 1024
_SHOWN_AFTER: Final = 2.0


@dataclass(frozen=True, slots=True)
class Measured:
    """One measurement.

    Attributes:
        name: of what.
        median: the middle of all.
        least: the best, for times the shortest.
        most: the worst.
        unit: of these.
        repeats: how many there were.
    """

    name: str
    median: float
    least: float
    most: float
    unit: str
    repeats: int


def bench(
    target: Target = None,
    seconds: Annotated[
        float, typer.Option(min=0.01, max=60.0, help="For each of its measurements, at most.")
    ] = 1.0,
    megabytes: Annotated[
        float,
        typer.Option(min=0.01, max=4096.0, help="Size of the array that is sent and fetched."),
    ] = 64.0,
    timeout: Annotated[float, typer.Option(help="Seconds to wait for an answer.")] = 60.0,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Json = False,
) -> None:
    """Measure a server from here: round trips, small gradients, arrays each way, a matrix product.

    Medians of as many repeats as fit. What others compute there meanwhile is in it.

    Example: backhaul bench localhost:50051

    Example: backhaul bench unix:///run/backhaul.sock --seconds 5 --json
    """
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
    with connected(target, token, tls, timeout) as connection:
        connection.ping()  # makes the connection
        found = list(_shown(measurements(connection, seconds, megabytes), seconds))
    if as_json:
        print_json({"target": connection.target, "measured": [asdict(each) for each in found]})
        return
    made = table(
        connection.target, "median", "from", "to", "", "repeats", right=frozenset({1, 2, 3, 5})
    )
    for each in found:
        numbers = [
            f"{x:.3g}" if x < 1000 else f"{x:.0f}" for x in (each.median, each.least, each.most)
        ]
        made.add_row(each.name, *numbers, each.unit, str(each.repeats))
    console().print(made)


def measurements(
    connection: bh.Connection,
    seconds: float,
    megabytes: float,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[Measured]:
    """What is measured, one after the other.

    Args:
        connection: to the server.
        seconds: for each, at most; it is repeated some times in any case.
        megabytes: size of the array that travels.
        clock: seconds.
    """

    def repeated(
        name: str, unit: str, scale: float, work: Callable[[], Any], *, rate: bool = False
    ) -> Measured:
        work()  # the first has costs of its own
        times: list[float] = []
        end = clock() + seconds
        while len(times) < _MIN_REPEATS or clock() < end:
            began = clock()
            work()
            times.append(clock() - began)
        values = [scale / each if rate else scale * each for each in times]
        return Measured(
            name, statistics.median(values), min(values), max(values), unit, len(values)
        )

    yield repeated("round trip", "ms", 1e3, connection.ping)

    with bh.Tape(connection) as tape:
        x = tape.leaf(np.arange(8.0))
        yield repeated("small gradient", "ms", 1e3, lambda: tape.pullback(bh.sum(x * x)))
        direction = {x: np.ones(8)}
        yield repeated("small H·v", "ms", 1e3, lambda: tape.hvp(bh.sum(x * x), tangents=direction))

    array = np.ones(max(1, int(megabytes * 1e6 / 8)))
    mega = array.nbytes / 1e6

    def send() -> None:
        leaf = tape.leaf(array)
        tape.flush()
        tape.release(leaf)

    with bh.Tape(connection) as tape:
        yield repeated(f"sent, {mega:.4g} MB", "MB/s", mega, send, rate=True)
        tape.flush()
        held = tape.leaf(array)
        yield repeated(
            f"fetched, {mega:.4g} MB", "MB/s", mega, lambda: (held + 0.0).numpy(), rate=True
        )

    with bh.Tape(connection) as tape:
        a = tape.constant(np.ones((_GEMM, _GEMM)))
        flops = 2e-9 * _GEMM**3
        yield repeated(
            f"matmul, {_GEMM} × {_GEMM} float64",
            "GFLOP/s",
            flops,
            lambda: float(bh.sum((a @ a)[0])),
            rate=True,
        )


def _shown(found: Iterator[Measured], seconds: float) -> Iterator[Measured]:
    """The measurements, with a bar on stderr's terminal where they take long."""
    from rich.console import Console

    errors = Console(stderr=True)
    count = 6
    if seconds * count < _SHOWN_AFTER or not errors.is_terminal:
        yield from found
        return
    with Progress(console=errors, transient=True) as progress:
        task = progress.add_task("measuring", total=count)
        for each in found:
            progress.advance(task)
            yield each
