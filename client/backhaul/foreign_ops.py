"""Ops that the client's catalog lacks and the server may have: of its plugins, or of a later release."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from backhaul.constants import content_of
from backhaul.handle import Handle
from backhaul.recording import append
from backhaul.signatures import inferred_signature
from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.ops import Attributes, AttributeValue, get
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.errors import make_error
from backhaul_proto.messages import Inferred

if TYPE_CHECKING:
    from backhaul.any_tape import AnyTape


class ForeignCall(NamedTuple):
    """A call of an op that only the server knows.

    Attributes:
        op: its name.
        tape: where it is recorded.
        tensors: its operands.
        attributes: its static arguments, by name.
    """

    op: str
    tape: AnyTape[Any]
    tensors: Sequence[Any]
    attributes: Attributes

    @property
    def avals(self) -> tuple[Aval, ...]:
        """Of the operands."""
        return tuple(each._node_type.aval for each in self.tensors)


def foreign_call(op: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> ForeignCall:
    """The call of an op by name, its operands on their tape.

    Raises:
        InvalidArgument: an attribute that cannot travel.
    """
    tape = next((each._tape for each in operands if isinstance(each, Handle)), None)
    if tape is None:
        get(op)
        raise AssertionError(f"{op} is in the catalog")
    tensors = [
        each
        if isinstance(each, Handle)
        else tape._constant(content_of(as_array(each, what=f"operand {i} of {op}")))
        for i, each in enumerate(operands)
    ]
    bound = tuple((name, _attribute(op, name, value)) for name, value in sorted(attributes.items()))
    return ForeignCall(op, tape, tensors, bound)


def record_inferred(call: ForeignCall, inferred: Inferred) -> Any:
    """Record the call, its results as the server inferred them."""
    found = inferred_signature(
        call.op,
        call.attributes,
        tuple(each._node_type for each in call.tensors),
        inferred.results,
        inferred.several,
        differentiable=inferred.differentiable,
    )
    return append(found, call.tensors)


def record_foreign(op: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Record an op by name; the server infers its results.

    Raises:
        InvalidArgument: UNKNOWN_OP when the server lacks it too; whatever else it says of the call.
    """
    call = foreign_call(op, operands, attributes)
    return record_inferred(call, call.tape._core.inferred(op, call.avals, call.attributes))


def _attribute(op: str, name: str, value: Any) -> AttributeValue:
    """The value as it travels; the server alone knows of which type it should be."""
    match value:
        case bool() | int() | float() | str() | np.dtype():
            return value
        case np.bool_() | np.floating():
            return value.item()
        case list() | tuple():
            return tuple(_attribute(op, name, each) for each in value)
    if isinstance(value, type):
        return np.dtype(value)
    try:
        return operator.index(value)
    except TypeError:
        raise make_error(
            "INVALID_ATTRIBUTE",
            f"{op}: {name} is {value!r:.100}; attributes are numbers, strings, dtypes and lists of "
            "integers. Arrays are operands.",
            op=op,
            attribute=name,
        ) from None
