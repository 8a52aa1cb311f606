"""The plain calls, one step or question each, told as what an Execute is made of."""

from __future__ import annotations

from typing import Any

from backhaul_proto import codec, tensors
from backhaul_proto.bounds import MAX_ATTRIBUTE_BYTES, MAX_OPERANDS, check_count
from backhaul_proto.errors import make_error
from backhaul_proto.messages import (
    CONSTANT,
    LEAF,
    LEAF_WITH_TANGENT,
    Answer,
    Block,
    BlockCall,
    Call,
    Execute,
    GradientSet,
)
from backhaul_proto.v1 import service_pb2


def leaf(request: service_pb2.LeafRequest) -> Execute:
    """Leaf as a block of one source."""
    if not request.HasField("value"):
        raise make_error("MALFORMED_REQUEST", "Leaf needs a value.")
    arrays = [tensors.read(request.value, "value")]
    kind = CONSTANT if request.constant else LEAF
    if request.HasField("tangent"):
        if request.constant:
            raise make_error(
                "INVALID_VALUE", "A constant has no tangent; leave one of the two out."
            )
        arrays.append(tensors.read(request.tangent, "tangent"))
        kind = LEAF_WITH_TANGENT
    return _execute(request.session, _block(Call(kind), request.node, []), tensors=arrays)


def einsum(request: service_pb2.EinsumRequest) -> Execute:
    """Einsum as a block of one step."""
    check_count("operands of a step", len(request.operands), MAX_OPERANDS)
    check_count("bytes of attributes of a step", request.ByteSize(), MAX_ATTRIBUTE_BYTES)
    attributes: list[tuple[str, Any]] = []
    if request.subscripts or not (request.labels or request.HasField("output")):
        attributes.append(("subscripts", request.subscripts))
    if request.labels:
        attributes.append(("labels", tuple(tuple(each.values) for each in request.labels)))
    if request.HasField("output"):
        attributes.append(("output", tuple(request.output.values)))
    call = Call("einsum", tuple(attributes), len(request.operands))
    return _execute(request.session, _block(call, request.node, list(request.operands)))


def apply(request: service_pb2.ApplyRequest, result_count: int) -> Execute:
    """Apply as a block of one step."""
    check_count("operands of a step", len(request.operands), MAX_OPERANDS)
    attributes = codec.read_attributes(request.attributes)
    call = Call(request.op, attributes, len(request.operands), result_count)
    return _execute(request.session, _block(call, request.node, list(request.operands)))


def get_value(request: service_pb2.GetValueRequest) -> Execute:
    """GetValue as an Execute without steps."""
    return _execute(request.session, values=[request.node])


def pullback(request: service_pb2.PullbackRequest) -> Execute:
    """Pullback as an Execute without steps."""
    return _execute(request.session, question=codec.read_pullback(request, []))


def hvp(request: service_pb2.HvpRequest) -> Execute:
    """Hvp as an Execute without steps."""
    return _execute(request.session, question=codec.read_hvp(request, []))


def pushforward(request: service_pb2.PushforwardRequest) -> Execute:
    """Pushforward as an Execute without steps."""
    return _execute(request.session, question=codec.read_pushforward(request, []))


def pushforward_response(answer: Answer) -> service_pb2.PushforwardResponse:
    """The answer of a plain Pushforward."""
    assert answer.loss_value is not None
    response = service_pb2.PushforwardResponse()
    tensors.fill(response.value, answer.loss_value)
    for tangent in answer.tangents:
        tensors.fill(response.tangents.add(), tangent)
    return response


def pullback_response(answer: Answer) -> service_pb2.PullbackResponse:
    """The answer of a plain Pullback."""
    response = service_pb2.PullbackResponse()
    _fill_gradients(response, answer)
    return response


def hvp_response(answer: Answer) -> service_pb2.HvpResponse:
    """The answer of a plain Hvp."""
    response = service_pb2.HvpResponse()
    _fill_gradients(response, answer)
    return response


def _fill_gradients(response: Any, answer: Answer) -> None:
    assert answer.loss_value is not None
    tensors.fill(response.value, answer.loss_value)
    for each in answer.sets:
        _fill_set(response.sets.add(), each)


def _fill_set(message: service_pb2.GradientSet, found: GradientSet) -> None:
    for node, gradient in zip(found.nodes, found.gradients, strict=True):
        tensors.fill(message.gradients.add(node=node).tensor, gradient)
    if found.hvps:
        for node, product in zip(found.nodes, found.hvps, strict=True):
            tensors.fill(message.hvps.add(node=node).tensor, product)


def _block(call: Call, node: int, operands: list[int]) -> BlockCall:
    data = codec.write_block(Block(len(operands), [call], [0], list(range(len(operands)))))
    return BlockCall(codec.block_hash(data), data, node, operands)


def _execute(
    session: service_pb2.SessionRef, block: BlockCall | None = None, **parts: Any
) -> Execute:
    return Execute(session.id, session.epoch, block=block, **parts)
