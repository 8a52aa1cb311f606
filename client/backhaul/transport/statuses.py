"""What gRPC says went wrong, as errors of ours."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any, Final

import grpc
from google.protobuf.message import DecodeError
from google.rpc import error_details_pb2, status_pb2

from backhaul.targets import Target
from backhaul_proto.errors import BackhaulError, from_wire, make_error

DOMAIN: Final = "backhaul"

_TOO_LARGE: Final = re.compile(r"(Sent|Received) message larger than max \((\d+) vs\. (\d+)\)")
_DETAILS: Final = "grpc-status-details-bin"

_OTHER_NAME: Final = "the server's certificate is for another name"
_NAME_IT: Final = (
    "Write the target as the certificate has it, or say connect(tls=backhaul.TLS(server_name=...))."
)

# gRPC has no codes for what goes wrong in a handshake, so its words are looked at. Old releases have fewer.
_HANDSHAKE: Final = (
    (
        "certificate has expired",
        "the server's certificate has expired",
        "Its operator has to put a new one in place; if it is new, see to the clock of this machine.",
    ),
    (
        "CERTIFICATE_VERIFY_FAILED",
        "the server's certificate is of no authority that is trusted here, or has expired",
        "Name the file of its root certificates: connect(tls=...).",
    ),
    ("Hostname Verification Check failed", _OTHER_NAME, _NAME_IT),
    ("is not in peer certificate", _OTHER_NAME, _NAME_IT),  # as older releases say
    (
        "WRONG_VERSION_NUMBER",
        "what answers there does not speak it",
        "The server listens in the clear, as without --tls-cert: write grpc://host:port for one on this "
        "machine, or turn TLS on.",
    ),
    (
        "Failed to create security handshaker",
        "a file of tls= cannot be used",
        "They are PEM files: root certificates, and this client's certificate with the key that belongs "
        "to it, without a passphrase.",
    ),
)
_CUT_OFF: Final = ("Socket closed", "Connection reset by peer", "Broken pipe")


def error_of(
    failed: grpc.RpcError, target: Target, timeout: float | None, size: int
) -> BackhaulError:
    """The error that a failed call is raised as.

    The server's own where it sent one; else by the status, from gRPC itself or what stands between.
    """
    status = failed.code().name
    sent = _sent(failed, status)
    if sent is not None:
        return sent
    said = failed.details() or "no more is known"
    refused = _TOO_LARGE.search(said) if status == "RESOURCE_EXHAUSTED" else None
    if refused is not None and refused[1] == "Sent":
        return answer_too_large(target, int(refused[2]), int(refused[3]))
    if refused is not None:
        return message_too_large(target, size, int(refused[3]))
    if status == "UNAVAILABLE" and (why := _handshake_failure(said, target)) is not None:
        return make_error("TLS_HANDSHAKE_FAILED", why, target=target, status=status)
    message = _message(status, said, target, timeout)
    return from_wire(status, "", message, {"target": str(target), "status": status})


def message_too_large(target: Target, size: int, limit: int) -> BackhaulError:
    """The error of a request that is larger than the server takes."""
    return make_error(
        "MESSAGE_TOO_LARGE",
        f"The request has {size:,} bytes, and {target} takes at most {limit:,}. Ask a question earlier, "
        "so that less is sent at once; split the largest arrays; or start the server with a larger "
        "limit (backhaul serve --max-message-bytes).",
        target=target,
        too_large="request",
        actual=size,
        limit=limit,
    )


def answer_too_large(target: Target, size: int, limit: int) -> BackhaulError:
    """The error of an answer that is larger than the server may send."""
    return make_error(
        "MESSAGE_TOO_LARGE",
        f"The answer has {size:,} bytes, and {target} sends at most {limit:,}. Ask for less at once "
        "(wrt=[...], fewer directions), or start the server with a larger limit "
        "(backhaul serve --max-message-bytes).",
        target=target,
        too_large="answer",
        actual=size,
        limit=limit,
    )


def _sent(failed: grpc.RpcError, status: str) -> BackhaulError | None:
    metadata: Iterable[Any] = failed.trailing_metadata() or ()
    for key, value in metadata:  # of either client of gRPC's: pairs with names, or without
        if key != _DETAILS:
            continue
        try:
            details = status_pb2.Status.FromString(value)
        except DecodeError:
            return None
        for packed in details.details:
            info = error_details_pb2.ErrorInfo()
            if packed.Unpack(info) and info.domain == DOMAIN:
                return from_wire(status, info.reason, details.message, dict(info.metadata))
    return None


def _handshake_failure(said: str, target: Target) -> str | None:
    """What is wrong with the certificates, where this end saw it."""
    if target.kind != "tls":
        return None
    for sign, why, do in _HANDSHAKE:
        if sign in said:
            return f"No TLS with {target}: {why} ({said}). {do}"
    return None


def _message(status: str, said: str, target: Target, timeout: float | None) -> str:
    match status:
        case "UNAVAILABLE" if target.kind == "tls" and any(each in said for each in _CUT_OFF):
            return (
                f"{target} ended the connection ({said}). It may want a certificate of this client, or not "
                "take the one it was shown: expired, or of another authority than the server's --client-ca. "
                "See to connect(tls=backhaul.TLS(certificate=..., key=...)); the server's stderr says "
                "which. If the connection broke, ask again."
            )
        case "UNAVAILABLE" if target.kind == "plain" and any(each in said for each in _CUT_OFF):
            return (
                f"{target} ended the connection ({said}). Is it a server that speaks TLS? Then write "
                "grpcs://host:port. If the connection broke, or the server was stopped, ask again."
            )
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
                f"{target} takes no more work at the moment ({said}). Try again later, or send less at "
                "once."
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
