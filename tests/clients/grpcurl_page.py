"""docs/grpcurl.md taken apart: its commands, and what each is said to print."""

from __future__ import annotations

import itertools
import json
import re
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

PAGE: Final = Path(__file__).parents[2] / "docs" / "grpcurl.md"
MORE: Final = "…"
"""Stands for any value; as the last of a list, for more of them; as a key, for more keys."""

_BLOCK: Final = re.compile(r"^```(\w*)\n(.*?)^```$", re.DOTALL | re.MULTILINE)
_WITH_VALUE: Final = {"-d", "-H", "-cacert", "-cert", "-key"}
_WITHOUT: Final = {"-plaintext"}


@dataclass(frozen=True, slots=True)
class Recipe:
    """A command of the page and what follows it.

    Attributes:
        command: as it is written.
        kind: of the block that follows: "json", or "" for text.
        shown: what is in it.
    """

    command: str
    kind: str
    shown: str

    @property
    def is_grpcurl(self) -> bool:
        return self.command.startswith("grpcurl ")

    def __str__(self) -> str:
        return f"{self.command.split()[0]} … {self.command.split()[-1]}"


@dataclass(frozen=True, slots=True)
class Grpcurl:
    """A command line of grpcurl.

    Attributes:
        options: by name; those of `-H` are in ``headers``.
        headers: metadata.
        words: what follows the address.
    """

    options: dict[str, str]
    headers: list[tuple[str, str]]
    words: list[str]

    @property
    def request(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.options.get("-d", "{}"))
        return found


def blocks(page: str) -> list[tuple[str, str]]:
    """Kind and text of each."""
    return [(found[1], found[2]) for found in _BLOCK.finditer(page)]


def recipes(page: str) -> Iterator[Recipe]:
    """In the order of the page, which is that of a session's life."""
    found = blocks(page)
    for (kind, text), (next_kind, shown) in itertools.pairwise(found):
        if kind == "sh":
            assert next_kind in ("", "json"), f"nothing is shown for {text}"
            yield Recipe(text.strip(), next_kind, shown)


def grpcurl(command: str) -> Grpcurl:
    """What a command line says; an option that is not known here is an error."""
    program, *rest = shlex.split(command.replace("\\\n", ""))  # a shell's continued lines
    assert program == "grpcurl"
    options: dict[str, str] = {}
    headers: list[tuple[str, str]] = []
    while rest[0].startswith("-"):
        option = rest.pop(0)
        if option in _WITHOUT:
            options[option] = ""
            continue
        assert option in _WITH_VALUE, option
        value = rest.pop(0)
        if option == "-H":
            name, _, content = value.partition(": ")
            headers.append((name, content))
        else:
            options[option] = value
    _address, *words = rest
    return Grpcurl(options, headers, words)


def error(shown: str) -> tuple[str, str, list[Any]]:
    """Code, message and details of an error as grpcurl prints it."""
    found = re.fullmatch(
        r"ERROR:\n  Code: (\w+)\n  Message: (.*?)\n  Details:\n(.*)", shown, re.DOTALL
    )
    assert found is not None, shown
    details = re.split(r"^  \d+\)\t", found[3], flags=re.MULTILINE)[1:]
    return found[1], found[2], [json.loads(each) for each in details]


def agrees(shown: Any, found: Any) -> bool:
    """Whether what was found is what is shown, where that is no `MORE`."""
    if shown == MORE:
        return True
    if isinstance(shown, dict) and isinstance(found, dict):
        named = shown.keys() - {MORE}
        return (named == found.keys() if named == shown.keys() else named <= found.keys()) and all(
            agrees(shown[key], found[key]) for key in named
        )
    if isinstance(shown, list) and isinstance(found, list):
        if MORE not in shown:
            return len(shown) == len(found) and all(map(agrees, shown, found))
        return all(any(agrees(each, other) for other in found) for each in shown)
    return bool(shown == found)
