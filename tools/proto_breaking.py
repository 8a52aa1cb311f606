"""Does the protocol still keep what an earlier release promised?

    python tools/proto_breaking.py BASELINE NOW

Both are FileDescriptorSets as ``protoc --include_imports --descriptor_set_out`` writes them.
Fields, enum values and RPCs may be added; what the baseline has must be there with the same
number, name and type, and what it reserves stays reserved: a number is never given to something
else. Prints one line a breach and exits 1 if there is one. `buf breaking` (category FILE) asks for
the same and a little more.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from google.protobuf import descriptor_pb2 as pb

OURS = "backhaul."

Messages = dict[str, pb.DescriptorProto]
Enums = dict[str, pb.EnumDescriptorProto]
Services = dict[str, pb.ServiceDescriptorProto]
Reserving = pb.DescriptorProto | pb.EnumDescriptorProto


def collect(files: pb.FileDescriptorSet) -> tuple[Messages, Enums, Services]:
    """Our own messages, enums and services by full name, nested ones included."""
    messages: Messages = {}
    enums: Enums = {}
    services: Services = {}

    def descend(scope: str, message: pb.DescriptorProto) -> None:
        name = f"{scope}.{message.name}"
        messages[name] = message
        enums.update({f"{name}.{enum.name}": enum for enum in message.enum_type})
        for nested in message.nested_type:
            descend(name, nested)

    for file in files.file:
        if not f"{file.package}.".startswith(OURS):
            continue
        enums.update({f"{file.package}.{enum.name}": enum for enum in file.enum_type})
        services.update({f"{file.package}.{service.name}": service for service in file.service})
        for message in file.message_type:
            descend(file.package, message)
    return messages, enums, services


def field_facts(message: pb.DescriptorProto, field: pb.FieldDescriptorProto) -> dict[str, str]:
    """What the wire, JSON and generated code depend on."""
    oneof = message.oneof_decl[field.oneof_index].name if field.HasField("oneof_index") else "none"
    return {
        "name": field.name,
        "type": pb.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
        + (f" {field.type_name}" if field.type_name else ""),
        "label": pb.FieldDescriptorProto.Label.Name(field.label).removeprefix("LABEL_").lower(),
        "presence": "optional" if field.proto3_optional else "implicit",
        "oneof": oneof,
        "JSON name": field.json_name,
        "packed": str(field.options.packed) if field.options.HasField("packed") else "default",
    }


def reserved_numbers(holder: Reserving) -> list[range]:
    # protoc writes the end of an enum's range inclusive, that of a message's exclusive.
    past = 1 if isinstance(holder, pb.EnumDescriptorProto) else 0
    return [range(span.start, span.end + past) for span in holder.reserved_range]


def unreserved(where: str, before: Reserving, after: Reserving) -> Iterator[str]:
    now = reserved_numbers(after)
    for old in reserved_numbers(before):
        if not any(new.start <= old.start and old.stop <= new.stop for new in now):
            yield f"{where}: {old.start} to {old.stop - 1} are no longer reserved"
    for name in sorted(set(before.reserved_name) - set(after.reserved_name)):
        yield f"{where}: the name {name} is no longer reserved"


def changed(where: str, before: dict[str, str], after: dict[str, str]) -> Iterator[str]:
    for fact, value in before.items():
        if after[fact] != value:
            yield f"{where}: {fact} was {value}, is {after[fact]}"


def message_breaches(
    name: str, before: pb.DescriptorProto, after: pb.DescriptorProto
) -> Iterator[str]:
    now = {field.number: field for field in after.field}
    for field in before.field:
        where = f"{name}.{field.name} = {field.number}"
        if field.number not in now:
            yield f"{where}: the field is gone"
        else:
            facts = field_facts(after, now[field.number])
            yield from changed(where, field_facts(before, field), facts)
    yield from unreserved(name, before, after)


def enum_breaches(
    name: str, before: pb.EnumDescriptorProto, after: pb.EnumDescriptorProto
) -> Iterator[str]:
    now = {value.name: value.number for value in after.value}
    for value in before.value:
        if value.name not in now:
            yield f"{name}.{value.name} = {value.number}: the value is gone"
        elif now[value.name] != value.number:
            yield f"{name}.{value.name}: was {value.number}, is {now[value.name]}"
    yield from unreserved(name, before, after)


def method_facts(method: pb.MethodDescriptorProto) -> dict[str, str]:
    return {
        "request": method.input_type,
        "response": method.output_type,
        "request stream": str(method.client_streaming),
        "response stream": str(method.server_streaming),
    }


def service_breaches(
    name: str, before: pb.ServiceDescriptorProto, after: pb.ServiceDescriptorProto
) -> Iterator[str]:
    now = {method.name: method for method in after.method}
    for method in before.method:
        where = f"{name}.{method.name}"
        if method.name not in now:
            yield f"{where}: the RPC is gone"
        else:
            yield from changed(where, method_facts(method), method_facts(now[method.name]))


def breaches(baseline: pb.FileDescriptorSet, current: pb.FileDescriptorSet) -> Iterator[str]:
    """One line for each promise of the baseline that the current protocol does not keep."""
    messages, enums, services = collect(baseline)
    messages_now, enums_now, services_now = collect(current)
    if not messages and not services:
        yield f"the baseline holds nothing of package {OURS.rstrip('.')}"
    for kind, old, new in (
        ("message", messages, messages_now),
        ("enum", enums, enums_now),
        ("service", services, services_now),
    ):
        yield from gone(kind, old, new)
    for name in messages.keys() & messages_now.keys():
        yield from message_breaches(name, messages[name], messages_now[name])
    for name in enums.keys() & enums_now.keys():
        yield from enum_breaches(name, enums[name], enums_now[name])
    for name in services.keys() & services_now.keys():
        yield from service_breaches(name, services[name], services_now[name])


def gone(kind: str, old: Iterable[str], new: Iterable[str]) -> Iterator[str]:
    return (f"{name}: the {kind} is gone" for name in sorted(set(old) - set(new)))


def main(arguments: list[str]) -> int:
    if len(arguments) != 2:
        print(__doc__, file=sys.stderr)
        return 2
    baseline, current = (
        pb.FileDescriptorSet.FromString(Path(name).read_bytes()) for name in arguments
    )
    found = sorted(breaches(baseline, current))
    for line in found:
        print(line, file=sys.stderr)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
