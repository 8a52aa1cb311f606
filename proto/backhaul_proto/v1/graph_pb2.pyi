from backhaul_proto.v1 import tensor_pb2 as _tensor_pb2
from google.protobuf.internal import containers as _containers
from google.protobuf.internal import enum_type_wrapper as _enum_type_wrapper
from google.protobuf import descriptor as _descriptor
from google.protobuf import message as _message
from typing import ClassVar as _ClassVar, Iterable as _Iterable, Mapping as _Mapping, Optional as _Optional, Union as _Union

DESCRIPTOR: _descriptor.FileDescriptor

class IndexMark(int, metaclass=_enum_type_wrapper.EnumTypeWrapper):
    __slots__ = ()
    INDEX_MARK_UNSPECIFIED: _ClassVar[IndexMark]
    INDEX_MARK_NEW_AXIS: _ClassVar[IndexMark]
    INDEX_MARK_ELLIPSIS: _ClassVar[IndexMark]
    INDEX_MARK_ARRAY: _ClassVar[IndexMark]
INDEX_MARK_UNSPECIFIED: IndexMark
INDEX_MARK_NEW_AXIS: IndexMark
INDEX_MARK_ELLIPSIS: IndexMark
INDEX_MARK_ARRAY: IndexMark

class IntList(_message.Message):
    __slots__ = ("values",)
    VALUES_FIELD_NUMBER: _ClassVar[int]
    values: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, values: _Optional[_Iterable[int]] = ...) -> None: ...

class IntLists(_message.Message):
    __slots__ = ("lists",)
    LISTS_FIELD_NUMBER: _ClassVar[int]
    lists: _containers.RepeatedCompositeFieldContainer[IntList]
    def __init__(self, lists: _Optional[_Iterable[_Union[IntList, _Mapping]]] = ...) -> None: ...

class IndexSlice(_message.Message):
    __slots__ = ("start", "stop", "step")
    START_FIELD_NUMBER: _ClassVar[int]
    STOP_FIELD_NUMBER: _ClassVar[int]
    STEP_FIELD_NUMBER: _ClassVar[int]
    start: int
    stop: int
    step: int
    def __init__(self, start: _Optional[int] = ..., stop: _Optional[int] = ..., step: _Optional[int] = ...) -> None: ...

class IndexItem(_message.Message):
    __slots__ = ("at", "slice", "mark")
    AT_FIELD_NUMBER: _ClassVar[int]
    SLICE_FIELD_NUMBER: _ClassVar[int]
    MARK_FIELD_NUMBER: _ClassVar[int]
    at: int
    slice: IndexSlice
    mark: IndexMark
    def __init__(self, at: _Optional[int] = ..., slice: _Optional[_Union[IndexSlice, _Mapping]] = ..., mark: _Optional[_Union[IndexMark, str]] = ...) -> None: ...

class Index(_message.Message):
    __slots__ = ("items",)
    ITEMS_FIELD_NUMBER: _ClassVar[int]
    items: _containers.RepeatedCompositeFieldContainer[IndexItem]
    def __init__(self, items: _Optional[_Iterable[_Union[IndexItem, _Mapping]]] = ...) -> None: ...

class Attribute(_message.Message):
    __slots__ = ("name", "int_value", "float_value", "bool_value", "string_value", "dtype_value", "ints_value", "int_lists_value", "index_value")
    NAME_FIELD_NUMBER: _ClassVar[int]
    INT_VALUE_FIELD_NUMBER: _ClassVar[int]
    FLOAT_VALUE_FIELD_NUMBER: _ClassVar[int]
    BOOL_VALUE_FIELD_NUMBER: _ClassVar[int]
    STRING_VALUE_FIELD_NUMBER: _ClassVar[int]
    DTYPE_VALUE_FIELD_NUMBER: _ClassVar[int]
    INTS_VALUE_FIELD_NUMBER: _ClassVar[int]
    INT_LISTS_VALUE_FIELD_NUMBER: _ClassVar[int]
    INDEX_VALUE_FIELD_NUMBER: _ClassVar[int]
    name: str
    int_value: int
    float_value: float
    bool_value: bool
    string_value: str
    dtype_value: _tensor_pb2.DataType
    ints_value: IntList
    int_lists_value: IntLists
    index_value: Index
    def __init__(self, name: _Optional[str] = ..., int_value: _Optional[int] = ..., float_value: _Optional[float] = ..., bool_value: bool = ..., string_value: _Optional[str] = ..., dtype_value: _Optional[_Union[_tensor_pb2.DataType, str]] = ..., ints_value: _Optional[_Union[IntList, _Mapping]] = ..., int_lists_value: _Optional[_Union[IntLists, _Mapping]] = ..., index_value: _Optional[_Union[Index, _Mapping]] = ...) -> None: ...

class Call(_message.Message):
    __slots__ = ("op", "operand_count", "result_count", "attributes")
    OP_FIELD_NUMBER: _ClassVar[int]
    OPERAND_COUNT_FIELD_NUMBER: _ClassVar[int]
    RESULT_COUNT_FIELD_NUMBER: _ClassVar[int]
    ATTRIBUTES_FIELD_NUMBER: _ClassVar[int]
    op: str
    operand_count: int
    result_count: int
    attributes: _containers.RepeatedCompositeFieldContainer[Attribute]
    def __init__(self, op: _Optional[str] = ..., operand_count: _Optional[int] = ..., result_count: _Optional[int] = ..., attributes: _Optional[_Iterable[_Union[Attribute, _Mapping]]] = ...) -> None: ...

class Block(_message.Message):
    __slots__ = ("input_count", "calls", "steps", "operands")
    INPUT_COUNT_FIELD_NUMBER: _ClassVar[int]
    CALLS_FIELD_NUMBER: _ClassVar[int]
    STEPS_FIELD_NUMBER: _ClassVar[int]
    OPERANDS_FIELD_NUMBER: _ClassVar[int]
    input_count: int
    calls: _containers.RepeatedCompositeFieldContainer[Call]
    steps: _containers.RepeatedScalarFieldContainer[int]
    operands: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, input_count: _Optional[int] = ..., calls: _Optional[_Iterable[_Union[Call, _Mapping]]] = ..., steps: _Optional[_Iterable[int]] = ..., operands: _Optional[_Iterable[int]] = ...) -> None: ...

class BlockCall(_message.Message):
    __slots__ = ("hash", "block", "base_id", "inputs")
    HASH_FIELD_NUMBER: _ClassVar[int]
    BLOCK_FIELD_NUMBER: _ClassVar[int]
    BASE_ID_FIELD_NUMBER: _ClassVar[int]
    INPUTS_FIELD_NUMBER: _ClassVar[int]
    hash: bytes
    block: bytes
    base_id: int
    inputs: _containers.RepeatedScalarFieldContainer[int]
    def __init__(self, hash: _Optional[bytes] = ..., block: _Optional[bytes] = ..., base_id: _Optional[int] = ..., inputs: _Optional[_Iterable[int]] = ...) -> None: ...

class Operand(_message.Message):
    __slots__ = ("tensor", "node", "tensor_index")
    TENSOR_FIELD_NUMBER: _ClassVar[int]
    NODE_FIELD_NUMBER: _ClassVar[int]
    TENSOR_INDEX_FIELD_NUMBER: _ClassVar[int]
    tensor: _tensor_pb2.Tensor
    node: int
    tensor_index: int
    def __init__(self, tensor: _Optional[_Union[_tensor_pb2.Tensor, _Mapping]] = ..., node: _Optional[int] = ..., tensor_index: _Optional[int] = ...) -> None: ...

class NodeInfo(_message.Message):
    __slots__ = ("node", "type", "requires_grad", "has_tangent")
    NODE_FIELD_NUMBER: _ClassVar[int]
    TYPE_FIELD_NUMBER: _ClassVar[int]
    REQUIRES_GRAD_FIELD_NUMBER: _ClassVar[int]
    HAS_TANGENT_FIELD_NUMBER: _ClassVar[int]
    node: int
    type: _tensor_pb2.TensorType
    requires_grad: bool
    has_tangent: bool
    def __init__(self, node: _Optional[int] = ..., type: _Optional[_Union[_tensor_pb2.TensorType, _Mapping]] = ..., requires_grad: bool = ..., has_tangent: bool = ...) -> None: ...
