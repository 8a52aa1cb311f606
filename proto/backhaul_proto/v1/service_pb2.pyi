from backhaul_proto.v1 import graph_pb2 as _graph_pb2
from backhaul_proto.v1 import shared_memory_pb2 as _shared_memory_pb2
from backhaul_proto.v1 import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class SessionRef(_message.Message):
    __slots__ = ("id", "epoch")
    ID_FIELD_NUMBER: _ClassVar[int]
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    epoch: bytes
    def __init__(self, id: _Optional[bytes] = ..., epoch: _Optional[bytes] = ...) -> None: ...

class GetServerInfoRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetServerInfoResponse(_message.Message):
    __slots__ = ("version", "protocol", "backend", "ops_digest", "limits")
    VERSION_FIELD_NUMBER: _ClassVar[int]
    PROTOCOL_FIELD_NUMBER: _ClassVar[int]
    BACKEND_FIELD_NUMBER: _ClassVar[int]
    OPS_DIGEST_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    version: str
    protocol: str
    backend: str
    ops_digest: bytes
    limits: Limits
    def __init__(self, version: _Optional[str] = ..., protocol: _Optional[str] = ..., backend: _Optional[str] = ..., ops_digest: _Optional[bytes] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class Limits(_message.Message):
    __slots__ = ("max_message_bytes", "session_memory", "lease_seconds")
    MAX_MESSAGE_BYTES_FIELD_NUMBER: _ClassVar[int]
    SESSION_MEMORY_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    max_message_bytes: int
    session_memory: int
    lease_seconds: float
    def __init__(self, max_message_bytes: _Optional[int] = ..., session_memory: _Optional[int] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class SessionOptions(_message.Message):
    __slots__ = ("memory_limit", "lease_seconds")
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LEASE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    memory_limit: int
    lease_seconds: float
    def __init__(self, memory_limit: _Optional[int] = ..., lease_seconds: _Optional[float] = ...) -> None: ...

class ExecuteStreamRequest(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: ExecuteRequest
    chunk: Chunk
    def __init__(self, header: _Optional[_Union[ExecuteRequest, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class ExecuteStreamResponse(_message.Message):
    __slots__ = ("header", "chunk")
    HEADER_FIELD_NUMBER: _ClassVar[int]
    CHUNK_FIELD_NUMBER: _ClassVar[int]
    header: ExecuteResponse
    chunk: Chunk
    def __init__(self, header: _Optional[_Union[ExecuteResponse, _Mapping]] = ..., chunk: _Optional[_Union[Chunk, _Mapping]] = ...) -> None: ...

class Chunk(_message.Message):
    __slots__ = ("crc32c", "data")
    CRC32C_FIELD_NUMBER: _ClassVar[int]
    DATA_FIELD_NUMBER: _ClassVar[int]
    crc32c: int
    data: bytes
    def __init__(self, crc32c: _Optional[int] = ..., data: _Optional[bytes] = ...) -> None: ...

class OpenSessionRequest(_message.Message):
    __slots__ = ("session", "options")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    options: SessionOptions
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., options: _Optional[_Union[SessionOptions, _Mapping]] = ...) -> None: ...

class OpenSessionResponse(_message.Message):
    __slots__ = ("epoch", "limits")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    epoch: bytes
    limits: Limits
    def __init__(self, epoch: _Optional[bytes] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ...) -> None: ...

class CloseSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ...) -> None: ...

class CloseSessionResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class GetSessionRequest(_message.Message):
    __slots__ = ("session",)
    SESSION_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ...) -> None: ...

class GetSessionResponse(_message.Message):
    __slots__ = ("nodes", "bytes", "age_seconds", "last_seq", "memory_limit", "lease_left_seconds", "steps", "busy_seconds")
    NODES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BUSY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    nodes: int
    bytes: int
    age_seconds: float
    last_seq: int
    memory_limit: int
    lease_left_seconds: float
    steps: int
    busy_seconds: float
    def __init__(self, nodes: _Optional[int] = ..., bytes: _Optional[int] = ..., age_seconds: _Optional[float] = ..., last_seq: _Optional[int] = ..., memory_limit: _Optional[int] = ..., lease_left_seconds: _Optional[float] = ..., steps: _Optional[int] = ..., busy_seconds: _Optional[float] = ...) -> None: ...

class RenewLeaseRequest(_message.Message):
    __slots__ = ("epoch", "sessions")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    epoch: bytes
    sessions: _containers.RepeatedCompositeFieldContainer[Renewal]
    def __init__(self, epoch: _Optional[bytes] = ..., sessions: _Optional[_Iterable[_Union[Renewal, _Mapping]]] = ...) -> None: ...

class Renewal(_message.Message):
    __slots__ = ("id", "release", "answered")
    ID_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    ANSWERED_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    release: _containers.RepeatedScalarFieldContainer[int]
    answered: int
    def __init__(self, id: _Optional[bytes] = ..., release: _Optional[_Iterable[int]] = ..., answered: _Optional[int] = ...) -> None: ...

class RenewLeaseResponse(_message.Message):
    __slots__ = ("ended",)
    ENDED_FIELD_NUMBER: _ClassVar[int]
    ended: _containers.RepeatedCompositeFieldContainer[EndedSession]
    def __init__(self, ended: _Optional[_Iterable[_Union[EndedSession, _Mapping]]] = ...) -> None: ...

class EndedSession(_message.Message):
    __slots__ = ("id", "reason")
    ID_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    id: bytes
    reason: str
    def __init__(self, id: _Optional[bytes] = ..., reason: _Optional[str] = ...) -> None: ...

class ListSessionsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListSessionsResponse(_message.Message):
    __slots__ = ("sessions",)
    SESSIONS_FIELD_NUMBER: _ClassVar[int]
    sessions: _containers.RepeatedCompositeFieldContainer[SessionSummary]
    def __init__(self, sessions: _Optional[_Iterable[_Union[SessionSummary, _Mapping]]] = ...) -> None: ...

class SessionSummary(_message.Message):
    __slots__ = ("digest", "nodes", "bytes", "age_seconds", "last_seq", "memory_limit", "lease_left_seconds", "steps", "busy_seconds", "busy", "device", "worker", "node")
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    BYTES_FIELD_NUMBER: _ClassVar[int]
    AGE_SECONDS_FIELD_NUMBER: _ClassVar[int]
    LAST_SEQ_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    LEASE_LEFT_SECONDS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    BUSY_SECONDS_FIELD_NUMBER: _ClassVar[int]
    BUSY_FIELD_NUMBER: _ClassVar[int]
    DEVICE_FIELD_NUMBER: _ClassVar[int]
    WORKER_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    digest: bytes
    nodes: int
    bytes: int
    age_seconds: float
    last_seq: int
    memory_limit: int
    lease_left_seconds: float
    steps: int
    busy_seconds: float
    busy: bool
    device: str
    worker: str
    node: str
    def __init__(self, digest: _Optional[bytes] = ..., nodes: _Optional[int] = ..., bytes: _Optional[int] = ..., age_seconds: _Optional[float] = ..., last_seq: _Optional[int] = ..., memory_limit: _Optional[int] = ..., lease_left_seconds: _Optional[float] = ..., steps: _Optional[int] = ..., busy_seconds: _Optional[float] = ..., busy: bool = ..., device: _Optional[str] = ..., worker: _Optional[str] = ..., node: _Optional[str] = ...) -> None: ...

class LeafRequest(_message.Message):
    __slots__ = ("session", "node", "value", "tangent", "constant")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TANGENT_FIELD_NUMBER: _ClassVar[int]
    CONSTANT_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    node: int
    value: _tensor_pb2.Tensor
    tangent: _tensor_pb2.Tensor
    constant: bool
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., node: _Optional[int] = ..., value: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., tangent: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., constant: bool = ...) -> None: ...

class LeafResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: _graph_pb2.NodeInfo
    def __init__(self, node: _Optional[_Union[_graph_pb2.NodeInfo, _Mapping]] = ...) -> None: ...

class EinsumRequest(_message.Message):
    __slots__ = ("session", "node", "subscripts", "labels", "output", "operands")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTS_FIELD_NUMBER: _ClassVar[int]
    LABELS_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    node: int
    subscripts: str
    labels: _containers.RepeatedCompositeFieldContainer[_graph_pb2.IntList]
    output: _graph_pb2.IntList
    operands: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., node: _Optional[int] = ..., subscripts: _Optional[str] = ..., labels: _Optional[_Iterable[_Union[_graph_pb2.IntList, _Mapping]]] = ..., output: _Optional[_Union[_graph_pb2.IntList, _Mapping]] = ..., operands: _Optional[_Iterable[int]] = ...) -> None: ...

class EinsumResponse(_message.Message):
    __slots__ = ("node",)
    NODE_FIELD_NUMBER: _ClassVar[int]
    node: _graph_pb2.NodeInfo
    def __init__(self, node: _Optional[_Union[_graph_pb2.NodeInfo, _Mapping]] = ...) -> None: ...

class ApplyRequest(_message.Message):
    __slots__ = ("session", "node", "op", "operands", "attributes")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    node: int
    op: str
    operands: _containers.RepeatedScalarFieldContainer[int]
    attributes: _containers.RepeatedCompositeFieldContainer[_graph_pb2.Attribute]
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., node: _Optional[int] = ..., op: _Optional[str] = ..., operands: _Optional[_Iterable[int]] = ..., attributes: _Optional[_Iterable[_Union[_graph_pb2.Attribute, _Mapping]]] = ...) -> None: ...

class ApplyResponse(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedCompositeFieldContainer[_graph_pb2.NodeInfo]
    def __init__(self, nodes: _Optional[_Iterable[_Union[_graph_pb2.NodeInfo, _Mapping]]] = ...) -> None: ...

class InferRequest(_message.Message):
    __slots__ = ("op", "operands", "attributes")
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    op: str
    operands: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorType]
    attributes: _containers.RepeatedCompositeFieldContainer[_graph_pb2.Attribute]
    def __init__(self, op: _Optional[str] = ..., operands: _Optional[_Iterable[_Union[_tensor_pb2.TensorType, _Mapping]]] = ..., attributes: _Optional[_Iterable[_Union[_graph_pb2.Attribute, _Mapping]]] = ...) -> None: ...

class InferResponse(_message.Message):
    __slots__ = ("results", "several", "constant")
    RESULTS_FIELD_NUMBER: _ClassVar[int]
    SEVERAL_FIELD_NUMBER: _ClassVar[int]
    CONSTANT_FIELD_NUMBER: _ClassVar[int]
    results: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorType]
    several: bool
    constant: bool
    def __init__(self, results: _Optional[_Iterable[_Union[_tensor_pb2.TensorType, _Mapping]]] = ..., several: bool = ..., constant: bool = ...) -> None: ...

class ContractPathRequest(_message.Message):
    __slots__ = ("operands", "attributes", "memory_limit")
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    MEMORY_LIMIT_FIELD_NUMBER: _ClassVar[int]
    operands: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.TensorType]
    attributes: _containers.RepeatedCompositeFieldContainer[_graph_pb2.Attribute]
    memory_limit: int
    def __init__(self, operands: _Optional[_Iterable[_Union[_tensor_pb2.TensorType, _Mapping]]] = ..., attributes: _Optional[_Iterable[_Union[_graph_pb2.Attribute, _Mapping]]] = ..., memory_limit: _Optional[int] = ...) -> None: ...

class ContractPathResponse(_message.Message):
    __slots__ = ("steps", "naive_multiplications", "largest_intermediate", "value_bytes", "gradient_bytes", "hvp_bytes", "result")
    STEPS_FIELD_NUMBER: _ClassVar[int]
    NAIVE_MULTIPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    LARGEST_INTERMEDIATE_FIELD_NUMBER: _ClassVar[int]
    VALUE_BYTES_FIELD_NUMBER: _ClassVar[int]
    GRADIENT_BYTES_FIELD_NUMBER: _ClassVar[int]
    HVP_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESULT_FIELD_NUMBER: _ClassVar[int]
    steps: _containers.RepeatedCompositeFieldContainer[ContractionStep]
    naive_multiplications: float
    largest_intermediate: int
    value_bytes: int
    gradient_bytes: int
    hvp_bytes: int
    result: _tensor_pb2.TensorType
    def __init__(self, steps: _Optional[_Iterable[_Union[ContractionStep, _Mapping]]] = ..., naive_multiplications: _Optional[float] = ..., largest_intermediate: _Optional[int] = ..., value_bytes: _Optional[int] = ..., gradient_bytes: _Optional[int] = ..., hvp_bytes: _Optional[int] = ..., result: _Optional[_Union[_tensor_pb2.TensorType, _Mapping]] = ...) -> None: ...

class ContractionStep(_message.Message):
    __slots__ = ("operands", "subscripts", "multiplications", "elements", "kept")
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    SUBSCRIPTS_FIELD_NUMBER: _ClassVar[int]
    MULTIPLICATIONS_FIELD_NUMBER: _ClassVar[int]
    ELEMENTS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    operands: _containers.RepeatedScalarFieldContainer[int]
    subscripts: str
    multiplications: int
    elements: int
    kept: bool
    def __init__(self, operands: _Optional[_Iterable[int]] = ..., subscripts: _Optional[str] = ..., multiplications: _Optional[int] = ..., elements: _Optional[int] = ..., kept: bool = ...) -> None: ...

class GetValueRequest(_message.Message):
    __slots__ = ("session", "node")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    node: int
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., node: _Optional[int] = ...) -> None: ...

class GetValueResponse(_message.Message):
    __slots__ = ("value",)
    VALUE_FIELD_NUMBER: _ClassVar[int]
    value: _tensor_pb2.Tensor
    def __init__(self, value: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class Wrt(_message.Message):
    __slots__ = ("nodes",)
    NODES_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class PullbackRequest(_message.Message):
    __slots__ = ("session", "loss", "cotangents", "wrt")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    COTANGENTS_FIELD_NUMBER: _ClassVar[int]
    WRT_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    loss: int
    cotangents: _containers.RepeatedCompositeFieldContainer[_graph_pb2.Operand]
    wrt: Wrt
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., loss: _Optional[int] = ..., cotangents: _Optional[_Iterable[_Union[_graph_pb2.Operand, _Mapping]]] = ..., wrt: _Optional[_Union[Wrt, _Mapping]] = ...) -> None: ...

class NodeTensor(_message.Message):
    __slots__ = ("node", "tensor")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    node: int
    tensor: _tensor_pb2.Tensor
    def __init__(self, node: _Optional[int] = ..., tensor: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ...) -> None: ...

class PullbackResponse(_message.Message):
    __slots__ = ("value", "sets")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    value: _tensor_pb2.Tensor
    sets: _containers.RepeatedCompositeFieldContainer[GradientSet]
    def __init__(self, value: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., sets: _Optional[_Iterable[_Union[GradientSet, _Mapping]]] = ...) -> None: ...

class GradientSet(_message.Message):
    __slots__ = ("gradients", "hvps")
    GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    HVPS_FIELD_NUMBER: _ClassVar[int]
    gradients: _containers.RepeatedCompositeFieldContainer[NodeTensor]
    hvps: _containers.RepeatedCompositeFieldContainer[NodeTensor]
    def __init__(self, gradients: _Optional[_Iterable[_Union[NodeTensor, _Mapping]]] = ..., hvps: _Optional[_Iterable[_Union[NodeTensor, _Mapping]]] = ...) -> None: ...

class Direction(_message.Message):
    __slots__ = ("tangents",)
    TANGENTS_FIELD_NUMBER: _ClassVar[int]
    tangents: _containers.RepeatedCompositeFieldContainer[LeafTangent]
    def __init__(self, tangents: _Optional[_Iterable[_Union[LeafTangent, _Mapping]]] = ...) -> None: ...

class LeafTangent(_message.Message):
    __slots__ = ("leaf", "tangent")
    LEAF_FIELD_NUMBER: _ClassVar[int]
    TANGENT_FIELD_NUMBER: _ClassVar[int]
    leaf: int
    tangent: _graph_pb2.Operand
    def __init__(self, leaf: _Optional[int] = ..., tangent: _Optional[_Union[_graph_pb2.Operand, _Mapping]] = ...) -> None: ...

class HvpRequest(_message.Message):
    __slots__ = ("session", "loss", "directions", "wrt")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    LOSS_FIELD_NUMBER: _ClassVar[int]
    DIRECTIONS_FIELD_NUMBER: _ClassVar[int]
    WRT_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    loss: int
    directions: _containers.RepeatedCompositeFieldContainer[Direction]
    wrt: Wrt
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., loss: _Optional[int] = ..., directions: _Optional[_Iterable[_Union[Direction, _Mapping]]] = ..., wrt: _Optional[_Union[Wrt, _Mapping]] = ...) -> None: ...

class HvpResponse(_message.Message):
    __slots__ = ("value", "sets")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    value: _tensor_pb2.Tensor
    sets: _containers.RepeatedCompositeFieldContainer[GradientSet]
    def __init__(self, value: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., sets: _Optional[_Iterable[_Union[GradientSet, _Mapping]]] = ...) -> None: ...

class PushforwardRequest(_message.Message):
    __slots__ = ("session", "output", "directions")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DIRECTIONS_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    output: int
    directions: _containers.RepeatedCompositeFieldContainer[Direction]
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., output: _Optional[int] = ..., directions: _Optional[_Iterable[_Union[Direction, _Mapping]]] = ...) -> None: ...

class PushforwardResponse(_message.Message):
    __slots__ = ("value", "tangents")
    VALUE_FIELD_NUMBER: _ClassVar[int]
    TANGENTS_FIELD_NUMBER: _ClassVar[int]
    value: _tensor_pb2.Tensor
    tangents: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.Tensor]
    def __init__(self, value: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., tangents: _Optional[_Iterable[_Union[_tensor_pb2.Tensor, _Mapping]]] = ...) -> None: ...

class ReleaseRequest(_message.Message):
    __slots__ = ("session", "nodes")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    NODES_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    nodes: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., nodes: _Optional[_Iterable[int]] = ...) -> None: ...

class ReleaseResponse(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ExecuteRequest(_message.Message):
    __slots__ = ("session", "seq", "digest", "block", "values", "pullback", "hvp", "pushforward", "release", "options", "max_response_bytes", "response_buffers", "tensors")
    SESSION_FIELD_NUMBER: _ClassVar[int]
    SEQ_FIELD_NUMBER: _ClassVar[int]
    DIGEST_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    PULLBACK_FIELD_NUMBER: _ClassVar[int]
    HVP_FIELD_NUMBER: _ClassVar[int]
    PUSHFORWARD_FIELD_NUMBER: _ClassVar[int]
    RELEASE_FIELD_NUMBER: _ClassVar[int]
    OPTIONS_FIELD_NUMBER: _ClassVar[int]
    MAX_RESPONSE_BYTES_FIELD_NUMBER: _ClassVar[int]
    RESPONSE_BUFFERS_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    session: SessionRef
    seq: int
    digest: bytes
    block: _graph_pb2.BlockCall
    values: _containers.RepeatedScalarFieldContainer[int]
    pullback: PullbackQuestion
    hvp: HvpQuestion
    pushforward: PushforwardQuestion
    release: _containers.RepeatedScalarFieldContainer[int]
    options: SessionOptions
    max_response_bytes: int
    response_buffers: _containers.RepeatedCompositeFieldContainer[_shared_memory_pb2.SharedBuffer]
    tensors: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.Tensor]
    def __init__(self, session: _Optional[_Union[SessionRef, _Mapping]] = ..., seq: _Optional[int] = ..., digest: _Optional[bytes] = ..., block: _Optional[_Union[_graph_pb2.BlockCall, _Mapping]] = ..., values: _Optional[_Iterable[int]] = ..., pullback: _Optional[_Union[PullbackQuestion, _Mapping]] = ..., hvp: _Optional[_Union[HvpQuestion, _Mapping]] = ..., pushforward: _Optional[_Union[PushforwardQuestion, _Mapping]] = ..., release: _Optional[_Iterable[int]] = ..., options: _Optional[_Union[SessionOptions, _Mapping]] = ..., max_response_bytes: _Optional[int] = ..., response_buffers: _Optional[_Iterable[_Union[_shared_memory_pb2.SharedBuffer, _Mapping]]] = ..., tensors: _Optional[_Iterable[_Union[_tensor_pb2.Tensor, _Mapping]]] = ...) -> None: ...

class PullbackQuestion(_message.Message):
    __slots__ = ("loss", "cotangents", "wrt", "keep_from")
    LOSS_FIELD_NUMBER: _ClassVar[int]
    COTANGENTS_FIELD_NUMBER: _ClassVar[int]
    WRT_FIELD_NUMBER: _ClassVar[int]
    KEEP_FROM_FIELD_NUMBER: _ClassVar[int]
    loss: int
    cotangents: _containers.RepeatedCompositeFieldContainer[_graph_pb2.Operand]
    wrt: Wrt
    keep_from: int
    def __init__(self, loss: _Optional[int] = ..., cotangents: _Optional[_Iterable[_Union[_graph_pb2.Operand, _Mapping]]] = ..., wrt: _Optional[_Union[Wrt, _Mapping]] = ..., keep_from: _Optional[int] = ...) -> None: ...

class HvpQuestion(_message.Message):
    __slots__ = ("loss", "directions", "wrt", "keep_from")
    LOSS_FIELD_NUMBER: _ClassVar[int]
    DIRECTIONS_FIELD_NUMBER: _ClassVar[int]
    WRT_FIELD_NUMBER: _ClassVar[int]
    KEEP_FROM_FIELD_NUMBER: _ClassVar[int]
    loss: int
    directions: _containers.RepeatedCompositeFieldContainer[Direction]
    wrt: Wrt
    keep_from: int
    def __init__(self, loss: _Optional[int] = ..., directions: _Optional[_Iterable[_Union[Direction, _Mapping]]] = ..., wrt: _Optional[_Union[Wrt, _Mapping]] = ..., keep_from: _Optional[int] = ...) -> None: ...

class PushforwardQuestion(_message.Message):
    __slots__ = ("output", "directions")
    OUTPUT_FIELD_NUMBER: _ClassVar[int]
    DIRECTIONS_FIELD_NUMBER: _ClassVar[int]
    output: int
    directions: _containers.RepeatedCompositeFieldContainer[Direction]
    def __init__(self, output: _Optional[int] = ..., directions: _Optional[_Iterable[_Union[Direction, _Mapping]]] = ...) -> None: ...

class Failure(_message.Message):
    __slots__ = ("node", "reason", "message", "metadata", "dependants")
    class MetadataEntry(_message.Message):
        __slots__ = ("key", "value")
        KEY_FIELD_NUMBER: _ClassVar[int]
        VALUE_FIELD_NUMBER: _ClassVar[int]
        key: str
        value: str
        def __init__(self, key: _Optional[str] = ..., value: _Optional[str] = ...) -> None: ...
    NODE_FIELD_NUMBER: _ClassVar[int]
    REASON_FIELD_NUMBER: _ClassVar[int]
    MESSAGE_FIELD_NUMBER: _ClassVar[int]
    METADATA_FIELD_NUMBER: _ClassVar[int]
    DEPENDANTS_FIELD_NUMBER: _ClassVar[int]
    node: int
    reason: str
    message: str
    metadata: _containers.ScalarMap[str, str]
    dependants: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, node: _Optional[int] = ..., reason: _Optional[str] = ..., message: _Optional[str] = ..., metadata: _Optional[_Mapping[str, str]] = ..., dependants: _Optional[_Iterable[int]] = ...) -> None: ...

class ExecuteResponse(_message.Message):
    __slots__ = ("epoch", "base_id", "failures", "question_failure", "values", "loss_value", "sets", "limits", "tangents", "no_loss_value", "tensors")
    EPOCH_FIELD_NUMBER: _ClassVar[int]
    BASE_ID_FIELD_NUMBER: _ClassVar[int]
    FAILURES_FIELD_NUMBER: _ClassVar[int]
    QUESTION_FAILURE_FIELD_NUMBER: _ClassVar[int]
    VALUES_FIELD_NUMBER: _ClassVar[int]
    LOSS_VALUE_FIELD_NUMBER: _ClassVar[int]
    SETS_FIELD_NUMBER: _ClassVar[int]
    LIMITS_FIELD_NUMBER: _ClassVar[int]
    TANGENTS_FIELD_NUMBER: _ClassVar[int]
    NO_LOSS_VALUE_FIELD_NUMBER: _ClassVar[int]
    TENSORS_FIELD_NUMBER: _ClassVar[int]
    epoch: bytes
    base_id: int
    failures: _containers.RepeatedCompositeFieldContainer[Failure]
    question_failure: Failure
    values: _containers.RepeatedScalarFieldContainer[int]
    loss_value: int
    sets: _containers.RepeatedCompositeFieldContainer[IndexedGradients]
    limits: Limits
    tangents: _containers.RepeatedScalarFieldContainer[int]
    no_loss_value: bool
    tensors: _containers.RepeatedCompositeFieldContainer[_tensor_pb2.Tensor]
    def __init__(self, epoch: _Optional[bytes] = ..., base_id: _Optional[int] = ..., failures: _Optional[_Iterable[_Union[Failure, _Mapping]]] = ..., question_failure: _Optional[_Union[Failure, _Mapping]] = ..., values: _Optional[_Iterable[int]] = ..., loss_value: _Optional[int] = ..., sets: _Optional[_Iterable[_Union[IndexedGradients, _Mapping]]] = ..., limits: _Optional[_Union[Limits, _Mapping]] = ..., tangents: _Optional[_Iterable[int]] = ..., no_loss_value: bool = ..., tensors: _Optional[_Iterable[_Union[_tensor_pb2.Tensor, _Mapping]]] = ...) -> None: ...

class IndexedGradients(_message.Message):
    __slots__ = ("nodes", "gradients", "hvps", "kept", "kept_hvps")
    NODES_FIELD_NUMBER: _ClassVar[int]
    GRADIENTS_FIELD_NUMBER: _ClassVar[int]
    HVPS_FIELD_NUMBER: _ClassVar[int]
    KEPT_FIELD_NUMBER: _ClassVar[int]
    KEPT_HVPS_FIELD_NUMBER: _ClassVar[int]
    nodes: _containers.RepeatedScalarFieldContainer[int]
    gradients: _containers.RepeatedScalarFieldContainer[int]
    hvps: _containers.RepeatedScalarFieldContainer[int]
    kept: _containers.RepeatedScalarFieldContainer[int]
    kept_hvps: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, nodes: _Optional[_Iterable[int]] = ..., gradients: _Optional[_Iterable[int]] = ..., hvps: _Optional[_Iterable[int]] = ..., kept: _Optional[_Iterable[int]] = ..., kept_hvps: _Optional[_Iterable[int]] = ...) -> None: ...

class ListOpsRequest(_message.Message):
    __slots__ = ()
    def __init__(self) -> None: ...

class ListOpsResponse(_message.Message):
    __slots__ = ("ops",)
    OPS_FIELD_NUMBER: _ClassVar[int]
    ops: _containers.RepeatedCompositeFieldContainer[OpInfo]
    def __init__(self, ops: _Optional[_Iterable[_Union[OpInfo, _Mapping]]] = ...) -> None: ...

class OpInfo(_message.Message):
    __slots__ = ("name", "operands", "attributes", "doc", "has_vjp", "has_jvp", "support")
    NAME_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    HAS_VJP_FIELD_NUMBER: _ClassVar[int]
    HAS_JVP_FIELD_NUMBER: _ClassVar[int]
    SUPPORT_FIELD_NUMBER: _ClassVar[int]
    name: str
    operands: _containers.RepeatedScalarFieldContainer[str]
    attributes: _containers.RepeatedCompositeFieldContainer[AttributeInfo]
    doc: str
    has_vjp: bool
    has_jvp: bool
    support: _containers.RepeatedCompositeFieldContainer[OpSupport]
    def __init__(self, name: _Optional[str] = ..., operands: _Optional[_Iterable[str]] = ..., attributes: _Optional[_Iterable[_Union[AttributeInfo, _Mapping]]] = ..., doc: _Optional[str] = ..., has_vjp: bool = ..., has_jvp: bool = ..., support: _Optional[_Iterable[_Union[OpSupport, _Mapping]]] = ...) -> None: ...

class OpSupport(_message.Message):
    __slots__ = ("dtype", "vjp", "jvp", "hvp")
    DTYPE_FIELD_NUMBER: _ClassVar[int]
    VJP_FIELD_NUMBER: _ClassVar[int]
    JVP_FIELD_NUMBER: _ClassVar[int]
    HVP_FIELD_NUMBER: _ClassVar[int]
    dtype: _tensor_pb2.DataType
    vjp: bool
    jvp: bool
    hvp: bool
    def __init__(self, dtype: _Optional[_Union[_tensor_pb2.DataType, str]] = ..., vjp: bool = ..., jvp: bool = ..., hvp: bool = ...) -> None: ...

class AttributeInfo(_message.Message):
    __slots__ = ("name", "type", "required", "default_value", "doc")
    NAME_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUIRED_FIELD_NUMBER: _ClassVar[int]
    DEFAULT_VALUE_FIELD_NUMBER: _ClassVar[int]
    DOC_FIELD_NUMBER: _ClassVar[int]
    name: str
    type: str
    required: bool
    default_value: str
    doc: str
    def __init__(self, name: _Optional[str] = ..., type: _Optional[str] = ..., required: bool = ..., default_value: _Optional[str] = ..., doc: _Optional[str] = ...) -> None: ...
