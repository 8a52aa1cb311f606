"""The command ``backhaul``."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

import backhaul
from backhaul import demo as demonstration
from backhaul_proto.errors import BackhaulError


class _Commands(TyperGroup):
    """The commands. ``serve`` is made from the server's settings, where they are installed."""

    def resolve_command(self, ctx: Any, args: Any) -> Any:
        """The command that the words begin with, and the words behind it."""
        name, command, rest = super().resolve_command(ctx, args)
        if name == "serve":
            try:
                from backhaul_server.command import serve_command
            except ModuleNotFoundError:
                return name, command, rest
            command = serve_command()
        return name, command, rest


app = typer.Typer(
    name="backhaul",
    cls=_Commands,
    help="Remote differentiation: tapes on a server, gradients and Hessian-vector products over gRPC.",
    no_args_is_help=True,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)

_TARGET = typer.Option(
    help="Where the server is: host:port, grpc://, grpcs:// or unix:///path.",
    envvar="BACKHAUL_TARGET",
)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve() -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Needs the server's part: pip install 'backhaul[server]'. It has the options.
    """
    try:
        import backhaul_server.command  # noqa: F401  which of its libraries is missing?
    except ModuleNotFoundError as error:
        _fail(
            f"This needs the server's part ({error.name} is missing): pip install 'backhaul[server]'"
        )


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
