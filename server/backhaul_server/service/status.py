"""Errors as gRPC statuses: google.rpc.Status with ErrorInfo, in trailing metadata."""

from __future__ import annotations

import math
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status

from backhaul_proto.errors import RETRY_AFTER, BackhaulError, status_of

DETAILS_KEY: Final = "grpc-status-details-bin"
DOMAIN: Final = "backhaul"

# Metadata above 8 kB makes gRPC replace any status by RESOURCE_EXHAUSTED, and the reason is lost.
MAX_DETAILS_BYTES: Final = 4096
_MESSAGE_BYTES: Final = 1024
_FIELD_BYTES: Final = 256


def refuse(context: Any, error: BackhaulError) -> NoReturn:
    """End a call with an error."""
    context.set_trailing_metadata(((DETAILS_KEY, details_of(error)),))
    context.abort(code_of(error), cut(error.message, _MESSAGE_BYTES))
    raise AssertionError  # abort raises


def code_of(error: BackhaulError) -> grpc.StatusCode:
    """The gRPC status code of an error."""
    code: grpc.StatusCode = getattr(grpc.StatusCode, status_of(error))
    return code


def details_of(error: BackhaulError) -> bytes:
    """The serialized google.rpc.Status, at most `MAX_DETAILS_BYTES` long."""
    info = ErrorInfo(reason=error.reason, domain=DOMAIN)
    status = Status(code=code_of(error).value[0], message=cut(error.message, _MESSAGE_BYTES))
    room = MAX_DETAILS_BYTES - len(status.message.encode()) - 256
    for name, value in error.details.items():
        short = cut(value, _FIELD_BYTES)
        room -= len(name) + len(short.encode()) + 16
        if room < 0:
            break
        info.metadata[name] = short
    _pack(info, status)
    if RETRY_AFTER in error.details:
        fraction, whole = math.modf(float(error.details[RETRY_AFTER]))
        delay = Duration(seconds=int(whole), nanos=int(fraction * 1e9))
        _pack(RetryInfo(retry_delay=delay), status)
    return status.SerializeToString()


def _pack(detail: Message, status: Status) -> None:
    packed = AnyMessage()
    packed.Pack(detail)
    status.details.append(packed)


def cut(text: str, limit: int) -> str:
    """The text in at most ``limit`` bytes of UTF-8, its end marked where some is left out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "…"
