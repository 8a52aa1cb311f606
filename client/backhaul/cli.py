"""The command ``backhaul``."""

from __future__ import annotations

import json
import statistics
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer
from rich.console import Console
from typer.core import TyperGroup

import backhaul
from backhaul import demo as demonstration
from backhaul.commands.bench import bench
from backhaul.commands.check import check
from backhaul.commands.common import (
    FAILED,
    Json,
    Target,
    Timeout,
    TlsCa,
    TlsCert,
    TlsKey,
    TlsName,
    Token,
    connected,
    fail,
    tls_of,
)
from backhaul.commands.einsum import einsum
from backhaul.commands.ops import ops
from backhaul.endpoint import endpoint
from backhaul.monitoring import show_sessions, show_top
from backhaul.workers import show_workers
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

workers_app = typer.Typer(
    name="workers", help="Workers of a Ray cluster that servers have their sessions in."
)
app.add_typer(workers_app)
RayAddress = Annotated[
    str,
    typer.Option(
        help="The Ray cluster, such as 10.0.0.1:6379; auto: that of this machine.",
        envvar="BACKHAUL_RAY_ADDRESS",
    ),
]
RayNamespace = Annotated[
    str,
    typer.Option(help="Namespace of the workers in it.", envvar="BACKHAUL_RAY_NAMESPACE"),
]

token_app = typer.Typer(name="token", help="Tokens of a server's callers.", no_args_is_help=True)
app.add_typer(token_app)
for each in (ops, check, bench, einsum):
    app.command()(each)


@app.command(context_settings={"allow_extra_args": True, "ignore_unknown_options": True})
def serve() -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Needs the server's part: pip install 'backhaul[server]'. It has the options.
    """
    try:
        import backhaul_server.command  # noqa: F401  which of its libraries is missing?
    except ModuleNotFoundError as error:
        fail(
            f"This needs the server's part ({error.name} is missing): pip install 'backhaul[server]'"
        )


@app.command()
def demo(
    instance: Annotated[
        Path | None, typer.Option(help="A tensor network in the einsum benchmark's JSON format.")
    ] = None,
    target: Annotated[
        str | None,
        typer.Option(help="A server that runs, as for ping; else one is started for it."),
    ] = None,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
) -> None:
    """Run the main job in front of you: a server, a client, an einsum network, its gradient and H·v.

    Example: backhaul demo
    """
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
    try:
        right = demonstration.run(Console(), instance, target, token=token, tls=tls)
    except BackhaulError as error:
        fail(str(error))
    raise typer.Exit(0 if right else FAILED)


@app.command()
def ping(
    target: Target = None,
    count: Annotated[int, typer.Option(min=1, help="Round trips to time.")] = 1,
    health: Annotated[
        bool,
        typer.Option("--health", help="Ask the health service alone; status 0 if it says SERVING."),
    ] = False,
    timeout: Timeout = 5.0,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Json = False,
) -> None:
    """Ask a server whether it answers, and how fast.

    Example: backhaul ping localhost:50051
    """
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
    if health:
        _check_health(target, token, tls, timeout, as_json=as_json)
        return
    with connected(target, token, tls, timeout) as connection:
        connection.ping()  # the first one also makes the connection
        ms = [connection.ping() * 1e3 for _ in range(count)]
        info = connection.info()
    low, middle, high = min(ms), statistics.median(ms), max(ms)
    if as_json:
        facts = {
            "target": connection.target,
            "ms": middle,
            "version": info.version,
            "protocol": info.protocol,
            "backend": info.backend,
            "devices": [each.name for each in info.devices],
            "count": count,
            "min_ms": low,
            "max_ms": high,
        }
        print(json.dumps(facts))
        return
    took = f"{middle:.2f} ms"
    if count > 1:
        took = f"{count} round trips, ms: min {low:.2f}, median {middle:.2f}, max {high:.2f}"
    others = ", ".join(each.name for each in info.devices)
    backend = f"{info.backend} on {others}" if len(info.devices) > 1 else info.backend
    print(f"{connection.target}: backhaul {info.version} ({info.protocol}, {backend}), {took}")


@app.command()
def sessions(
    target: Target = None,
    timeout: Timeout = 5.0,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Json = False,
) -> None:
    """List your own sessions on a server: by digests, nobody learns an id.

    Example: backhaul sessions localhost:50051
    """
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
    with connected(target, token, tls, timeout) as connection:
        show_sessions(connection, as_json=as_json)


@app.command()
def top(
    target: Target = None,
    count: Annotated[
        int | None, typer.Option(min=1, help="Refreshes before it ends; else at Ctrl-C.")
    ] = None,
    once: Annotated[bool, typer.Option("--once", help="Short for --count 1.")] = False,
    interval: Annotated[float, typer.Option(min=0.1, help="Seconds between refreshes.")] = 1.0,
    timeout: Timeout = 5.0,
    token: Token = None,
    tls_ca: TlsCa = None,
    tls_cert: TlsCert = None,
    tls_key: TlsKey = None,
    tls_name: TlsName = None,
    as_json: Annotated[bool, typer.Option("--json", help="A JSON object each refresh.")] = False,
) -> None:
    """Watch your own sessions on a server, those that compute most first.

    When the server does not answer that is said, and the sessions are shown again when it does.

    Example: backhaul top localhost:50051
    """
    tls = tls_of(tls_ca, tls_cert, tls_key, tls_name)
    with connected(target, token, tls, timeout) as connection, suppress(KeyboardInterrupt):
        show_top(connection, count=1 if once else count, interval=interval, as_json=as_json)


@workers_app.command("list")
def list_workers(
    ray_address: RayAddress = "auto",
    ray_namespace: RayNamespace = "backhaul",
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object for scripts.")] = False,
) -> None:
    """List the workers: where they are, and what they bear.

    Example: backhaul workers list --ray-address 10.0.0.1:6379
    """
    with _workers(ray_address, ray_namespace) as cluster:
        show_workers(cluster.workers(), as_json=as_json)


@workers_app.command("drain")
def drain_workers(
    name: Annotated[str, typer.Argument(help="A worker, or a node, as they are listed.")],
    ray_address: RayAddress = "auto",
    ray_namespace: RayNamespace = "backhaul",
) -> None:
    """Let workers have no new sessions. Each ends when it has none any more, and another is started.

    A node's own are not replaced on that node. Sessions are not moved.

    Example: backhaul workers drain 10.0.0.7 --ray-address 10.0.0.1:6379
    """
    with _workers(ray_address, ray_namespace) as cluster:
        drained = cluster.drain(name)
    if not drained:
        fail(f"No worker or node is called {name}: see `backhaul workers list`.")
    for each in drained:
        print(f"draining {each}")


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
        fail(str(error))
    except (OSError, UnicodeDecodeError) as error:
        fail(f"The token file {file} cannot be written: {error}")
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


@contextmanager
def _workers(address: str, namespace: str) -> Iterator[Any]:
    """The workers of a cluster. What goes wrong with it is one line on stderr, and status 1."""
    try:
        from backhaul_server.cluster.facts import Away
        from backhaul_server.cluster.starting import find_workers
    except ModuleNotFoundError as error:
        fail(f"This needs Ray ({error.name} is missing): pip install 'backhaul[server,ray]'")
    try:
        cluster = find_workers(address, namespace)
        try:
            yield cluster
        finally:
            cluster.close()
    except BackhaulError as error:
        fail(str(error))
    except Away as error:
        fail(f"{error} cannot be reached at the moment.")


def _check_health(
    target: str | None,
    token: str | None,
    tls: backhaul.TLS | None,
    timeout: float,
    *,
    as_json: bool,
) -> None:
    from backhaul.transport.health import SERVING, Probe

    try:
        given = endpoint(target, token, tls, timeout)
        status = Probe(given).check(given.timeout)
    except BackhaulError as error:
        fail(str(error))
    facts = {"target": str(given.target), "status": status}
    print(json.dumps(facts) if as_json else f"{given.target}: {status}")
    if status != SERVING:
        raise typer.Exit(FAILED)
