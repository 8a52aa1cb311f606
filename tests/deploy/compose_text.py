"""docker-compose.yml with its anchors put in: those of the top level, which are all that it has."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from tests.deploy.yaml_text import parse

FILE = Path(__file__).parents[2] / "docker-compose.yml"
_ANCHOR = re.compile(r"^([\w-]+): &([\w-]+)$", re.MULTILINE)
_ALIAS = re.compile(r"^( +)(<<|[\w-]+): \*([\w-]+)$", re.MULTILINE)
_DEFAULT = re.compile(r"\$\{\w+:-([^}]*)\}")


def compose() -> Any:
    """The file as compose reads it where no variable is set."""
    text = FILE.read_text(encoding="utf-8")
    keys = {name: key for key, name in _ANCHOR.findall(text)}
    text = _ALIAS.sub(r'\1"\2": "*\3"', _ANCHOR.sub(r"\1:", text))
    document = parse(_DEFAULT.sub(r"\1", text))

    def put_in(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("*"):
            return put_in(document[keys[value[1:]]])
        if isinstance(value, list):
            return [put_in(each) for each in value]
        if not isinstance(value, dict):
            return value
        own = {key: put_in(each) for key, each in value.items()}
        return {**own.pop("<<", {}), **own}

    return put_in(document)
