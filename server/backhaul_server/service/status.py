"""Errors as gRPC statuses: google.rpc.Status with ErrorInfo, in trailing metadata."""

from __future__ import annotations

import logging
import time
from typing import Any, Final, NoReturn

import grpc
from google.protobuf.any_pb2 import Any as AnyMessage
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status

from backhaul_proto.errors import BackhaulError, status_of

log = logging.getLogger("backhaul.server")

DETAILS_KEY: Final = "grpc-status-details-bin"
DOMAIN: Final = "backhaul"

# Metadata above 8 kB makes gRPC replace any status by RESOURCE_EXHAUSTED, and the reason is lost.
MAX_DETAILS_BYTES: Final = 4096
_MESSAGE_BYTES: Final = 1024
_FIELD_BYTES: Final = 256


def refuse(context: Any, error: BackhaulError, method: str, started: float) -> NoReturn:
    """End a call with an error. ``started`` is when it began, by `time.monotonic`."""
    ms = round((time.monotonic() - started) * 1e3, 3)
    log.info("refused", extra={"method": method, "reason": error.reason, "ms": ms})
    context.set_trailing_metadata(((DETAILS_KEY, details_of(error)),))
    context.abort(code_of(error), cut(error.message, 1024))
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
    packed = AnyMessage()
    packed.Pack(info)
    status.details.append(packed)
    return status.SerializeToString()


def cut(text: str, limit: int) -> str:
    """The text in at most ``limit`` bytes of UTF-8, its end marked where some is left out."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    return data[: limit - 3].decode("utf-8", "ignore") + "…"
