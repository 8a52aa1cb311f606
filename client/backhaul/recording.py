"""From a call of an op on tensors, arrays and numbers to a step on their tape."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from backhaul.constants import Content, content_of, scalar_content
from backhaul.handle import Handle
from backhaul.signatures import Signature, bound, einsum_signature, signature
from backhaul.unusable import released
from backhaul_proto.catalog.einsum import EINSUM, einsum_attributes
from backhaul_proto.catalog.ops import Attributes, Op, bind, infer
from backhaul_proto.catalog.promotion import as_array, weak
from backhaul_proto.errors import BackhaulError, make_error

if TYPE_CHECKING:
    from backhaul.any_tape import AnyTape
    from backhaul.tensor import TrackedTensor

Operand = Any
"""A tensor, an array or what NumPy makes one of, a number."""

_new: Final = object.__new__
_MAX_NDIM: Final = 64  # NumPy's; a list may hold itself
_SCALARS: Final = (bool, int, float, complex)


def record(entry: Op, operands: Sequence[Any], *values: Any) -> TrackedTensor:
    """Record an op with one result. To be called straight from the public function; see `Recorder.step`.

    Args:
        entry: the op.
        operands: tensors, arrays, numbers; at least one tensor.
        values: its attributes, in the order of the entry; None for the default.

    Raises:
        InvalidArgument: operands or attributes that cannot be right.
        MissingNode: a tensor of another tape, or one that was released.
    """
    attributes = bound(entry, values) if values else ()
    try:
        types = tuple([each._node_type for each in operands])
    except AttributeError:  # not all are tensors
        operands = on_tape(entry, operands, attributes)
        types = tuple([each._node_type for each in operands])
    result: TrackedTensor = append(signature(entry, attributes, types), operands)
    return result


def record_several(entry: Op, operands: Sequence[Any], *values: Any) -> tuple[TrackedTensor, ...]:
    """Record an op with several results; as `record`."""
    results: tuple[TrackedTensor, ...] = record_bound(entry, operands, bound(entry, values))
    return results


def record_bound(entry: Op, operands: Sequence[Any], attributes: Attributes) -> Any:
    """Record any op with attributes that are checked already; as `record`.

    Returns:
        The result, or a tuple of them for an op with several.
    """
    try:
        types = tuple([each._node_type for each in operands])
    except AttributeError:  # not all are tensors
        operands = on_tape(entry, operands, attributes)
        types = tuple([each._node_type for each in operands])
    return append(signature(entry, attributes, types), operands)


def record_einsum(subscripts: str, operands: Sequence[Any]) -> TrackedTensor:
    """Record an einsum of which the subscripts say all; as `record`."""
    try:
        if len(operands) == 2:  # most have two, and this takes half as long
            x, y = operands
            types = (x._node_type, y._node_type)
        else:
            types = tuple([each._node_type for each in operands])
    except AttributeError:
        _, attributes = einsum_attributes((subscripts, *operands))
        operands = on_tape(EINSUM, operands, bind(EINSUM, attributes))
        types = tuple([each._node_type for each in operands])
    result: TrackedTensor = append(einsum_signature(subscripts, types), operands)
    return result


def append(found: Signature, operands: Sequence[Any]) -> Any:
    """Record a step with a signature that was found for these tensors; as `record`."""
    if not operands:
        raise _not_on_a_tape(found.call.op)
    if not found.results:
        return ()
    tape = operands[0]._tape
    ids = []
    for each in operands:
        node = each._id
        if each._tape is not tape or node < 0:
            raise _unusable(found.call.op, operands)
        ids.append(node)
    recorder = tape._recorder
    if recorder.next_id >= recorder.full_at:
        tape._core.full()
    node = recorder.step(found, ids)
    kind = type(operands[0])  # TrackedTensor, which stands above this module
    if found.several:
        return tuple(kind(tape, node + i, each) for i, each in enumerate(found.results))
    # As its __init__ would, without the call: this is done for each step.
    result = _new(kind)
    result._tape = tape
    result._id = node
    result._node_type = found.results[0]
    result._value = None
    return result


def on_tape(entry: Op, operands: Sequence[Any], attributes: Attributes) -> list[Any]:
    """The operands as tensors of the tape that the first tensor among them is on.

    Raises:
        InvalidArgument: none is a tensor, or one cannot be made an array.
    """
    given = _given(entry, operands)
    tape = next((each._tape for each in given if isinstance(each, Handle)), None)
    if tape is None:
        infer(entry, attributes, tuple(each.type.aval for each in given))  # its errors come first
        raise _not_on_a_tape(entry.name)
    return [each if isinstance(each, Handle) else tape._constant(each) for each in given]


def _given(entry: Op, operands: Sequence[Any]) -> list[Any]:
    """Tensors as they are, all else as `Content`. Python numbers are weak where the op promotes."""
    given: list[Any] = []
    beside: list[np.dtype] = []
    for position, each in enumerate(operands):
        promoted = entry.promotes_operand(position)
        if isinstance(each, Handle):
            if promoted:
                beside.append(each._node_type.aval.dtype)
            given.append(each)
        elif promoted and type(each) in _SCALARS:
            given.append(each)
        elif holds_tensor(each):
            raise make_error(
                "INVALID_VALUE",
                f"Operand {position} of {entry.name} is a list with tensors in it, which would become an "
                "array and lose their gradients. Join them with bh.stack first.",
                op=entry.name,
                operand=position,
            )
        else:
            array = as_array(each, what=f"operand {position} of {entry.name}")
            if promoted:
                beside.append(array.dtype)
            given.append(content_of(array))
    return [_scalar(entry, x, tuple(beside)) if type(x) in _SCALARS else x for x in given]


def holds_tensor(given: Any, depth: int = 0) -> bool:
    """Whether this is a list with tensors in it, or in its lists: NumPy would take their values."""
    return (
        isinstance(given, list | tuple)
        and depth <= _MAX_NDIM
        and any(isinstance(each, Handle) or holds_tensor(each, depth + 1) for each in given)
    )


def _scalar(entry: Op, scalar: Any, beside: tuple[np.dtype, ...]) -> Content:
    try:
        return scalar_content(scalar, beside)
    except OverflowError:
        raise make_error(
            "INVALID_VALUE",
            f"{entry.name}: {scalar!r:.60} cannot be held in {weak(scalar, beside)}, the dtype of what it "
            "stands beside. Give an array of a wider dtype, or convert that with astype().",
            op=entry.name,
        ) from None


def _unusable(op: str, operands: Sequence[Any]) -> BackhaulError:
    """The error for operands of which one is on another tape, or was released."""
    tape: AnyTape[Any] = operands[0]._tape
    for position, each in enumerate(operands):
        if each._id < 0:
            return released(f"operand {position} of {op}", each)
        if each._tape is not tape:
            return make_error(
                "MISSING_NODE",
                f"{op}: operand 0 is on {tape}, operand {position} on {each._tape}; a computation stays "
                "on one tape. Record both on one, or take the value over with "
                "tape.constant(tensor.numpy()).",
                op=op,
                operand=position,
            )
    raise AssertionError("all operands can be used")


def _not_on_a_tape(op: str) -> BackhaulError:
    return make_error(
        "INVALID_VALUE",
        f"{op}: no operand is on a tape, so there is nothing to record it on. Make one of them with "
        "tape.leaf() or tape.constant(), or use NumPy.",
        op=op,
    )
