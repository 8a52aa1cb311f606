"""``backhaul serve`` on the command line: its options are the fields of `ServerSettings`."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable
from functools import wraps
from pathlib import Path
from typing import Annotated, Any

import typer
from pydantic.fields import FieldInfo

from backhaul_proto.errors import BackhaulError
from backhaul_server import described
from backhaul_server.cli import serve
from backhaul_server.config import ServerSettings
from backhaul_server.effective import CONFIG, load, option


def serve_command() -> Any:
    """The command, as typer makes it."""
    app = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
    app.command("serve")(_with_options(_serve))
    return typer.main.get_command(app)


def _serve(
    config: Annotated[
        Path | None,
        typer.Option(help=f"TOML file with settings; {CONFIG} names one too.", metavar="PATH"),
    ] = None,
    print_config: Annotated[
        bool,
        typer.Option(
            "--print-config", help="Print the settings that hold and where from, and serve nothing."
        ),
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --print-config: as one JSON object.")
    ] = False,
    **given: Any,
) -> None:
    """Run a server until SIGTERM or Ctrl-C.

    Options come before environment variables (BACKHAUL_PORT for --port), and these before the TOML file
    (key port).

    Example: backhaul serve --port 50051 --unix /run/user/1000/backhaul.sock
    """
    try:
        flags = {name: value for name, value in given.items() if value is not None}
        effective = load(flags, config)
        if print_config:
            print(described.as_json(effective) if as_json else described.as_toml(effective))
            return
        status = serve(effective.settings)
    except BackhaulError as error:
        print(f"backhaul: {error}", file=sys.stderr)
        status = 1
    raise typer.Exit(status)


def _with_options(function: Callable[..., None]) -> Callable[..., None]:
    """The function with the settings in place of its ``**given``; typer reads options from signatures."""
    signature = inspect.signature(function, eval_str=True)
    *own, _ = signature.parameters.values()
    options = [_option(name, field) for name, field in ServerSettings.model_fields.items()]
    parameters = [each.replace(kind=inspect.Parameter.KEYWORD_ONLY) for each in (*options, *own)]

    @wraps(function)
    def made(**given: Any) -> None:
        function(**given)

    # typeshed does not know the attribute, which `inspect.signature` looks for.
    made.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    made.__annotations__ = {each.name: each.annotation for each in parameters}
    return made


def _option(name: str, field: FieldInfo) -> inspect.Parameter:
    """A setting as an option. What is given is text here; the model checks it, with the other sources'."""
    words = described.choices(field)
    kind = described.kind(field)
    flag = option(name)
    made = typer.Option(
        f"{flag}/--no-{flag[2:]}" if kind is bool else flag,
        help=f"{field.description} [default: {described.default(field)}]",
        show_default=False,
        metavar=None if kind is bool else _metavar(kind, words),
        autocompletion=(lambda incomplete: _beginning(words, incomplete)) if words else None,
    )
    taken = kind if kind in (bool, Path) else str
    return inspect.Parameter(
        name,
        inspect.Parameter.KEYWORD_ONLY,
        default=None,
        annotation=Annotated[taken | None, made],
    )


def _beginning(words: tuple[str, ...], incomplete: str) -> list[str]:
    return [each for each in words if each.startswith(incomplete)]


def _metavar(kind: Any, words: tuple[str, ...]) -> str:
    if words:
        return "|".join(words)
    names = {"str": "TEXT", "int": "NUMBER", "float": "NUMBER", "Path": "PATH", "ByteSize": "SIZE"}
    return names[kind.__name__]
