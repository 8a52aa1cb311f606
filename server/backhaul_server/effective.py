"""The effective settings: options before environment variables before the TOML file, and which gave what."""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path
from typing import Any, Final, Literal

from pydantic import ValidationError
from pydantic_settings import EnvSettingsSource, TomlConfigSettingsSource

from backhaul_proto.errors import BackhaulError, make_error
from backhaul_server.config import PREFIX, ServerSettings

CONFIG: Final = f"{PREFIX}CONFIG"
"""The environment variable that names the TOML file."""

_LIKE: Final = 0.85
"""How like a setting's name another one must be to be taken for a slip."""


@dataclass(frozen=True, slots=True)
class Origin:
    """Where a setting came from.

    Attributes:
        kind: which source.
        name: as the operator knows it: ``--port``, ``BACKHAUL_PORT``, ``/etc/backhaul.toml: port``.
    """

    kind: Literal["default", "file", "environment", "flag"]
    name: str


@dataclass(frozen=True, slots=True)
class Effective:
    """The settings, and where each came from.

    Attributes:
        settings: what holds.
        origins: by the name of the field.
    """

    settings: ServerSettings
    origins: Mapping[str, Origin]


def load(flags: Mapping[str, Any], config: Path | None = None) -> Effective:
    """The settings from options, the environment and the TOML file.

    Args:
        flags: the options that were given, by field.
        config: the TOML file; None: the one that ``BACKHAUL_CONFIG`` names, if it does.

    Raises:
        InvalidArgument: INVALID_VALUE, naming the option, variable or key that is wrong.
    """
    named = os.environ.get(CONFIG)
    path = config or (Path(named) if named else None)
    values: dict[str, Any] = {}
    origins = {name: Origin("default", "default") for name in ServerSettings.model_fields}
    if path is not None:
        for name, value in _from_file(path).items():
            values[name], origins[name] = value, Origin("file", f"{path}: {name}")
    for name, value in EnvSettingsSource(ServerSettings)().items():
        values[name], origins[name] = value, Origin("environment", variable(name))
    for name, value in flags.items():
        values[name], origins[name] = value, Origin("flag", option(name))
    try:
        settings = ServerSettings(**values)
    except ValidationError as error:
        raise _wrong(error, origins) from None
    return Effective(settings, origins)


def option(name: str) -> str:
    """The option of a field."""
    return f"--{name.replace('_', '-')}"


def variable(name: str) -> str:
    """The environment variable of a field."""
    return f"{PREFIX}{name.upper()}"


_OF_OTHERS: Final = (
    "BACKHAUL_TARGET",
    "BACKHAUL_TOKEN",
    "BACKHAUL_SERVICE_HOST",
    "BACKHAUL_SERVICE_PORT",
)
"""Variables that are no settings of the server's: clients', and those of a Kubernetes service of its name."""


def slips(environment: Iterable[str]) -> dict[str, str]:
    """Environment variables that nobody reads, but whose names are nearly those of settings: with these."""
    known = [variable(name) for name in ServerSettings.model_fields]
    found = {}
    for each in environment:
        if each.startswith(PREFIX) and each not in (*known, CONFIG, *_OF_OTHERS):
            near = get_close_matches(each.upper(), known, 1, _LIKE)
            if near:
                found[each] = near[0]
    return found


def _from_file(path: Path) -> dict[str, Any]:
    if not path.is_file():
        raise _refusal(f"There is no file {path} to read settings from.", str(path))
    try:
        values = TomlConfigSettingsSource(ServerSettings, path)()
    except (OSError, UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise _refusal(f"{path} cannot be read as TOML: {error}.", str(path)) from None
    for key in values:
        if key not in ServerSettings.model_fields:
            raise _unknown(path, key)
    return values


def _unknown(path: Path, key: str) -> BackhaulError:
    known = list(ServerSettings.model_fields)
    near = get_close_matches(key.lower().replace("-", "_"), known, 1, 0)
    return _refusal(
        f"{path}: {key} is no setting. The nearest is {near[0]}; backhaul serve --help lists all.",
        f"{path}: {key}",
    )


def _wrong(error: ValidationError, origins: Mapping[str, Origin]) -> BackhaulError:
    first = error.errors()[0]
    origin, given = origins[str(first["loc"][0])], first["input"]
    hint = ""
    if origin.kind == "environment" and str(given).startswith("tcp://"):
        hint = (
            " Kubernetes sets it for a Service of this name: set enableServiceLinks to false, or call "
            "the Service otherwise."
        )
    return _refusal(
        f"{origin.name} is {given!r:.100}: {first['msg'].rstrip('.')}.{hint}", origin.name
    )


def _refusal(message: str, source: str) -> BackhaulError:
    return make_error("INVALID_VALUE", message, source=source)
