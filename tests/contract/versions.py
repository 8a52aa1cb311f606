"""The protocol as another time has it: messages made from descriptors, with no generated code of today's."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import Message

from backhaul_proto.messages import SERVICE
from backhaul_proto.v1 import service_pb2

Files = descriptor_pb2.FileDescriptorSet

BASELINE: Final = Path(__file__).parents[2] / "proto" / "baseline" / "backhaul_v1.binpb"

LATER: Final = "of_a_later_time"
"""A field that `later` gives each message."""
_NUMBER: Final = 9000

FIRST_LACKS: Final = frozenset(
    {
        "Attribute.index_value",
        "BackhaulService.ContractPath",
        "BackhaulService.ExecuteStream",
        "BackhaulService.ListSessions",
        "BackhaulService.Pushforward",
        "BackhaulService.RenewLease",
        "ExecuteRequest.max_response_bytes",
        "ExecuteRequest.options",
        "ExecuteRequest.pushforward",
        "ExecuteRequest.response_buffers",
        "ExecuteResponse.no_loss_value",
        "ExecuteResponse.tangents",
        "GetSessionResponse.busy_seconds",
        "GetSessionResponse.lease_left_seconds",
        "GetSessionResponse.memory_limit",
        "GetSessionResponse.steps",
        "HvpQuestion.keep_from",
        "IndexedGradients.kept",
        "IndexedGradients.kept_hvps",
        "InferResponse.constant",
        "InferResponse.several",
        "Limits.lease_seconds",
        "Limits.session_memory",
        "OpInfo.support",
        "OpenSessionRequest.options",
        "PullbackQuestion.keep_from",
        "Tensor.chunked",
        "Tensor.shared",
    }
)
"""What was added to the first version."""


@dataclass(frozen=True, slots=True)
class Protocol:
    """One version.

    Attributes:
        classes: of messages, by their names within the package.
        methods: of the service, by name.
    """

    classes: Mapping[str, Any]
    methods: Mapping[str, MethodDescriptor]

    def make(self, name: str, **fields: Any) -> Any:
        """A message, with dictionaries for messages in it, and with the field `LATER` where there is one."""
        message = self.classes[name](**fields)
        fill(message)
        return message

    def carry(self, name: str, data: bytes) -> bytes:
        """What is left of a message once a program of this version has read and written it."""
        message = self.classes[name].FromString(data)
        message.DiscardUnknownFields()
        fill(message)
        return bytes(message.SerializeToString())


def made_of(files: Files) -> Protocol:
    """The version that these files describe."""
    pool = descriptor_pool.DescriptorPool()
    for each in files.file:
        pool.AddSerializedFile(each.SerializeToString())
    names = [
        f"{file.package}.{message.name}" for file in files.file for message in file.message_type
    ]
    classes = {
        name.rpartition(".")[2]: message_factory.GetMessageClass(pool.FindMessageTypeByName(name))
        for name in names
    }
    methods = pool.FindServiceByName(SERVICE).methods_by_name
    return Protocol(classes, dict(methods))


def committed() -> Files:
    """That of the last release."""
    return Files.FromString(BASELINE.read_bytes())


def today() -> Files:
    files = Files()
    for each in (*service_pb2.DESCRIPTOR.dependencies, service_pb2.DESCRIPTOR):
        each.CopyToProto(files.file.add())
    files.file.sort(key=lambda file: len(file.dependency))
    return files


def first() -> Files:
    """Today's without what was added since the first version."""
    files = today()
    left_out: set[str] = set()

    def keep(holder: str, parts: Any) -> None:
        for part in list(parts):
            if f"{holder}.{part.name}" in FIRST_LACKS:
                left_out.add(f"{holder}.{part.name}")
                parts.remove(part)

    for file in files.file:
        for message in file.message_type:
            keep(message.name, message.field)
        for service in file.service:
            keep(service.name, service.method)
    assert left_out == FIRST_LACKS
    return files


def later() -> Files:
    """Today's with one more field in each message."""
    files = today()
    for file in files.file:
        for message in file.message_type:
            message.field.add(
                name=LATER,
                number=_NUMBER,
                type=descriptor_pb2.FieldDescriptorProto.TYPE_STRING,
                label=descriptor_pb2.FieldDescriptorProto.LABEL_OPTIONAL,
            )
    return files


def fill(message: Any) -> None:
    """Set the field `LATER` of a message, and of all messages in it, where they have it."""
    for field, value in message.ListFields():
        if field.message_type is not None and not field.message_type.GetOptions().map_entry:
            for each in [value] if isinstance(value, Message) else value:
                fill(each)
    if LATER in message.DESCRIPTOR.fields_by_name:
        setattr(message, LATER, "unknown today")


def unknown_bytes(messages: Iterable[Any]) -> int:
    """How much in these messages their version does not know."""
    total = 0
    for each in messages:
        known = type(each)()
        known.CopyFrom(each)
        known.DiscardUnknownFields()
        total += each.ByteSize() - known.ByteSize()
    return total
