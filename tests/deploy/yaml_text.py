"""Read the YAML of deploy/: block mappings and sequences, flow ones on one line, scalars, block scalars.

No library for it is among what the tests install. Anything else (anchors, tags, plain scalars over
several lines, tabs, a key twice) is an error, so that what passes is read alike by every YAML parser.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_KEY = re.compile(r"""("(?:[^"\\]|\\.)*"|[A-Za-z_./0-9$][\w./$-]*):(?: +(.*))?$""")
_NUMBER = re.compile(r"-?(0|[1-9]\d*)(\.\d+)?$")
_WORDS = {"true": True, "false": False, "null": None, "~": None}
_AMBIGUOUS = re.compile(
    r"(yes|no|on|off|y|n|[+-]?0\d+|0x[\da-f]+|[\d:]+|\d[\d_.]*e.*)$", re.IGNORECASE
)


def read(path: Path) -> Any:
    """The one document of a file."""
    (document,) = read_all(path)
    return document


def parse(text: str) -> Any:
    """The one document of a text."""
    return _Reader(text).document()


def read_all(path: Path) -> list[Any]:
    """The documents of a file."""
    text = path.read_text(encoding="utf-8")
    try:
        return [parse(part) for part in re.split(r"^---$", text, flags=re.MULTILINE)]
    except ValueError as error:
        raise ValueError(f"{path.name}: {error}") from None


@dataclass(frozen=True, slots=True)
class _Line:
    indent: int
    text: str


class _Reader:
    def __init__(self, text: str) -> None:
        if "\t" in text:
            raise ValueError("a tab")
        self._lines = [
            _Line(len(each) - len(each.lstrip()), each.strip()) for each in text.split("\n")
        ]
        self._at = 0

    def document(self) -> Any:
        first = self._peek()
        value = None if first is None else self._block(first.indent)
        if (rest := self._peek()) is not None:
            raise ValueError(f"not expected here: {rest.text!r}")
        return value

    def _peek(self) -> _Line | None:
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text and not line.text.startswith("#"):
                return line
            self._at += 1
        return None

    def _block(self, indent: int) -> Any:
        line = self._peek()
        assert line is not None
        if line.text.startswith("- ") or line.text == "-":
            return self._sequence(indent)
        if _KEY.match(line.text):
            return self._mapping(indent)
        self._at += 1
        return _scalar(line.text)

    def _sequence(self, indent: int) -> list[Any]:
        found = []
        while (line := self._peek()) and line.indent == indent and line.text.startswith("- "):
            rest = line.text[2:].lstrip()
            inner = indent + len(line.text) - len(rest)
            self._lines[self._at] = _Line(inner, rest)
            found.append(self._block(inner))
        self._ends_at(indent)
        return found

    def _mapping(self, indent: int) -> dict[str, Any]:
        found: dict[str, Any] = {}
        while (line := self._peek()) and line.indent == indent and (key := _KEY.match(line.text)):
            name = json.loads(key[1]) if key[1].startswith('"') else key[1]
            if name in found:
                raise ValueError(f"{name!r} twice")
            self._at += 1
            found[name] = self._value((key[2] or "").strip(), indent)
        self._ends_at(indent)
        return found

    def _ends_at(self, indent: int) -> None:
        if (line := self._peek()) and line.indent > indent:
            raise ValueError(f"not expected here: {line.text!r}")

    def _value(self, text: str, indent: int) -> Any:
        text = _uncommented(text)
        if text in ("|", "|-", ">", ">-"):
            return self._text(text, indent)
        if text:
            return _scalar(text)
        line = self._peek()
        if (
            line is None
            or line.indent < indent
            or (line.indent == indent and line.text[:2] != "- ")
        ):
            return None
        return self._block(line.indent)

    def _text(self, style: str, indent: int) -> str:
        lines = []
        while self._at < len(self._lines):
            line = self._lines[self._at]
            if line.text and line.indent <= indent:
                break
            lines.append(line)
            self._at += 1
        while lines and not lines[-1].text:
            lines.pop()
        if not lines:
            raise ValueError("a block scalar without lines")
        own = lines[0].indent
        texts = [" " * (each.indent - own) + each.text if each.text else "" for each in lines]
        if style[0] == ">":
            if any(not each or each.startswith(" ") for each in texts):
                raise ValueError("a folded scalar with more than one paragraph")
            texts = [" ".join(texts)]
        return "\n".join(texts) + ("" if style.endswith("-") else "\n")


def _uncommented(text: str) -> str:
    if text.startswith("#"):
        return ""
    if text.startswith('"'):
        end = re.match(r'"(?:[^"\\]|\\.)*"', text)
        if end is not None and re.fullmatch(r"\s*(#.*)?", text[end.end() :]):
            return end[0]
        raise ValueError(f"something after a string: {text!r}")
    return re.split(r"\s+#", text, maxsplit=1)[0]


def _scalar(text: str) -> Any:
    text = _uncommented(text)
    if text.startswith('"'):
        return json.loads(text)
    if text.startswith(("[", "{")):
        value, rest = _flow(text)
        if rest.strip():
            raise ValueError(f"something after a flow value: {text!r}")
        return value
    return _plain(text)


def _plain(text: str) -> Any:
    if text in _WORDS:
        return _WORDS[text]
    if match := _NUMBER.fullmatch(text):
        return float(text) if match[2] else int(text)
    if _AMBIGUOUS.match(text) or text[:1] in "'&*!|>%@`?" or ": " in text or text.endswith(":"):
        raise ValueError(f"to be put into double quotes: {text!r}")
    return text


def _flow(text: str) -> tuple[Any, str]:
    """The value that the text begins with, and what follows it."""
    if text.startswith('"'):
        value, end = json.JSONDecoder().raw_decode(text)
        return value, text[end:].lstrip()
    if text[:1] not in ("[", "{"):
        match = re.match(r"[^,\[\]{}]+", text)
        if match is None:
            raise ValueError(f"a value is missing before {text!r}")
        return _plain(match[0].strip()), text[match.end() :]
    mapping, closing = text[0] == "{", "}" if text[0] == "{" else "]"
    items: list[Any] = []
    pairs: dict[str, Any] = {}
    text = text[1:].lstrip()
    while not text.startswith(closing):
        if mapping:
            key = re.match(r'("(?:[^"\\]|\\.)*"|[^\s:,"]+): *', text)
            if key is None:
                raise ValueError(f"a key is missing before {text!r}")
            name = json.loads(key[1]) if key[1].startswith('"') else key[1]
            pairs[name], text = _flow(text[key.end() :])
        else:
            item, text = _flow(text)
            items.append(item)
        text = text.lstrip()
        if text.startswith(","):
            text = text[1:].lstrip()
        elif not text.startswith(closing):
            raise ValueError(f"a flow value that does not end: {text!r}")
    return (pairs if mapping else items), text[1:]
