"""The exception tree, and the one table that joins reason code, gRPC status and class.

Both sides raise these classes with the same reason, message and details, whether the work ran in this
process or on a server. A reason code is stable: programs may branch on it, messages are for people.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np

RETRY_AFTER: Final = "retry_after"
"""Seconds, a fact of an error: the same request may succeed after so long. Nothing of it was run."""


class BackhaulError(Exception):
    """The root of every error that backhaul raises on purpose.

    Attributes:
        reason: stable code, such as ``"EINSUM_RANK"``.
        message: what happened, the likely cause, what to change.
        details: facts by name (``operand``, ``expected``, ``actual``, ...), as text: they travel so.
    """

    def __init__(self, message: str, *, reason: str, **details: object) -> None:
        self.message = message
        self.reason = reason
        self.details: dict[str, str] = {name: str(value) for name, value in details.items()}
        super().__init__(message)

    def __str__(self) -> str:
        return f"{self.message} [{self.reason}]"

    def __reduce__(self) -> tuple[Any, ...]:
        return (_rebuild, (type(self), self.message, self.reason, self.details))


class AutodiffError(BackhaulError):
    """An error of the computation itself."""


class InvalidArgument(AutodiffError, ValueError):
    """An operand, attribute or name that cannot be right."""


class IndexOutOfRange(InvalidArgument, IndexError):
    """An index that lies outside its array, or has more entries than the array has axes."""


class TangentShapeMismatch(AutodiffError):
    """A tangent has another shape than its leaf: tangents never broadcast."""


class NonScalarLoss(AutodiffError):
    """A pullback without ``cotangent=`` needs a loss of exactly one element."""


class MissingNode(AutodiffError):
    """A node that this tape never issued, has released, or that requires no gradient."""


class MissingGradient(MissingNode, KeyError):
    """The loss does not depend on this leaf, so there is no gradient to look up."""

    __str__ = BackhaulError.__str__  # KeyError's would print the repr of the message


class HvpNotSupported(AutodiffError):
    """An op on the way to the loss has no second-order rule."""


class LinearAlgebraError(AutodiffError, np.linalg.LinAlgError):
    """A matrix that the asked decomposition or solution does not exist for."""


class SessionError(BackhaulError):
    """The tape's session on the server is not there any more."""


class SessionExpired(SessionError):
    """The session's lease ran out."""


class SessionClosed(SessionError):
    """The session was closed."""


class SessionLost(SessionError):
    """The server restarted or the session's worker died: its arrays are gone."""


class SessionNotFound(SessionError):
    """The server knows no session of this id."""


class ResourceError(BackhaulError):
    """A limit was met."""


class MemoryLimitExceeded(ResourceError):
    """The work needs more memory than it may use."""


class QuotaExceeded(ResourceError):
    """An owner's share of the server is used up."""


class MessageTooLarge(ResourceError):
    """A message is larger than the two ends agreed on."""


class ServerBusy(ResourceError):
    """The server takes no more work at the moment; try again later."""


class AccessError(BackhaulError):
    """The server does not let this caller do that."""


class Unauthenticated(AccessError):
    """The server does not know who is calling."""


class PermissionDenied(AccessError):
    """The caller is known and may not do this."""


class TransportError(BackhaulError):
    """The call did not reach the server, or its answer did not come back."""


class Unavailable(TransportError):
    """Nothing answers at the target, or the connection broke."""


class DeadlineExceeded(TransportError):
    """The answer did not come within the timeout."""


class Cancelled(TransportError):
    """The call was cancelled."""


class ChecksumMismatch(TransportError):
    """What arrived is not what was sent."""


class VersionMismatch(TransportError):
    """The two ends speak protocols that do not fit together."""


class MissingLibrary(BackhaulError, ImportError):
    """A library that an optional part of backhaul needs is not installed."""


class InternalError(BackhaulError):
    """A bug of backhaul's; carries the incident id under which the server logged it."""


@dataclass(frozen=True, slots=True)
class Kind:
    """What a reason code stands for: the class raised and the gRPC status it travels under."""

    error: type[BackhaulError]
    status: str


REASONS: Mapping[str, Kind] = {
    "DTYPE_NOT_SUPPORTED": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "TANGENT_DTYPE_MISMATCH": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "COTANGENT_MISMATCH": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "SHAPE_MISMATCH": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "INVALID_ATTRIBUTE": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "INDEX_OUT_OF_RANGE": Kind(IndexOutOfRange, "INVALID_ARGUMENT"),
    "OPERAND_COUNT": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "EINSUM_SYNTAX": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "EINSUM_OPERAND_COUNT": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "EINSUM_RANK": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "EINSUM_DIMENSION": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "EINSUM_OUTPUT": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "COMPLEX_LOSS": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "HVP_WITHOUT_TANGENT": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "INVALID_TARGET": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "INSECURE_ADDRESS": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "INVALID_VALUE": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "MUST_BE_AWAITED": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "TREE_MISMATCH": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "NESTED_TRANSFORM": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "NOT_HOLOMORPHIC": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "MALFORMED_REQUEST": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "REQUEST_LIMIT": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "PLUGIN_FAILED": Kind(InvalidArgument, "FAILED_PRECONDITION"),
    "DEVICE_UNAVAILABLE": Kind(InvalidArgument, "FAILED_PRECONDITION"),
    "UNKNOWN_DEVICE": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "UNKNOWN_OP": Kind(InvalidArgument, "UNIMPLEMENTED"),
    "NODE_ID_TAKEN": Kind(InvalidArgument, "ALREADY_EXISTS"),
    "SEQUENCE_REUSED": Kind(InvalidArgument, "ALREADY_EXISTS"),
    "SESSION_EXISTS": Kind(InvalidArgument, "ALREADY_EXISTS"),
    "SEQUENCE_GAP": Kind(InvalidArgument, "FAILED_PRECONDITION"),
    "BLOCK_UNKNOWN": Kind(InvalidArgument, "FAILED_PRECONDITION"),
    "SEGMENT_UNKNOWN": Kind(InvalidArgument, "FAILED_PRECONDITION"),
    "SEGMENT_RANGE": Kind(InvalidArgument, "INVALID_ARGUMENT"),
    "TANGENT_SHAPE_MISMATCH": Kind(TangentShapeMismatch, "INVALID_ARGUMENT"),
    "NON_SCALAR_LOSS": Kind(NonScalarLoss, "INVALID_ARGUMENT"),
    "MISSING_NODE": Kind(MissingNode, "NOT_FOUND"),
    "MISSING_GRADIENT": Kind(MissingGradient, "NOT_FOUND"),
    "HVP_NOT_SUPPORTED": Kind(HvpNotSupported, "UNIMPLEMENTED"),
    "SINGULAR_MATRIX": Kind(LinearAlgebraError, "INVALID_ARGUMENT"),
    "NOT_POSITIVE_DEFINITE": Kind(LinearAlgebraError, "INVALID_ARGUMENT"),
    "NOT_CONVERGED": Kind(LinearAlgebraError, "INVALID_ARGUMENT"),
    "GAUGE_DEPENDENT": Kind(LinearAlgebraError, "INVALID_ARGUMENT"),
    "DEGENERATE_SPECTRUM": Kind(LinearAlgebraError, "INVALID_ARGUMENT"),
    "SESSION_EXPIRED": Kind(SessionExpired, "FAILED_PRECONDITION"),
    "SESSION_CLOSED": Kind(SessionClosed, "FAILED_PRECONDITION"),
    "SESSION_LOST": Kind(SessionLost, "ABORTED"),
    "SESSION_NOT_FOUND": Kind(SessionNotFound, "NOT_FOUND"),
    "MEMORY_LIMIT_EXCEEDED": Kind(MemoryLimitExceeded, "RESOURCE_EXHAUSTED"),
    "QUOTA_EXCEEDED": Kind(QuotaExceeded, "RESOURCE_EXHAUSTED"),
    "MESSAGE_TOO_LARGE": Kind(MessageTooLarge, "RESOURCE_EXHAUSTED"),
    "SERVER_BUSY": Kind(ServerBusy, "RESOURCE_EXHAUSTED"),
    "UNAUTHENTICATED": Kind(Unauthenticated, "UNAUTHENTICATED"),
    "PERMISSION_DENIED": Kind(PermissionDenied, "PERMISSION_DENIED"),
    "UNAVAILABLE": Kind(Unavailable, "UNAVAILABLE"),
    "DRAINING": Kind(Unavailable, "UNAVAILABLE"),
    "SHARED_MEMORY_UNAVAILABLE": Kind(Unavailable, "UNAVAILABLE"),
    "TLS_HANDSHAKE_FAILED": Kind(Unavailable, "UNAVAILABLE"),
    "FORKED": Kind(Unavailable, "UNAVAILABLE"),
    "CONNECTION_CLOSED": Kind(Unavailable, "UNAVAILABLE"),
    "OTHER_EVENT_LOOP": Kind(Unavailable, "UNAVAILABLE"),
    "DEADLINE_EXCEEDED": Kind(DeadlineExceeded, "DEADLINE_EXCEEDED"),
    "CANCELLED": Kind(Cancelled, "CANCELLED"),
    "CHUNK_CHECKSUM": Kind(ChecksumMismatch, "DATA_LOSS"),
    "VERSION_MISMATCH": Kind(VersionMismatch, "UNIMPLEMENTED"),
    "DEVICE_FAILED": Kind(InternalError, "INTERNAL"),
    "LIBRARY_MISSING": Kind(MissingLibrary, "FAILED_PRECONDITION"),
    "INTERNAL": Kind(InternalError, "INTERNAL"),
}

# What a status means when it comes without one of our reasons: from a proxy, a balancer, or gRPC itself.
_REASON_OF_STATUS: Mapping[str, str] = {
    "UNAVAILABLE": "UNAVAILABLE",
    "DEADLINE_EXCEEDED": "DEADLINE_EXCEEDED",
    "CANCELLED": "CANCELLED",
    "RESOURCE_EXHAUSTED": "SERVER_BUSY",
    "UNAUTHENTICATED": "UNAUTHENTICATED",
    "PERMISSION_DENIED": "PERMISSION_DENIED",
    "UNIMPLEMENTED": "VERSION_MISMATCH",
    "INVALID_ARGUMENT": "MALFORMED_REQUEST",
}


def make_error(reason: str, message: str, **details: object) -> BackhaulError:
    """The error of the class that the table gives for ``reason``."""
    return REASONS[reason].error(message, reason=reason, **details)


def status_of(error: BackhaulError) -> str:
    """The name of the gRPC status under which this error travels."""
    kind = REASONS.get(error.reason)
    return "INTERNAL" if kind is None else kind.status


def from_wire(status: str, reason: str, message: str, details: Mapping[str, str]) -> BackhaulError:
    """The error that the other end raised, rebuilt from what travelled.

    A reason that this version does not know keeps its code and takes the class that its status suggests.
    """
    kind = REASONS.get(reason) or REASONS.get(_REASON_OF_STATUS.get(status, "INTERNAL"))
    error = InternalError if kind is None else kind.error
    return _rebuild(error, message, reason or _REASON_OF_STATUS.get(status, "INTERNAL"), details)


def _rebuild(
    error: type[BackhaulError], message: str, reason: str, details: Mapping[str, str]
) -> BackhaulError:
    rebuilt = error(message, reason=reason)
    rebuilt.details = dict(details)
    return rebuilt
