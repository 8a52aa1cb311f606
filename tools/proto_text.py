"""Read .proto files with their comments: as much of the language as this project's files use.

What it does not know is an error that names the line, never passed over.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final, NoReturn

_TOKEN: Final = re.compile(
    r"""
    (?P<comment>//[^\n]*)
  | (?P<blank>\n[ \t]*(?=\n))
  | (?P<space>\s)
  | (?P<string>"[^"\n]*")
  | (?P<word>[\w.]+)
  | (?P<sign>[{}()<>\[\]=;,-])
    """,
    re.VERBOSE,
)


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a message.

    Attributes:
        label: "repeated", "optional" or "".
        type: as it is written, such as "map<string, string>".
        oneof: the oneof that it is in, or "".
    """

    name: str
    number: int
    label: str
    type: str
    oneof: str
    comment: str


@dataclass(frozen=True, slots=True)
class Message:
    """A message, and what is said of each of its oneofs."""

    name: str
    comment: str
    fields: tuple[Field, ...]
    oneofs: dict[str, str]


@dataclass(frozen=True, slots=True)
class Value:
    """A value of an enum."""

    name: str
    number: int
    comment: str


@dataclass(frozen=True, slots=True)
class Enum:
    """An enum."""

    name: str
    comment: str
    values: tuple[Value, ...]


@dataclass(frozen=True, slots=True)
class Method:
    """A method of a service."""

    name: str
    comment: str
    request: str
    response: str
    request_streams: bool
    response_streams: bool


@dataclass(frozen=True, slots=True)
class Service:
    """A service."""

    name: str
    comment: str
    methods: tuple[Method, ...]


@dataclass(frozen=True, slots=True)
class Remark:
    """A comment that belongs to no declaration: one that a blank line parts from what follows."""

    text: str


Declaration = Message | Enum | Service | Remark


@dataclass(frozen=True, slots=True)
class ProtoFile:
    """A file: its comment before ``syntax``, its package, and what it declares, in order."""

    name: str
    comment: str
    package: str
    declarations: tuple[Declaration, ...]


@dataclass(frozen=True, slots=True)
class _Token:
    kind: str
    text: str
    line: int


def read(path: Path) -> ProtoFile:
    """The file at this path.

    Raises:
        ValueError: something in it that is not known here; says where.
    """
    return parse(path.read_text(encoding="utf-8"), path.name)


def parse(text: str, name: str) -> ProtoFile:
    """A file's text; as `read`."""
    reader = _Reader(name, _tokens(text, name))
    reader.comments()
    comment = reader.take_comment()
    reader.words("syntax", "=", '"proto3"', ";")
    package = ""
    declared: list[Declaration] = []
    while True:
        reader.comments()
        declared += [Remark(each) for each in reader.take_detached()]
        said = reader.take_comment()
        token = reader.next()
        match token.text:
            case "":
                declared += [Remark(said)] if said else []
                return ProtoFile(name, comment, package, tuple(declared))
            case "package":
                package = reader.word()
                reader.words(";")
            case "import":
                reader.string()
                reader.words(";")
            case "message":
                declared.append(reader.message(said))
            case "enum":
                declared.append(reader.enum(said))
            case "service":
                declared.append(reader.service(said))
            case _:
                reader.unknown(token)


def _tokens(text: str, name: str) -> list[_Token]:
    found = []
    at, line = 0, 1
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"{name}:{line}: {text[at]!r} is not known here")
        kind = str(match.lastgroup)
        if kind == "comment" and text[text.rfind("\n", 0, at) + 1 : at].strip():
            raise ValueError(f"{name}:{line}: a comment stands above what it is about")
        if kind != "space":
            found.append(_Token(kind, match[0], line))
        line += match[0].count("\n")
        at = match.end()
    return [*found, _Token("end", "", line)]


@dataclass(slots=True)
class _Reader:
    """Reads tokens one after the other; keeps the comments met until they are taken."""

    name: str
    tokens: list[_Token]
    at: int = 0
    detached: list[str] = field(default_factory=list)
    leading: str = ""

    # ------------------------------------------------------------ declarations

    def message(self, comment: str) -> Message:
        name = self.word()
        fields: list[Field] = []
        oneofs: dict[str, str] = {}
        self.words("{")
        while (token := self.commented()).text != "}":
            if token.text == "oneof":
                said, oneof = self.take_comment(), self.word()
                oneofs[oneof] = said
                self.words("{")
                while (inner := self.commented()).text != "}":
                    fields.append(self.field(inner, oneof))
            else:
                fields.append(self.field(token, ""))
        return Message(name, comment, tuple(fields), oneofs)

    def field(self, token: _Token, oneof: str) -> Field:
        comment = self.take_comment()
        label = ""
        if token.text in ("repeated", "optional"):
            label, token = token.text, self.next()
        if token.kind != "word":
            self.unknown(token)
        kind = token.text
        if kind == "map":
            self.words("<")
            key = self.word()
            self.words(",")
            kind = f"map<{key}, {self.word()}>"
            self.words(">")
        name = self.word()
        self.words("=")
        number = self.number()
        if self.tokens[self.at].text == "[":
            self.words("[", "packed", "=", "true", "]")
        self.words(";")
        return Field(name, number, label, kind, oneof, comment)

    def enum(self, comment: str) -> Enum:
        name = self.word()
        values = []
        self.words("{")
        while (token := self.commented()).text != "}":
            if token.kind != "word":
                self.unknown(token)
            said = self.take_comment()
            self.words("=")
            values.append(Value(token.text, self.number(), said))
            self.words(";")
        return Enum(name, comment, tuple(values))

    def service(self, comment: str) -> Service:
        name = self.word()
        methods = []
        self.words("{")
        while (token := self.commented()).text != "}":
            if token.text != "rpc":
                self.unknown(token)
            said, method = self.take_comment(), self.word()
            request, request_streams = self.type_of_call()
            self.words("returns")
            response, response_streams = self.type_of_call()
            self.words(";")
            methods.append(
                Method(method, said, request, response, request_streams, response_streams)
            )
        return Service(name, comment, tuple(methods))

    def type_of_call(self) -> tuple[str, bool]:
        self.words("(")
        first = self.word()
        name = self.word() if first == "stream" else first
        self.words(")")
        return name, first == "stream"

    # ------------------------------------------------------------ comments

    def comments(self) -> None:
        """Take in the comments that come next; the last block is of what follows without a blank line."""
        block: list[str] = []
        while (token := self.tokens[self.at]).kind in ("comment", "blank"):
            if token.kind == "comment":
                block.append(token.text.removeprefix("//").strip())
            elif block:
                self.detached.append("\n".join(block))
                block = []
            self.at += 1
        self.leading = "\n".join(block)

    def commented(self) -> _Token:
        """The next token inside a declaration, where every comment belongs to what follows it."""
        self.comments()
        token = self.next()
        if self.detached or (token.text == "}" and self.leading):
            raise ValueError(f"{self.name}:{token.line}: a comment before this belongs to nothing")
        return token

    def take_comment(self) -> str:
        taken, self.leading = self.leading, ""
        return taken

    def take_detached(self) -> list[str]:
        taken, self.detached = self.detached, []
        return taken

    # ------------------------------------------------------------ tokens

    def next(self) -> _Token:
        while self.tokens[self.at].kind == "blank":
            self.at += 1
        token = self.tokens[self.at]
        if token.kind == "comment":
            raise ValueError(f"{self.name}:{token.line}: a comment within a declaration")
        self.at += token.kind != "end"
        return token

    def words(self, *expected: str) -> None:
        for text in expected:
            token = self.next()
            if token.text != text:
                self.unknown(token, f"{text!r}")

    def word(self) -> str:
        return self._of_kind("word")

    def string(self) -> str:
        return self._of_kind("string")

    def number(self) -> int:
        return int(self._of_kind("word"))

    def _of_kind(self, kind: str) -> str:
        token = self.next()
        if token.kind != kind:
            self.unknown(token, f"a {kind}")
        return token.text

    def unknown(self, token: _Token, expected: str = "a declaration") -> NoReturn:
        raise ValueError(f"{self.name}:{token.line}: expected {expected}, not {token.text!r}")
