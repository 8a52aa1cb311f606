"""Values put on a tape: arrays of the caller's, or tensors that are on it already."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from backhaul.constants import content_of
from backhaul.handle import Handle
from backhaul.questions import find_node, leaf_tangent
from backhaul.recording import holds_tensor
from backhaul.signatures import NodeType, node_type
from backhaul_proto.catalog.avals import INEXACT, Aval, aval
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.errors import make_error
from backhaul_proto.messages import LEAF, LEAF_WITH_TANGENT, Call, NodeOrArray

if TYPE_CHECKING:
    from backhaul.any_tape import AnyTape

Array = np.ndarray[Any, Any]

_LEAF: Final = Call(LEAF)
_LEAF_WITH_TANGENT: Final = Call(LEAF_WITH_TANGENT)
_LEAF_OF_NODE: Final = Call(LEAF, (), 1)
_LEAF_OF_NODES: Final = Call(LEAF_WITH_TANGENT, (), 2)


class RecordedLeaf(NamedTuple):
    """A leaf that was recorded: its node, the type, and the array that is its value, if it came as one."""

    node: int
    type: NodeType
    array: Array | None


def record_leaf(tape: AnyTape[Any], value: Any) -> RecordedLeaf:
    """Record `Tape.leaf`.

    Raises:
        InvalidArgument: DTYPE_NOT_SUPPORTED, INVALID_VALUE.
        MissingNode: a tensor of another tape, or one that was released.
    """
    found, kind = _differentiable(tape, value)
    type_ = node_type(kind, True, False, True)
    if isinstance(found, int):
        return RecordedLeaf(tape._core.source(_LEAF_OF_NODE, (), type_, [found]), type_, None)
    return RecordedLeaf(tape._core.source(_LEAF, [found], type_), type_, found)


def record_leaf_with_tangent(tape: AnyTape[Any], value: Any, tangent: Any) -> RecordedLeaf:
    """Record `Tape.leaf_with_tangent`; as `record_leaf`.

    Raises:
        TangentShapeMismatch, InvalidArgument, MissingNode.
    """
    found, kind = _differentiable(tape, value)
    along = leaf_tangent(tape, tangent, kind)
    type_ = node_type(kind, True, True, True)
    if isinstance(found, int) or isinstance(along, int):
        constants = [_as_node(tape, each) for each in (found, along)]
        operands = [each if isinstance(each, int) else each._id for each in constants]
        return RecordedLeaf(tape._core.source(_LEAF_OF_NODES, (), type_, operands), type_, None)
    node = tape._core.source(_LEAF_WITH_TANGENT, [found, along], type_)
    return RecordedLeaf(node, type_, found)


def array_of(value: Any, what: str) -> Array:
    """What a user gave as a value, as an array.

    Raises:
        InvalidArgument: INVALID_VALUE, DTYPE_NOT_SUPPORTED.
    """
    if holds_tensor(value):
        raise make_error(
            "INVALID_VALUE",
            f"{what} is a list with tensors in it, which would lose their gradients. Join them with "
            "bh.stack([...]), or give their values, tensor.numpy().",
            operand=what,
        )
    return as_array(value, what=what)


def _differentiable(tape: AnyTape[Any], value: Any) -> tuple[NodeOrArray, Aval]:
    """A leaf's value: a node, or a copy of an array."""
    found: NodeOrArray
    if isinstance(value, Handle):
        found, type_ = find_node(tape, value, "The leaf's value")
        kind = type_.aval
    else:
        found = array_of(value, "The leaf")
        kind = aval(found.shape, found.dtype)
    if kind.dtype not in INEXACT:
        raise make_error(
            "DTYPE_NOT_SUPPORTED",
            f"A leaf of dtype {kind.dtype} has no gradient. Convert it, for example with "
            ".astype('float64'), or make it a constant.",
            actual=kind.dtype,
        )
    return (found, kind) if isinstance(found, int) else (tape._core.connection.frozen(found), kind)


def _as_node(tape: AnyTape[Any], given: NodeOrArray) -> int | Handle:
    """A node as it is, an array as a constant, which is to be held until the leaf is recorded."""
    if isinstance(given, int):
        return given
    constant: Handle = tape._constant(content_of(given))
    return constant
