"""The command ``backhaul``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, NoReturn

import typer
from rich.console import Console

import backhaul
from backhaul import demo as demonstration
from backhaul_proto.errors import BackhaulError

app = typer.Typer(
    name="backhaul",
    help="Remote differentiation: tapes on a server, gradients and Hessian-vector products over gRPC.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_TARGET = typer.Option(
    help="Where the server is: host:port, grpc://, grpcs:// or unix:///path.",
    envvar="BACKHAUL_TARGET",
)


@app.command()
def serve(
    host: Annotated[str | None, typer.Option(help="Address to listen on (127.0.0.1).")] = None,
    port: Annotated[
        int | None, typer.Option(help="TCP port (50051); 0 takes any free one.")
    ] = None,
    unix: Annotated[Path | None, typer.Option(help="A unix socket to listen on as well.")] = None,
    threads: Annotated[
        int | None, typer.Option(help="Calls in the server at once, waiting ones included (64).")
    ] = None,
    streams: Annotated[
        int | None, typer.Option(help="Large requests and answers in the server at once (16).")
    ] = None,
    max_message_bytes: Annotated[
        int | None,
        typer.Option(help="Largest message either way (1 GiB); what is larger travels in pieces."),
    ] = None,
    session_memory: Annotated[
        str | None,
        typer.Option(
            help="Memory that a session may use, such as 512MiB or 4GB (half of what the process may)."
        ),
    ] = None,
    memory: Annotated[
        str | None,
        typer.Option(help="Memory of all sessions together (four fifths of what the process may)."),
    ] = None,
    shared_memory: Annotated[
        str | None,
        typer.Option(
            help="Memory shared with clients of the unix socket, such as 2GiB; 0: none (an eighth of what "
            "the process may)."
        ),
    ] = None,
    lease: Annotated[
        float | None,
        typer.Option(help="Seconds after its last call at which a session ends (600); 0: never."),
    ] = None,
    grace: Annotated[
        float | None, typer.Option(help="Seconds that running calls are given on SIGTERM (10).")
    ] = None,
    plugins: Annotated[
        bool | None,
        typer.Option("--plugins/--no-plugins", help="Load ops of other installed packages (yes)."),
    ] = None,
    keep_memory: Annotated[
        bool | None,
        typer.Option(help="Keep freed memory for the next arrays while there is work (on)."),
    ] = None,
    metrics_port: Annotated[
        int | None,
        typer.Option(help="Port of the metrics for Prometheus, by HTTP (0: none)."),
    ] = None,
    metrics_host: Annotated[
        str | None, typer.Option(help="Address of the metrics (that of the server).")
    ] = None,
    log_format: Annotated[str | None, typer.Option(help="json or text (json).")] = None,
    log_level: Annotated[
        str | None, typer.Option(help="debug, info, warning or error (info).")
    ] = None,
) -> None:
    """Run a server until SIGTERM or Ctrl-C. Each option is also an environment variable BACKHAUL_NAME.

    Example: backhaul serve --port 50051 --unix /run/user/1000/backhaul.sock
    """
    given = {name: value for name, value in locals().items() if value is not None}
    try:
        from pydantic import ValidationError

        from backhaul_server.cli import serve as run
        from backhaul_server.config import ServerSettings
    except ModuleNotFoundError as error:
        _fail(
            f"This needs the server's part ({error.name} is missing): pip install 'backhaul[server]'"
        )
    try:
        settings = ServerSettings(**given)
    except ValidationError as error:
        first = error.errors()[0]
        _fail(f"--{str(first['loc'][0]).replace('_', '-')}: {first['msg']}")
    try:
        status = run(settings)
    except BackhaulError as error:
        _fail(str(error))
    raise typer.Exit(status)


@app.command()
def demo(
    instance: Annotated[
        Path | None, typer.Option(help="A tensor network in the einsum benchmark's JSON format.")
    ] = None,
) -> None:
    """Run the main job in front of you: a server, a client, an einsum network, its gradient and H·v.

    Example: backhaul demo
    """
    try:
        right = demonstration.run(Console(), instance)
    except BackhaulError as error:
        _fail(str(error))
    raise typer.Exit(0 if right else 1)


@app.command()
def ping(
    target: Annotated[str | None, typer.Argument(envvar="BACKHAUL_TARGET")] = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 5.0,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for scripts.")] = False,
) -> None:
    """Ask a server whether it answers, and how fast.

    Example: backhaul ping localhost:50051
    """
    try:
        with backhaul.connect(target, timeout=timeout) as connection:
            connection.ping()  # the first one also makes the connection
            seconds = connection.ping()
            info = connection.info()
    except BackhaulError as error:
        _fail(str(error))
    if as_json:
        facts = {
            "target": connection.target,
            "ms": seconds * 1e3,
            "version": info.version,
            "protocol": info.protocol,
            "backend": info.backend,
        }
        print(json.dumps(facts))
    else:
        print(
            f"{connection.target}: backhaul {info.version} ({info.protocol}, {info.backend}), "
            f"{seconds * 1e3:.2f} ms"
        )


@app.command()
def version() -> None:
    """Print the version."""
    print(backhaul.__version__)


def main() -> NoReturn:
    """Run the command line."""
    app()
    sys.exit()


def _fail(message: str) -> NoReturn:
    print(f"backhaul: {message}", file=sys.stderr)
    raise typer.Exit(1)
