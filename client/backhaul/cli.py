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
from backhaul_proto import tokens
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

Target = Annotated[
    str | None,
    typer.Argument(
        help="Where the server is: host:port, grpc://, grpcs:// or unix:///path.",
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

token_app = typer.Typer(name="token", help="Tokens of a server's callers.", no_args_is_help=True)
app.add_typer(token_app)


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
    target: Target = None,
    timeout: Annotated[float, typer.Option(help="Seconds to wait.")] = 5.0,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for scripts.")] = False,
) -> None:
    """Ask a server whether it answers, and how fast.

    Example: backhaul ping localhost:50051
    """
    try:
        tls = _tls(tls_ca, tls_cert, tls_key, tls_name)
        with backhaul.connect(target, token=token, tls=tls, timeout=timeout) as connection:
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


@token_app.command("new")
def new_token(
    name: Annotated[str, typer.Argument(help="Whose it is to be: the principal.")],
    file: Annotated[
        Path | None, typer.Option(help="Token file of the server, to which its line is added.")
    ] = None,
) -> None:
    """Make a token: it is printed on stdout, this once. The server's file has its digest alone.

    Example: backhaul token new alice --file tokens
    """
    token = tokens.new_token()
    try:
        line = tokens.line_of(name, token)
        if file is not None:
            tokens.add_line(file, line)
    except BackhaulError as error:
        _fail(str(error))
    except (OSError, UnicodeDecodeError) as error:
        _fail(f"The token file {file} cannot be written: {error}")
    print(token, flush=True)
    said = f"for the server's token file: {line}" if file is None else f"added to {file}: {line}"
    print(said, file=sys.stderr)


@app.command()
def version() -> None:
    """Print the version."""
    print(backhaul.__version__)


def main() -> NoReturn:
    """Run the command line."""
    app()
    sys.exit()


def _tls(
    roots: Path | None, certificate: Path | None, key: Path | None, name: str | None
) -> backhaul.TLS | None:
    """What the options ``--tls-…`` stand for."""
    if roots is None and certificate is None and key is None and name is None:
        return None
    return backhaul.TLS(roots=roots, certificate=certificate, key=key, server_name=name)


def _fail(message: str) -> NoReturn:
    print(f"backhaul: {message}", file=sys.stderr)
    raise typer.Exit(1)
