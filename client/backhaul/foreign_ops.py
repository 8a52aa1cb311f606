"""Ops that the client's catalog lacks and the server may have: of its plugins, or of a later release."""

from __future__ import annotations

import operator
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from backhaul.constants import content_of
from backhaul.handle import Handle
from backhaul.recording import append
from backhaul.signatures import inferred_signature
from backhaul_proto.catalog.ops import AttributeValue, get
from backhaul_proto.catalog.promotion import as_array
from backhaul_proto.errors import make_error


def record_foreign(op: str, operands: Sequence[Any], attributes: Mapping[str, Any]) -> Any:
    """Record an op by name; the server infers its results.

    Raises:
        InvalidArgument: UNKNOWN_OP when the server lacks it too; whatever else it says of the call.
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
    types = tuple(each._node_type for each in tensors)
    bound = tuple((name, _attribute(op, name, value)) for name, value in sorted(attributes.items()))
    inferred = tape._core.connection.infer(op, tuple(each.aval for each in types), bound)
    found = inferred_signature(
        op,
        bound,
        types,
        inferred.results,
        inferred.several,
        differentiable=inferred.differentiable,
    )
    return append(found, tensors)


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
