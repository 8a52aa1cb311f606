"""What gRPC says went wrong, as errors of ours."""

from __future__ import annotations

from typing import Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from backhaul.targets import Target
from backhaul_proto.errors import BackhaulError, from_wire, make_error

DOMAIN: Final = "backhaul"

_DETAILS: Final = "grpc-status-details-bin"


def error_of(failed: grpc.RpcError, target: Target, timeout: float | None) -> BackhaulError:
    """The error that a failed call is raised as.

    The server's own where it sent one; else by the status, from gRPC itself or what stands between.
    """
    status = failed.code().name
    sent = _sent(failed, status)
    if sent is not None:
        return sent
    said = failed.details() or "no more is known"
    message = _message(status, said, target, timeout)
    if status == "RESOURCE_EXHAUSTED" and "larger than max" in said:
        return make_error("MESSAGE_TOO_LARGE", message, target=target)
    return from_wire(status, "", message, {"target": str(target), "status": status})


def _sent(failed: grpc.RpcError, status: str) -> BackhaulError | None:
    for each in failed.trailing_metadata() or ():
        if each.key != _DETAILS:
            continue
        try:
            details = status_pb2.Status.FromString(each.value)
        except DecodeError:
            return None
        for packed in details.details:
            info = error_details_pb2.ErrorInfo()
            if packed.Unpack(info) and info.domain == DOMAIN:
                return from_wire(status, info.reason, details.message, dict(info.metadata))
    return None


def _message(status: str, said: str, target: Target, timeout: float | None) -> str:
    match status:
        case "UNAVAILABLE":
            return (
                f"No server answers at {target} ({said}). Check that one runs there (`backhaul serve`) "
                "and that the target is right; if the connection broke, ask again."
            )
        case "DEADLINE_EXCEEDED":
            return (
                f"No answer came from {target} within {timeout} s. Give more time with "
                "connect(timeout=...), or ask for less at once."
            )
        case "CANCELLED":
            return f"The call to {target} was cancelled ({said})."
        case "RESOURCE_EXHAUSTED":
            return (
                f"{target} takes no more at the moment, or the message was too large ({said}). Try again "
                "later, or send less at once."
            )
        case "UNIMPLEMENTED":
            return (
                f"What answers at {target} does not know the call ({said}): it is no backhaul server, or "
                "one of another version. Check the target, and that both ends have the same release."
            )
        case "UNAUTHENTICATED" | "PERMISSION_DENIED":
            return f"{target} refused access ({said}). Check the token given to connect(token=...)."
        case _:
            return (
                f"The call to {target} failed with {status} ({said}); the server's log may say why."
            )
