"""What a tape looks like (`messages.Sight`) to protobuf and back."""

from __future__ import annotations

from typing import Final

from backhaul_proto import tensors
from backhaul_proto.messages import NodeSight, Sight, SightQuestion, StepTime
from backhaul_proto.v1 import service_pb2

MAX_NODES: Final = 100_000
"""Nodes of a tape that one answer tells of."""


def write_question(message: service_pb2.SightQuestion, question: SightQuestion) -> None:
    """What is asked, as it travels."""
    message.nodes = question.nodes
    message.times = question.times
    message.max_nodes = question.max_nodes
    message.SetInParent()


def read_question(message: service_pb2.SightQuestion) -> SightQuestion:
    """What is asked, as plain data."""
    return SightQuestion(
        message.nodes, message.times, min(message.max_nodes or MAX_NODES, MAX_NODES)
    )


def write(message: service_pb2.Sight, sight: Sight) -> None:
    """What a tape looks like, as it travels."""
    message.SetInParent()
    message.left_out = sight.left_out
    for node in sight.nodes:
        message.nodes.add(
            node=node.node,
            op=node.op,
            inputs=node.inputs,
            type=tensors.type_message(node.aval),
            requires_grad=node.requires_grad,
            named=node.named,
            failed=node.failed,
            nan=node.nan,
            inf=node.inf,
        )
    for step in sight.times:
        message.times.add(
            node=step.node,
            op=step.op,
            seconds=step.seconds,
            derivative_seconds=step.derivative_seconds,
            bytes=step.nbytes,
        )


def read(message: service_pb2.Sight) -> Sight:
    """What a tape looks like, as plain data."""
    return Sight(
        [
            NodeSight(
                each.node,
                each.op,
                tuple(each.inputs),
                tensors.read_type(each.type, f"node {each.node}"),
                each.requires_grad,
                each.named,
                each.failed,
                each.nan,
                each.inf,
            )
            for each in message.nodes
        ],
        message.left_out,
        [
            StepTime(each.node, each.op, each.seconds, each.derivative_seconds, each.bytes)
            for each in message.times
        ],
    )
