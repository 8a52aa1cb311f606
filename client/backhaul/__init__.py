"""Remote differentiation: tapes that a server owns, recorded on and asked from here.

    >>> import numpy as np, backhaul as bh
    >>> tape = bh.Tape()
    >>> a = tape.leaf(np.ones((2, 3)))
    >>> b = tape.leaf(np.ones((3, 4)))
    >>> c = bh.einsum("ij,jk->ik", a, b)
    >>> tape.pullback(bh.einsum("ij,ij->", c, c))[a].shape
    (2, 3)

The functions named like NumPy's, and `linalg`, are generated from the op catalog (tools/gen_ops.py), and
so are the list of imports from `_ops` and ``__all__`` below.
"""

from backhaul import linalg
from backhaul._ops import (
    add,
    astype,
    broadcast_to,
    conj,
    imag,
    matmul,
    matrix_transpose,
    multiply,
    negative,
    real,
    reshape,
    stack,
    stop_gradient,
    subtract,
    sum,
    tril,
    unstack,
)
from backhaul.connection import Connection, connect
from backhaul.contraction_paths import ContractionPath, contract_path
from backhaul.functions import apply, einsum, ops, tracked_einsum
from backhaul.gradients import Gradients, HvpResult
from backhaul.tape import Tape
from backhaul.tensor import TrackedTensor
from backhaul_proto._version import __version__
from backhaul_proto.errors import (
    AccessError,
    AutodiffError,
    BackhaulError,
    Cancelled,
    DeadlineExceeded,
    HvpNotSupported,
    InternalError,
    InvalidArgument,
    LinearAlgebraError,
    MemoryLimitExceeded,
    MessageTooLarge,
    MissingGradient,
    MissingNode,
    NonScalarLoss,
    PermissionDenied,
    QuotaExceeded,
    ResourceError,
    ServerBusy,
    SessionClosed,
    SessionError,
    SessionExpired,
    SessionLost,
    SessionNotFound,
    TangentShapeMismatch,
    TransportError,
    Unauthenticated,
    Unavailable,
    VersionMismatch,
)

__all__ = [
    "AccessError",
    "AutodiffError",
    "BackhaulError",
    "Cancelled",
    "Connection",
    "ContractionPath",
    "DeadlineExceeded",
    "Gradients",
    "HvpNotSupported",
    "HvpResult",
    "InternalError",
    "InvalidArgument",
    "LinearAlgebraError",
    "MemoryLimitExceeded",
    "MessageTooLarge",
    "MissingGradient",
    "MissingNode",
    "NonScalarLoss",
    "PermissionDenied",
    "QuotaExceeded",
    "ResourceError",
    "ServerBusy",
    "SessionClosed",
    "SessionError",
    "SessionExpired",
    "SessionLost",
    "SessionNotFound",
    "TangentShapeMismatch",
    "Tape",
    "TrackedTensor",
    "TransportError",
    "Unauthenticated",
    "Unavailable",
    "VersionMismatch",
    "__version__",
    "add",
    "apply",
    "astype",
    "broadcast_to",
    "conj",
    "connect",
    "contract_path",
    "einsum",
    "imag",
    "linalg",
    "matmul",
    "matrix_transpose",
    "multiply",
    "negative",
    "ops",
    "real",
    "reshape",
    "stack",
    "stop_gradient",
    "subtract",
    "sum",
    "tracked_einsum",
    "tril",
    "unstack",
]
