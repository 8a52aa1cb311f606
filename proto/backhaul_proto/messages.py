"""What travels, as plain data: the layers inside see these, never protobuf.

Arrays stand in them as NumPy arrays. A node is named by its id, an ``int``; where a message takes
either, an int is a node of the session and an array is the value itself.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes

Array = np.ndarray[Any, Any]
NodeOrArray = int | Array

PROTOCOL: Final = "backhaul.v1"
SERVICE: Final = "backhaul.v1.BackhaulService"
SESSION_METADATA: Final = "backhaul-session"

LEAF: Final = "leaf"
LEAF_WITH_TANGENT: Final = "leaf_with_tangent"
CONSTANT: Final = "constant"
SKIP: Final = "skip"
SOURCES: Final[Mapping[str, int]] = {LEAF: 1, LEAF_WITH_TANGENT: 2, CONSTANT: 1, SKIP: 0}
"""Calls that are no ops, and how many tensors of the request each takes, if it takes no operands."""
LEAVES: Final = frozenset({LEAF, LEAF_WITH_TANGENT})
"""Sources that may take operands in place of tensors, as many."""


@dataclass(frozen=True, slots=True)
class Call:
    """An op with its attributes, and its numbers of operands and results."""

    op: str
    attributes: Attributes = ()
    operand_count: int = 0
    result_count: int = 1

    @property
    def tensor_count(self) -> int:
        """How many tensors of the request each step of it takes."""
        return 0 if self.operand_count else SOURCES.get(self.op, 0)


@dataclass(frozen=True, slots=True)
class Block:
    """A function of numbered inputs, in columns; see Block in graph.proto."""

    input_count: int
    calls: Sequence[Call]
    steps: Sequence[int]
    operands: Sequence[int]


@dataclass(frozen=True, slots=True)
class BlockCall:
    """A block applied to nodes of a session. ``block`` is None when only its hash is sent."""

    hash: bytes
    block: bytes | None
    base_id: int
    inputs: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class PullbackQuestion:
    """Gradients of ``loss``: one set a cotangent, or one for the cotangent 1 when there are none.

    With ``keep_from`` they stay on the server as nodes, whose ids count from it on; 0: they are sent.
    """

    loss: int
    cotangents: Sequence[NodeOrArray] = ()
    wrt: Sequence[int] | None = None
    keep_from: int = 0

    @property
    def set_count(self) -> int:
        """How many sets answer it."""
        return len(self.cotangents) or 1


Direction = Sequence[tuple[int, NodeOrArray]]
"""(leaf, tangent) pairs."""


@dataclass(frozen=True, slots=True)
class HvpQuestion:
    """Gradients and H·v of ``loss``: one set a direction, or one along the leaves' own tangents.

    ``keep_from`` as in `PullbackQuestion`. Nodes of ``linear`` are taken as linear functions of what they
    were computed from: Gauss-Newton products.
    """

    loss: int
    directions: Sequence[Direction] = ()
    wrt: Sequence[int] | None = None
    keep_from: int = 0
    linear: Sequence[int] = ()

    @property
    def set_count(self) -> int:
        """How many sets answer it."""
        return len(self.directions) or 1


@dataclass(frozen=True, slots=True)
class PushforwardQuestion:
    """Tangents of ``output``: one a direction, or one along the leaves' own tangents."""

    output: int
    directions: Sequence[Direction] = ()


KeepingQuestion = PullbackQuestion | HvpQuestion
"""Those whose answers may stay on the server."""
Question = KeepingQuestion | PushforwardQuestion


def keep_from(question: Question | None) -> int:
    """The id from which on what answers it stays on the server; 0: it is sent."""
    return question.keep_from if isinstance(question, KeepingQuestion) else 0


def asked_node(question: Question) -> int:
    """The node that a question is of."""
    return question.output if isinstance(question, PushforwardQuestion) else question.loss


@dataclass(frozen=True, slots=True)
class SightQuestion:
    """What is to be told of the tape itself; see SightQuestion in service.proto."""

    nodes: bool = False
    times: bool = False
    max_nodes: int = 0


@dataclass(frozen=True, slots=True)
class NodeSight:
    """One node of a tape; see NodeSight in service.proto."""

    node: int
    op: str
    inputs: Sequence[int]
    aval: Aval
    requires_grad: bool
    named: bool
    failed: bool = False
    nan: int = 0
    inf: int = 0


@dataclass(frozen=True, slots=True)
class StepTime:
    """How long a step and its derivatives took; see StepTime in service.proto."""

    node: int
    op: str
    seconds: float
    derivative_seconds: float
    nbytes: int


@dataclass(frozen=True, slots=True)
class Sight:
    """What a tape looks like; see Sight in service.proto."""

    nodes: Sequence[NodeSight] = ()
    left_out: int = 0
    times: Sequence[StepTime] = ()


@dataclass(frozen=True, slots=True)
class Execute:
    """A block of steps and the questions at its end; see ExecuteRequest.

    ``memory_limit`` (bytes), ``lease_seconds`` and ``device`` are options of the session that it opens; 0
    or empty: what the server allows, and its default. ``answer_bytes`` does not travel: what the answer's
    large tensors will take at most, as far as the client knows, for a transport that makes room for them or
    chooses the way by it.
    """

    session: bytes
    epoch: bytes = b""
    seq: int = 0
    digest: bytes = b""
    block: BlockCall | None = None
    tensors: Sequence[Array] = ()
    values: Sequence[int] = ()
    question: Question | None = None
    release: Sequence[int] = ()
    memory_limit: int = 0
    answer_bytes: int = 0
    lease_seconds: float = 0.0
    device: str = ""
    sight: SightQuestion | None = None


@dataclass(frozen=True, slots=True)
class Failure:
    """A step's error, inside an answer: of ``node``, and of ``dependants`` in the same block."""

    node: int
    reason: str
    message: str
    details: Mapping[str, str]
    dependants: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class GradientSet:
    """Gradients, and for a HvpQuestion H·v, of the same nodes in the same order.

    Those that stay on the server stand in ``kept`` and ``kept_hvps``, by their ids.
    """

    nodes: Sequence[int]
    gradients: Sequence[Array] = ()
    hvps: Sequence[Array] = ()
    kept: Sequence[int] = ()
    kept_hvps: Sequence[int] = ()


@dataclass(frozen=True, slots=True)
class Limits:
    """What the server asks its clients to keep to.

    Attributes:
        max_message_bytes: largest message either way.
        session_memory: bytes that a session may use at most; 0: the server has not said.
        lease_seconds: seconds after its last call at which a session ends; 0: it does not end by itself.
    """

    max_message_bytes: int
    session_memory: int = 0
    lease_seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """What comes back for an Execute; see ExecuteResponse."""

    epoch: bytes
    base_id: int = 0
    failures: Sequence[Failure] = ()
    question_failure: Failure | None = None
    values: Sequence[Array] = ()
    loss_value: Array | None = None
    sets: Sequence[GradientSet] = ()
    limits: Limits | None = None
    tangents: Sequence[Array] = ()
    sight: Sight | None = None


@dataclass(frozen=True, slots=True)
class Inferred:
    """What an op gives: avals of its results, whether they are a tuple, whether gradients flow to them."""

    results: tuple[Aval, ...]
    several: bool
    differentiable: bool


@dataclass(frozen=True, slots=True)
class SessionInfo:
    """What a session holds; see GetSessionResponse."""

    nodes: int
    bytes: int
    age_seconds: float
    last_seq: int
    memory_limit: int = 0
    lease_left_seconds: float = 0.0
    steps: int = 0
    busy_seconds: float = 0.0
    device: str = ""


@dataclass(frozen=True, slots=True)
class SessionSummary:
    """A session as it is listed; see SessionSummary in service.proto."""

    digest: bytes
    info: SessionInfo
    busy: bool = False
    worker: str = ""
    node: str = ""


@dataclass(frozen=True, slots=True)
class Renewal:
    """A session whose lease is renewed; see Renewal in service.proto."""

    session: bytes
    release: Sequence[int] = ()
    answered: int = 0


@dataclass(frozen=True, slots=True)
class EndedSession:
    """A session that has ended, and why; see EndedSession in service.proto."""

    session: bytes
    reason: str


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """A device of a server, that sessions can compute on; see DEVICES in service.proto.

    Attributes:
        name: such as ``"cpu"`` or ``"cuda:0"``: for ``Tape(device=...)``.
        backend: the array library: ``"numpy"``, ``"cupy"``.
        model: what it is, for people.
        session_memory: bytes that a session may use there at most.
        memory_limit: bytes that all sessions may use there together.
        memory_used: bytes that sessions hold there, at most, and that are set aside for requests.
    """

    name: str
    backend: str
    model: str = ""
    session_memory: int = 0
    memory_limit: int = 0
    memory_used: int = 0


@dataclass(frozen=True, slots=True)
class ServerInfo:
    """What a server is; see GetServerInfoResponse. The first of its devices is the default."""

    version: str
    protocol: str
    backend: str
    ops_digest: bytes
    limits: Limits = field(default_factory=lambda: Limits(0))
    devices: tuple[DeviceInfo, ...] = ()


@dataclass(frozen=True, slots=True)
class Contraction:
    """One step of a contraction path.

    Attributes:
        operands: positions in the list of what is left, as in an opt_einsum path.
        subscripts: the step in einsum notation.
        multiplications: scalar multiplications that it takes.
        elements: size of its result.
        kept: whether the result stays for the gradient; else the reverse computes it again.
    """

    operands: tuple[int, ...]
    subscripts: str
    multiplications: int
    elements: int
    kept: bool


@dataclass(frozen=True, slots=True)
class ContractionCost:
    """How an einsum would be computed, and what that takes; see ContractPathResponse.

    Attributes:
        steps: in order.
        naive_multiplications: of one loop over all labels; infinity where a float cannot hold it.
        largest_intermediate: elements of the largest array that a step makes.
        value_bytes: peak of memory above the operands while the value is computed, result included.
        gradient_bytes: the same for value, then gradients of all operands that require one.
        hvp_bytes: the same for gradients and H·v with a tangent for each.
        slices: in how many slices it is computed; steps and largest intermediate are those of one.
        sliced_labels: what is cut, in the letters of the steps.
    """

    steps: tuple[Contraction, ...]
    naive_multiplications: float
    largest_intermediate: int
    value_bytes: int
    gradient_bytes: int
    hvp_bytes: int
    slices: int = 1
    sliced_labels: str = ""
