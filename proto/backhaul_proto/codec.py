"""Messages (`messages`) to protobuf and back.

A message is a header, all of its fields but the tensors, and the tensors beside it. Over a socket the
two are joined (`tensors.join`); inside a process the arrays are handed over as they are.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from google.protobuf.message import DecodeError, Message

from backhaul_proto import sight, tensors
from backhaul_proto.bounds import (
    MAX_ATTRIBUTE_BYTES,
    MAX_BLOCK_OPERANDS,
    MAX_NAME_BYTES,
    MAX_NAMED,
    MAX_OPERANDS,
    MAX_RESULTS,
    MAX_SETS,
    MAX_STEPS,
    check_count,
)
from backhaul_proto.bulk import FROM_BYTES, check_bulk
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.index import ARRAY, Index, Item, Slice
from backhaul_proto.catalog.ops import Attributes, AttributeValue
from backhaul_proto.errors import make_error
from backhaul_proto.messages import (
    Answer,
    Array,
    Block,
    BlockCall,
    Call,
    Contraction,
    ContractionCost,
    Direction,
    Execute,
    Failure,
    GradientSet,
    HvpQuestion,
    Limits,
    NodeOrArray,
    PullbackQuestion,
    PushforwardQuestion,
    Question,
)
from backhaul_proto.shared import Place
from backhaul_proto.v1 import graph_pb2, service_pb2, shared_memory_pb2

M = TypeVar("M", bound=Message)

_UINT64: Final = 2**64 - 1

Parts = tuple[bytes, list[Array]]
"""A header, and the tensors of its message."""


def parse(kind: type[M], data: bytes) -> M:
    """The stock parser.

    Raises:
        InvalidArgument: MALFORMED_REQUEST; REQUEST_LIMIT when its fields would take too much.
    """
    if len(data) > FROM_BYTES:
        check_bulk(kind.DESCRIPTOR, data)
    try:
        return kind.FromString(data)
    except DecodeError as error:
        raise make_error(
            "MALFORMED_REQUEST",
            f"These {len(data)} bytes are no {kind.DESCRIPTOR.full_name}: {error}. "
            "Check that both ends use the same .proto.",
        ) from None


# Blocks


def write_block(block: Block) -> bytes:
    """The bytes of a block; equal blocks have equal bytes."""
    message = graph_pb2.Block(
        input_count=block.input_count, steps=block.steps, operands=block.operands
    )
    for call in block.calls:
        message.calls.add(
            op=call.op,
            operand_count=call.operand_count,
            result_count=call.result_count,
            attributes=(attribute_message(name, value) for name, value in call.attributes),
        )
    return message.SerializeToString(deterministic=True)


def read_block(data: bytes) -> Block:
    """The block of these bytes; its attributes are still to be bound to the catalog."""
    message = parse(graph_pb2.Block, data)
    check_count("steps in a block", len(message.steps), MAX_STEPS)
    check_count("calls in a block", len(message.calls), MAX_STEPS)
    check_count("operands in a block", len(message.operands), MAX_BLOCK_OPERANDS)
    check_count("inputs of a block", message.input_count, MAX_NAMED)
    for each in message.calls:
        check_count("operands of a step", each.operand_count, MAX_OPERANDS)
        check_count("results of a step", each.result_count, MAX_RESULTS)
    calls = [
        Call(call.op, read_attributes(call.attributes), call.operand_count, call.result_count or 1)
        for call in message.calls
    ]
    return Block(message.input_count, calls, list(message.steps), list(message.operands))


def block_hash(data: bytes) -> bytes:
    """The hash by which a block's bytes are known."""
    return hashlib.sha256(data).digest()


def attribute_message(name: str, value: AttributeValue) -> graph_pb2.Attribute:
    """An attribute as it travels."""
    message = graph_pb2.Attribute(name=name)
    match value:
        case bool():
            message.bool_value = value
        case int():
            message.int_value = value
        case float():
            message.float_value = value
        case str():
            message.string_value = value
        case np.dtype():
            message.dtype_value = tensors.number_of(value)
        case Index():
            message.index_value.items.extend(map(_item_message, value.items))
            message.index_value.SetInParent()
        case tuple() if value and isinstance(value[0], tuple):
            message.int_lists_value.lists.extend(graph_pb2.IntList(values=each) for each in value)
        case tuple():
            message.ints_value.values.extend(value)
            message.ints_value.SetInParent()
    return message


def read_attributes(messages: Iterable[graph_pb2.Attribute]) -> Attributes:
    """Attributes as (name, value) pairs, not yet bound to the catalog."""
    nbytes = 0
    for each in messages:
        nbytes += each.ByteSize()
        check_count("bytes in the name of an attribute", len(each.name), MAX_NAME_BYTES)
        check_count("bytes of attributes of a step", nbytes, MAX_ATTRIBUTE_BYTES)
    return tuple((each.name, _attribute_value(each)) for each in messages)


def _attribute_value(message: graph_pb2.Attribute) -> AttributeValue:
    kind = message.WhichOneof("value")
    match kind:
        case "dtype_value":
            return tensors.dtype_of(message.dtype_value)
        case "ints_value":
            return tuple(message.ints_value.values)
        case "int_lists_value":
            return tuple(tuple(each.values) for each in message.int_lists_value.lists)
        case "index_value":
            return Index(tuple(map(_read_item, message.index_value.items)))
        case None:
            raise make_error(
                "INVALID_ATTRIBUTE",
                f"The attribute {message.name!r} has no value.",
                attribute=message.name,
            )
        case _:
            value: AttributeValue = getattr(message, kind)
            return value


_MARKS: Final[Mapping[Item, graph_pb2.IndexMark]] = {
    None: graph_pb2.INDEX_MARK_NEW_AXIS,
    Ellipsis: graph_pb2.INDEX_MARK_ELLIPSIS,
    ARRAY: graph_pb2.INDEX_MARK_ARRAY,
}
_ITEMS: Final[Mapping[graph_pb2.IndexMark, Item]] = {mark: item for item, mark in _MARKS.items()}


def _item_message(item: Item) -> graph_pb2.IndexItem:
    if isinstance(item, int):
        return graph_pb2.IndexItem(at=item)
    if isinstance(item, Slice):
        parts = graph_pb2.IndexSlice(start=item.start, stop=item.stop, step=item.step)
        return graph_pb2.IndexItem(slice=parts)
    return graph_pb2.IndexItem(mark=_MARKS[item])


def _read_item(message: graph_pb2.IndexItem) -> Item:
    match message.WhichOneof("item"):
        case "at":
            return message.at
        case "slice":
            parts = message.slice
            return Slice(
                parts.start if parts.HasField("start") else None,
                parts.stop if parts.HasField("stop") else None,
                parts.step if parts.HasField("step") else None,
            )
        case "mark" if message.mark in _ITEMS:
            return _ITEMS[message.mark]
    raise make_error("INVALID_ATTRIBUTE", "An entry of an index is none that this version knows.")


# Requests


def write_execute(request: Execute) -> Parts:
    """The request's header and tensors."""
    arrays = list(request.tensors)
    message = service_pb2.ExecuteRequest(
        session=service_pb2.SessionRef(id=request.session, epoch=request.epoch),
        seq=request.seq,
        digest=request.digest,
        values=request.values,
        release=request.release,
    )
    if request.memory_limit:
        message.options.memory_limit = request.memory_limit
    if request.lease_seconds:
        message.options.lease_seconds = request.lease_seconds
    if request.device:
        message.options.device = request.device
    if request.block is not None:
        message.block.hash = request.block.hash
        message.block.base_id = request.block.base_id
        message.block.inputs.extend(request.block.inputs)
        if request.block.block is not None:
            message.block.block = request.block.block
    match request.question:
        case PullbackQuestion() as question:
            message.pullback.loss = question.loss
            for cotangent in question.cotangents:
                _write_operand(message.pullback.cotangents.add(), cotangent, arrays)
            _write_wrt(message.pullback, question.wrt)
            message.pullback.keep_from = question.keep_from
        case HvpQuestion() as question:
            message.hvp.loss = question.loss
            _write_directions(message.hvp, question.directions, arrays)
            _write_wrt(message.hvp, question.wrt)
            message.hvp.keep_from = question.keep_from
            message.hvp.linear.extend(question.linear)
        case PushforwardQuestion() as question:
            message.pushforward.output = question.output
            _write_directions(message.pushforward, question.directions, arrays)
    if request.sight is not None:
        sight.write_question(message.sight, request.sight)
    return message.SerializeToString(), arrays


def write_response_buffers(buffers: Sequence[Place]) -> bytes:
    """What is appended to the header of an Execute to name shared memory for its answer."""
    return service_pb2.ExecuteRequest(
        response_buffers=(
            shared_memory_pb2.SharedBuffer(
                segment=each.segment, offset=each.offset, bytes=each.nbytes
            )
            for each in buffers
        )
    ).SerializeToString()


def read_response_buffers(message: service_pb2.ExecuteRequest) -> list[Place]:
    """The shared memory that a request names for its answer."""
    return [Place(each.segment, each.offset, each.bytes) for each in message.response_buffers]


def read_execute(message: service_pb2.ExecuteRequest, arrays: Sequence[Array]) -> Execute:
    """The request. ``arrays`` are its tensors, by whichever way they came."""
    named = max(len(message.values), len(message.release))
    block = None
    if message.HasField("block"):
        named = max(named, len(message.block.inputs))
        block = BlockCall(
            message.block.hash,
            message.block.block or None,
            message.block.base_id,
            list(message.block.inputs),
        )
    if named > MAX_NAMED:
        check_count("nodes in a list", named, MAX_NAMED)
    question: Question | None = None
    match message.WhichOneof("question"):
        case "pullback":
            question = read_pullback(message.pullback, arrays, message.pullback.keep_from)
        case "hvp":
            question = read_hvp(message.hvp, arrays, message.hvp.keep_from)
        case "pushforward":
            question = read_pushforward(message.pushforward, arrays)
    return Execute(
        session=message.session.id,
        epoch=message.session.epoch,
        seq=message.seq,
        digest=message.digest,
        block=block,
        tensors=arrays,
        values=list(message.values),
        question=question,
        release=list(message.release),
        memory_limit=message.options.memory_limit,
        lease_seconds=message.options.lease_seconds,
        device=message.options.device,
        sight=sight.read_question(message.sight) if message.HasField("sight") else None,
    )


def read_pullback(
    message: service_pb2.PullbackQuestion | service_pb2.PullbackRequest,
    arrays: Sequence[Array],
    keep_from: int = 0,
) -> PullbackQuestion:
    """The question of an Execute, or of a plain Pullback, which keeps nothing."""
    check_count("cotangents", len(message.cotangents), MAX_SETS)
    return PullbackQuestion(
        message.loss,
        [_read_operand(each, arrays, "cotangent") for each in message.cotangents],
        _read_wrt(message),
        keep_from,
    )


def read_hvp(
    message: service_pb2.HvpQuestion | service_pb2.HvpRequest,
    arrays: Sequence[Array],
    keep_from: int = 0,
) -> HvpQuestion:
    """The question of an Execute, or of a plain Hvp, which keeps nothing."""
    directions = _read_directions(message, arrays)
    check_count("nodes in linear", len(message.linear), MAX_NAMED)
    return HvpQuestion(
        message.loss, directions, _read_wrt(message), keep_from, list(message.linear)
    )


def read_pushforward(
    message: service_pb2.PushforwardQuestion | service_pb2.PushforwardRequest,
    arrays: Sequence[Array],
) -> PushforwardQuestion:
    """The question of an Execute, or of a plain Pushforward."""
    return PushforwardQuestion(message.output, _read_directions(message, arrays))


def _write_directions(message: Any, directions: Sequence[Direction], arrays: list[Array]) -> None:
    for direction in directions:
        added = message.directions.add()
        for leaf, tangent in direction:
            _write_operand(added.tangents.add(leaf=leaf).tangent, tangent, arrays)


def _read_directions(message: Any, arrays: Sequence[Array]) -> list[Direction]:
    check_count("directions", len(message.directions), MAX_SETS)
    return [
        [(each.leaf, _read_operand(each.tangent, arrays, "tangent")) for each in direction.tangents]
        for direction in message.directions
    ]


def _write_operand(message: graph_pb2.Operand, operand: NodeOrArray, arrays: list[Array]) -> None:
    if isinstance(operand, int):
        message.node = operand
    else:
        message.tensor_index = len(arrays)
        arrays.append(operand)


def _read_operand(message: graph_pb2.Operand, arrays: Sequence[Array], what: str) -> NodeOrArray:
    match message.WhichOneof("source"):
        case "node":
            return message.node
        case "tensor":
            return tensors.read(message.tensor, what)
        case "tensor_index" if message.tensor_index < len(arrays):
            return arrays[message.tensor_index]
        case "tensor_index":
            raise make_error(
                "MALFORMED_REQUEST",
                f"The {what} is tensor {message.tensor_index}, but the request has {len(arrays)}.",
            )
        case _:
            raise make_error("MALFORMED_REQUEST", f"The {what} has no source.")


def _write_wrt(message: Any, wrt: Sequence[int] | None) -> None:
    if wrt is not None:
        message.wrt.nodes.extend(wrt)
        message.wrt.SetInParent()


def _read_wrt(message: Any) -> list[int] | None:
    check_count("nodes in wrt", len(message.wrt.nodes), MAX_NAMED)
    return list(message.wrt.nodes) if message.HasField("wrt") else None


# Answers


def write_answer(answer: Answer) -> Parts:
    """The answer's header and tensors."""
    arrays: list[Array] = []

    def place(array: Array) -> int:
        arrays.append(array)
        return len(arrays) - 1

    message = service_pb2.ExecuteResponse(
        epoch=answer.epoch,
        base_id=answer.base_id,
        failures=map(_failure_message, answer.failures),
        values=[place(value) for value in answer.values],
        tangents=[place(tangent) for tangent in answer.tangents],
    )
    if answer.question_failure is not None:
        message.question_failure.CopyFrom(_failure_message(answer.question_failure))
    if answer.loss_value is not None:
        message.loss_value = place(answer.loss_value)
    elif answer.sets:
        message.no_loss_value = True
    for each in answer.sets:
        message.sets.add(
            nodes=each.nodes,
            gradients=[place(array) for array in each.gradients],
            hvps=[place(array) for array in each.hvps],
            kept=each.kept,
            kept_hvps=each.kept_hvps,
        )
    if answer.limits is not None:
        message.limits.CopyFrom(limits_message(answer.limits))
    if answer.sight is not None:
        sight.write(message.sight, answer.sight)
    return message.SerializeToString(), arrays


def read_answer(message: service_pb2.ExecuteResponse, arrays: Sequence[Array]) -> Answer:
    """The answer. ``arrays`` are its tensors, by whichever way they came."""
    return Answer(
        epoch=message.epoch,
        base_id=message.base_id,
        failures=[_read_failure(each) for each in message.failures],
        question_failure=(
            _read_failure(message.question_failure)
            if message.HasField("question_failure")
            else None
        ),
        values=[arrays[i] for i in message.values],
        loss_value=arrays[message.loss_value] if _has_loss_value(message) else None,
        sets=[
            GradientSet(
                list(each.nodes),
                [arrays[i] for i in each.gradients],
                [arrays[i] for i in each.hvps],
                list(each.kept),
                list(each.kept_hvps),
            )
            for each in message.sets
        ],
        limits=read_limits(message.limits) if message.HasField("limits") else None,
        tangents=[arrays[i] for i in message.tangents],
        sight=sight.read(message.sight) if message.HasField("sight") else None,
    )


def _has_loss_value(message: service_pb2.ExecuteResponse) -> bool:
    return bool(message.sets or message.tangents) and not message.no_loss_value


def _failure_message(failure: Failure) -> service_pb2.Failure:
    return service_pb2.Failure(
        node=failure.node,
        reason=failure.reason,
        message=failure.message,
        metadata=failure.details,
        dependants=failure.dependants,
    )


def _read_failure(message: service_pb2.Failure) -> Failure:
    return Failure(
        message.node,
        message.reason,
        message.message,
        dict(message.metadata),
        list(message.dependants),
    )


def limits_message(limits: Limits) -> service_pb2.Limits:
    """Limits as they travel."""
    return service_pb2.Limits(
        max_message_bytes=limits.max_message_bytes,
        session_memory=limits.session_memory,
        lease_seconds=limits.lease_seconds,
    )


def read_limits(message: service_pb2.Limits) -> Limits:
    """Limits as plain data."""
    return Limits(message.max_message_bytes, message.session_memory, message.lease_seconds)


# Contraction paths


def cost_message(cost: ContractionCost, result: Aval) -> service_pb2.ContractPathResponse:
    """What an einsum takes, as it travels."""
    return service_pb2.ContractPathResponse(
        steps=(
            service_pb2.ContractionStep(
                operands=each.operands,
                subscripts=each.subscripts,
                multiplications=min(each.multiplications, _UINT64),
                elements=min(each.elements, _UINT64),
                kept=each.kept,
            )
            for each in cost.steps
        ),
        naive_multiplications=_double(cost.naive_multiplications),
        largest_intermediate=min(cost.largest_intermediate, _UINT64),
        value_bytes=min(cost.value_bytes, _UINT64),
        gradient_bytes=min(cost.gradient_bytes, _UINT64),
        hvp_bytes=min(cost.hvp_bytes, _UINT64),
        result=tensors.type_message(result),
        slices=cost.slices,
        sliced_labels=cost.sliced_labels,
    )


def read_cost(message: service_pb2.ContractPathResponse) -> ContractionCost:
    """What an einsum takes, as plain data."""
    return ContractionCost(
        tuple(
            Contraction(
                tuple(each.operands),
                each.subscripts,
                each.multiplications,
                each.elements,
                each.kept,
            )
            for each in message.steps
        ),
        message.naive_multiplications,
        message.largest_intermediate,
        message.value_bytes,
        message.gradient_bytes,
        message.hvp_bytes,
        max(1, message.slices),
        message.sliced_labels,
    )


def _double(count: int | float) -> float:
    try:
        return float(count)
    except OverflowError:
        return math.inf
