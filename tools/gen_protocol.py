"""Write docs/protocol.md from the .proto files, whose comments are the specification.

python -m tools.gen_protocol           write it
python -m tools.gen_protocol --check   fail when it is not current
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from tools.proto_text import Enum, Field, Message, Method, ProtoFile, Remark, Service, read

ROOT: Final = Path(__file__).resolve().parent.parent
PAGE: Final = ROOT / "docs" / "protocol.md"
PROTOS: Final = tuple(
    ROOT / "proto" / "backhaul_proto" / "v1" / f"{name}.proto"
    for name in ("service", "graph", "tensor", "shared_memory")
)
"""In the order in which they are read best."""

_SECTION: Final = re.compile(r"([A-Z]{3,}(?: [A-Z]+)*)\b(\. )?")
"""What a paragraph of a file's comment begins with, when it is a section of its own."""
_NAME: Final = re.compile(r"`[^`]*`|(?<![\w.])[A-Z]\w*(?:\.\w+)*")


def main(arguments: Sequence[str]) -> int:
    """Write the page, or compare it; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare only")
    check = parser.parse_args(arguments).check
    now = page([read(path) for path in PROTOS])
    if not check:
        PAGE.write_text(now, encoding="utf-8")
    elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != now:
        print(f"docs/{PAGE.name}: not current\nTo mend it: make protocol", file=sys.stderr)
        return 1
    return 0


# ---------------------------------------------------------------- the page


def page(files: Sequence[ProtoFile]) -> str:
    """The page about these files."""
    names = Names(files)
    package = files[0].package
    lines = [
        f"# The protocol {package}",
        "",
        "Made by `make protocol` from the comments of `proto/backhaul_proto/v1/*.proto`, which are the",
        "specification: what is to be changed here is changed there. Ops are listed in [ops.md](ops.md).",
        "",
    ]
    for file in files:
        first = paragraphs(file.comment)[0]
        lines.append(f"- [{file.name}](#{anchor(file.name)}): {first.split('. ')[0].rstrip('.')}")
    for file in files:
        lines += ["", f"## {file.name}"]
        lines += remark(file.comment, file, names)
        for each in file.declarations:
            lines += described(each, file, names)
    return re.sub(r"\n{3,}", "\n\n", "\n".join(lines)) + "\n"


def described(
    each: Message | Enum | Service | Remark, file: ProtoFile, names: Names
) -> Iterator[str]:
    """A declaration of a file."""
    match each:
        case Remark():
            yield from remark(each.text, file, names)
        case Service():
            yield from ("", f"### Service {each.name}", "")
            yield from text_of(each.comment, file, names)
            yield from ("| method | request | answer |", "| --- | --- | --- |")
            for method in each.methods:
                yield f"| [{method.name}](#{anchor(method.name)}) | {' | '.join(types(method, names))} |"
            for method in each.methods:
                request, response = types(method, names)
                yield from ("", f"#### {method.name}", "", f"{request} → {response}", "")
                yield from text_of(method.comment, file, names)
        case Message():
            yield from ("", f"### {each.name}", "")
            yield from text_of(each.comment, file, names)
            if not each.fields:
                yield "No fields."
                return
            yield from ("| | field | type | |", "| --- | --- | --- | --- |")
            for part in each.fields:
                said = field_text(part, each, file, names)
                yield f"| {part.number} | `{part.name}` | {type_text(part, names)} | {said} |"
        case Enum():
            yield from ("", f"### {each.name}", "")
            yield from text_of(each.comment, file, names)
            yield from ("| | value | |", "| --- | --- | --- |")
            for value in each.values:
                yield f"| {value.number} | `{value.name}` | {cell(value.comment, file, names)} |"


def remark(comment: str, file: ProtoFile, names: Names) -> Iterator[str]:
    """A comment of the file: paragraphs that begin with capitals are sections."""
    for text in paragraphs(comment):
        title = _SECTION.match(text)
        if title is not None:
            yield from ("", f"### {names.heading(title[1], file)}")
            text = text[title.end() :] if title[2] else text
        yield from ("", linked(text, file, names))


def text_of(comment: str, file: ProtoFile, names: Names) -> Iterator[str]:
    """A declaration's comment, each paragraph with an empty line after it."""
    for text in paragraphs(comment):
        yield from (linked(text, file, names), "")


def field_text(part: Field, message: Message, file: ProtoFile, names: Names) -> str:
    """What is said of a field; the first one of a oneof tells what is said of that too."""
    texts = []
    if part.oneof:
        first = next(each for each in message.fields if each.oneof == part.oneof)
        said = message.oneofs[part.oneof] if first is part else ""
        texts = [f"One of `{part.oneof}`.", *([cell(said, file, names)] if said else [])]
    return " ".join([*texts, *([cell(part.comment, file, names)] if part.comment else [])])


def types(method: Method, names: Names) -> tuple[str, str]:
    """The two messages of a method."""
    request, response = names.link(method.request), names.link(method.response)
    return (
        f"stream of {request}" if method.request_streams else request,
        f"stream of {response}" if method.response_streams else response,
    )


def type_text(part: Field, names: Names) -> str:
    """A field's type."""
    label = f"{part.label} " if part.label else ""
    return label + re.sub(r"[A-Z]\w*", lambda found: names.link(found[0]), part.type).replace(
        "<", "&lt;"
    )


def cell(comment: str, file: ProtoFile, names: Names) -> str:
    """A comment that may stand in a table."""
    texts = [linked(text, file, names) for text in paragraphs(comment)]
    return "<br>".join(texts).replace("|", "\\|")


def paragraphs(comment: str) -> list[str]:
    """The paragraphs of a comment, each in one line."""
    return [" ".join(each.split()) for each in comment.split("\n\n") if each.strip()]


# ---------------------------------------------------------------- links


class Names:
    """What a comment can refer to, with where it stands on the page."""

    def __init__(self, files: Sequence[ProtoFile]) -> None:
        self._files_of: defaultdict[str, list[ProtoFile]] = defaultdict(list)
        self._declared: dict[str, str] = {}
        for file in files:
            remarks = [each.text for each in file.declarations if isinstance(each, Remark)]
            for text in (text for each in (file.comment, *remarks) for text in paragraphs(each)):
                if title := _SECTION.match(text):
                    self._files_of[title[1]].append(file)
            for each in file.declarations:
                if isinstance(each, Message | Enum):
                    self._declared[each.name] = anchor(each.name)
                elif isinstance(each, Service):
                    methods = [method.name for method in each.methods]
                    self._declared |= {name: anchor(name) for name in methods}

    def heading(self, section: str, file: ProtoFile) -> str:
        """A section's heading, with the file's name where several files have a section of this name."""
        several = len(self._files_of[section]) > 1
        return section.capitalize() + (f" ({file.name})" if several else "")

    def link(self, name: str) -> str:
        """A declared name, which links to where it is described."""
        return f"[{name}](#{self._declared[name]})"

    def place(self, name: str, file: ProtoFile) -> str | None:
        """Where a word of this file's comments leads; None: nowhere."""
        if name in self._files_of:
            files = self._files_of[name]
            return anchor(self.heading(name, file if file in files else files[0]))
        return self._declared.get(name.split(".")[0])


def linked(text: str, file: ProtoFile, names: Names) -> str:
    """The text with links from the names in it; what stands in backquotes is left alone.

    A name of one hump that begins a sentence is an English word: "Index of each one's gradient".
    """

    def link(found: re.Match[str]) -> str:
        word = found[0]
        plain = re.fullmatch(r"[A-Z][a-z]+", word)
        begins = re.search(r"(^|[.:] )$", text[: found.start()])
        if word.startswith("`") or (plain and begins):
            return word
        place = names.place(word, file)
        return word if place is None else f"[{word}](#{place})"

    return _NAME.sub(link, escaped(text))


def escaped(text: str) -> str:
    """Text whose signs are none of Markdown's."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        part if part.startswith("`") else re.sub(r"([<*\[\]])", r"\\\1", part) for part in parts
    )


def anchor(title: str) -> str:
    """The anchor that a heading of this title gets."""
    return re.sub(r"[^\w -]", "", title.lower()).replace(" ", "-")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
