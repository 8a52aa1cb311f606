"""docs/protocol.md is current, whole and well linked; the .proto files are read rightly for it."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from google.protobuf.descriptor import FieldDescriptor, FileDescriptor
from tools.gen_protocol import PAGE, PROTOS, anchor, main, page
from tools.proto_text import Enum, Message, Service, parse, read

from backhaul_proto.v1 import graph_pb2, service_pb2, shared_memory_pb2, tensor_pb2

GENERATED: dict[str, FileDescriptor] = {
    Path(module.DESCRIPTOR.name).name: module.DESCRIPTOR
    for module in (service_pb2, graph_pb2, tensor_pb2, shared_memory_pb2)
}
SCALARS = {
    getattr(FieldDescriptor, f"TYPE_{name.upper()}"): name
    for name in ("bool", "bytes", "double", "fixed32", "int64", "string", "uint32", "uint64")
}


def test_it_is_current() -> None:
    assert main(["--check"]) == 0, "To mend it: make protocol"


def test_a_page_that_is_not_current_is_told(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    stale = tmp_path / "protocol.md"
    monkeypatch.setattr("tools.gen_protocol.PAGE", stale)
    assert main(["--check"]) == 1
    stale.write_text("# Another\n", encoding="utf-8")
    assert main(["--check"]) == 1
    assert "make protocol" in capsys.readouterr().err
    assert main([]) == 0
    assert stale.read_text(encoding="utf-8") == PAGE.read_text(encoding="utf-8")


def test_all_files_are_read() -> None:
    assert {path.name for path in PROTOS} == {
        path.name for path in PROTOS[0].parent.glob("*.proto")
    }


@pytest.mark.parametrize("path", PROTOS, ids=lambda path: path.name)
def test_what_is_read_is_what_the_compiler_read(path: Path) -> None:
    file, generated = read(path), GENERATED[path.name]
    messages = [each for each in file.declarations if isinstance(each, Message)]
    assert {each.name for each in messages} == set(generated.message_types_by_name)
    for message in messages:
        descriptor = generated.message_types_by_name[message.name]
        assert {
            (each.name, each.number, each.type, each.oneof)
            for each in message.fields
        } == {
            (each.name, each.number, type_of(each), oneof_of(each)) for each in descriptor.fields
        }  # fmt: skip
        assert {each.name for each in message.fields if each.label == "repeated"} == {
            each.name for each in descriptor.fields
            if each.is_repeated and not type_of(each).startswith("map<")
        }  # fmt: skip
    enums = [each for each in file.declarations if isinstance(each, Enum)]
    assert {each.name: {(v.name, v.number) for v in each.values} for each in enums} == {
        name: {(v.name, v.number) for v in enum.values}
        for name, enum in generated.enum_types_by_name.items()
    }
    services = [each for each in file.declarations if isinstance(each, Service)]
    assert {
        each.name: {(m.name, m.request, m.response) for m in each.methods} for each in services
    } == {
        name: {(m.name, m.input_type.name, m.output_type.name) for m in service.methods}
        for name, service in generated.services_by_name.items()
    }


def type_of(field: FieldDescriptor) -> str:
    if field.enum_type is not None:
        return field.enum_type.name
    if field.message_type is None:
        return SCALARS[field.type]
    if field.message_type.GetOptions().map_entry:
        key, value = field.message_type.fields
        return f"map<{type_of(key)}, {type_of(value)}>"
    return field.message_type.name


def oneof_of(field: FieldDescriptor) -> str:
    """Its oneof, but for the one that an optional field is by itself."""
    oneof = field.containing_oneof
    return "" if oneof is None or oneof.name.startswith("_") else oneof.name


def test_every_link_leads_somewhere_and_no_two_headings_share_an_anchor() -> None:
    text = PAGE.read_text(encoding="utf-8")
    anchors = [anchor(title) for title in re.findall(r"^#+ (.*)$", text, re.MULTILINE)]
    assert len(anchors) == len(set(anchors))
    links = set(re.findall(r"\]\(#([^)]*)\)", text))
    assert links - set(anchors) == set()
    assert {"streams", "memory", "leases", "executerequest", "execute", "datatype"} <= links


def test_every_comment_is_on_the_page() -> None:
    text = PAGE.read_text(encoding="utf-8")
    plain = words(re.sub(r"\[([^\]]*)\]\(#[^)]*\)", r"\1", text))
    for path in PROTOS:
        comments = re.findall(r"^ *//(.*)$", path.read_text(encoding="utf-8"), re.MULTILINE)
        for line in comments:
            line = re.sub(r"^ (?:[A-Z]+ )*[A-Z]{3,}\. ", " ", line)  # a heading
            assert words(line) in plain, f"{path.name}: {line}"


def words(text: str) -> str:
    return " ".join(re.sub(r"\||<br>", " ", text.replace("&lt;", "<").replace("\\", "")).split())


PROTO = """// A file.
syntax = "proto3";
package p.v1;

// PLACES. Where it says that Thing is.

// A thing of two parts.
//
// Its second paragraph.
message Thing {
  // Its *name* | more.
  string name = 1;
  // Either.
  oneof part {
    Thing inner = 2;
    // See PLACES.
    bytes data = 3;
  }
  repeated uint32 counts = 4 [packed = true];
  map<string, Thing> others = 5;
}
"""


def test_a_page_has_what_the_file_says() -> None:
    text = page([parse(PROTO, "p.proto")])
    assert text.endswith(
        r"""
## p.proto

A file.

### Places

Where it says that [Thing](#thing) is.

### Thing

A thing of two parts.

Its second paragraph.

| | field | type | |
| --- | --- | --- | --- |
| 1 | `name` | string | Its \*name\* \| more. |
| 2 | `inner` | [Thing](#thing) | One of `part`. Either. |
| 3 | `data` | bytes | One of `part`. See [PLACES](#places). |
| 4 | `counts` | repeated uint32 |  |
| 5 | `others` | map&lt;string, [Thing](#thing)> |  |
"""
    )


@pytest.mark.parametrize(
    ("part", "other", "message"),
    [
        ("  string name = 1;", "  string name = 1; // late", "p.proto:12: a comment stands above"),
        ("  string name = 1;", "  message Inner {}", "p.proto:12: expected '=', not '{'"),
        ("[packed = true]", "[deprecated = true]", "p.proto:19: expected 'packed'"),
        ("message Thing", "extend Thing", "p.proto:10: expected a declaration, not 'extend'"),
        ("  // Either.\n", "  // Either.\n\n", "p.proto:15: a comment before this belongs"),
        ("string name = 1", "string name = 1?", "p.proto:12: '\\?' is not known here"),
    ],
)
def test_what_is_not_known_is_refused_with_its_line(part: str, other: str, message: str) -> None:
    assert part in PROTO
    with pytest.raises(ValueError, match=message):
        parse(PROTO.replace(part, other), "p.proto")
