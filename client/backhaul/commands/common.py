"""What the commands have in common: options, a connection, and how they fail."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, Final, NoReturn

import typer
from rich.console import Console
from rich.table import Table

import backhaul
from backhaul_proto.errors import BackhaulError

FAILED: Final = 1
"""Exit status: what was asked could not be done, or is not so. 0: it was; 2: the words make no command."""

_FILE_WIDTH: Final = 200
"""Columns of what is no terminal: no cell is cut there."""

Target = Annotated[
    str | None,
    typer.Argument(
        help="Where the server is: host:port, grpc://, grpcs:// or unix:///path.",
        envvar="BACKHAUL_TARGET",
    ),
]
TargetOption = Annotated[
    str | None,
    typer.Option(
        "--target",
        help="Where the server is, as for ping; else one inside this process.",
        envvar="BACKHAUL_TARGET",
    ),
]
Token = Annotated[
    str | None,
    typer.Option(
        help="Bearer token. Better by $BACKHAUL_TOKEN: others see what a command was given.",
        show_default=False,
    ),
]
TlsCa = Annotated[
    Path | None, typer.Option(help="Root certificates (PEM) for the server's; else the system's.")
]
TlsCert = Annotated[Path | None, typer.Option(help="This client's certificate (PEM).")]
TlsKey = Annotated[Path | None, typer.Option(help="Its private key (PEM).")]
TlsName = Annotated[
    str | None, typer.Option(help="Name that the server's certificate has; else the target's host.")
]
Timeout = Annotated[float, typer.Option(help="Seconds to wait for an answer.")]
Json = Annotated[bool, typer.Option("--json", help="One JSON object for scripts.")]


@contextmanager
def connected(
    target: str | None,
    token: str | None,
    tls: backhaul.TLS | None,
    timeout: float | None,
    *,
    progress: bool = False,
) -> Iterator[backhaul.Connection]:
    """A connection. What goes wrong with it is one line on stderr, and status 1."""
    try:
        with backhaul.connect(
            target, token=token, tls=tls, timeout=timeout, progress=progress
        ) as connection:
            yield connection
    except BackhaulError as error:
        fail(str(error))


def tls_of(
    roots: Path | None, certificate: Path | None, key: Path | None, name: str | None
) -> backhaul.TLS | None:
    """What the options ``--tls-…`` stand for."""
    if roots is None and certificate is None and key is None and name is None:
        return None
    return backhaul.TLS(roots=roots, certificate=certificate, key=key, server_name=name)


def fail(message: str) -> NoReturn:
    """End with one line on stderr, and status 1."""
    print(f"backhaul: {message}", file=sys.stderr)
    raise typer.Exit(FAILED)


def console() -> Console:
    """Where tables go; what is no terminal gets them uncut."""
    made = Console(highlight=False)
    return made if made.is_terminal else Console(highlight=False, width=_FILE_WIDTH)


def table(*columns: str, right: frozenset[int] = frozenset()) -> Table:
    """A table without lines, whose columns of these numbers stand at their right side."""
    made = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for number, name in enumerate(columns):
        made.add_column(name, justify="right" if number in right else "left")
    return made


def print_json(facts: Mapping[str, Any]) -> None:
    """One JSON object on one line."""
    print(json.dumps(facts), file=sys.stdout, flush=True)
