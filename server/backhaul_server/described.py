"""Settings as people read them: their defaults, the table of the docs, the effective ones as TOML or JSON."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import UnionType
from typing import Any, Literal, Union, get_args, get_origin

from pydantic import ByteSize
from pydantic.fields import FieldInfo

from backhaul_proto._version import __version__
from backhaul_server.config import Otherwise, ServerSettings
from backhaul_server.effective import Effective, option, variable


def kind(field: FieldInfo) -> Any:
    """The type of a field, without None."""
    annotation = field.annotation
    if get_origin(annotation) in (Union, UnionType):
        (annotation,) = (each for each in get_args(annotation) if each is not type(None))
    return annotation


def choices(field: FieldInfo) -> tuple[str, ...]:
    """The words that a field may be; none where it is no choice of words."""
    annotation = kind(field)
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def default(field: FieldInfo) -> str:
    """What holds when a setting is not given."""
    value = field.default
    if value is None:
        return next((each.text for each in field.metadata if isinstance(each, Otherwise)), "none")
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return size(value) if isinstance(value, ByteSize) else str(value)


def size(nbytes: ByteSize) -> str:
    """Bytes in the largest unit, such as ``1GiB``."""
    return nbytes.human_readable().replace(".0", "")


def table() -> str:
    """The table of docs/serving.md."""
    rows = ["| option | default | what |", "| --- | --- | --- |"]
    for name, field in ServerSettings.model_fields.items():
        written = f"`{option(name)}`"
        if kind(field) is bool:
            written += f", `--no-{name.replace('_', '-')}`"
        assert field.description, f"{name} has no description"
        rows.append(f"| {written} | {default(field)} | {field.description} |")
    return "\n".join(rows) + "\n"


def as_toml(effective: Effective) -> str:
    """A TOML file of the effective settings; each line says where its value came from."""
    return "\n".join([f"# backhaul {__version__}: the settings that hold", *_lines(effective)])


def as_json(effective: Effective) -> str:
    """One JSON object: by setting its value, the kind of its source and the source's name."""
    return json.dumps(
        {
            name: {
                "value": str(value) if isinstance(value, Path) else value,
                "source": effective.origins[name].kind,
                "from": effective.origins[name].name,
                "option": option(name),
                "variable": variable(name),
            }
            for name, value in effective.settings
        },
        indent=2,
    )


def _lines(effective: Effective) -> Iterator[str]:
    for name, value in effective.settings:
        origin = effective.origins[name].name
        if value is None:
            yield f"# {name}: {default(ServerSettings.model_fields[name])}  # {origin}"
        elif isinstance(value, ByteSize):
            yield f"{name} = {int(value)}  # {size(value)}, {origin}"
        else:
            yield f"{name} = {_written(value)}  # {origin}"


def _written(value: Any) -> str:
    """A value in TOML. Its strings are JSON's, but for one control character that has to be escaped too."""
    if isinstance(value, bool | int | float):
        return json.dumps(value)
    return json.dumps(str(value), ensure_ascii=False).replace("\x7f", "\\u007f")
