"""Steps before they are recorded: what an op on operands of given types is, and what it results in.

All is found by inference (`backhaul_proto.catalog`) and kept by arguments, so that recording a step
that was seen before is one lookup.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Any

from backhaul_proto.catalog.avals import Aval
from backhaul_proto.catalog.einsum import EINSUM, einsum_attributes
from backhaul_proto.catalog.ops import Attributes, Op, bind, infer
from backhaul_proto.messages import Call


class NodeType:
    """What is known of a node without its value. Made by `node_type`; compared by identity."""

    __slots__ = ("aval", "has_tangent", "is_leaf", "requires_grad")

    def __init__(self, aval: Aval, requires_grad: bool, has_tangent: bool, is_leaf: bool) -> None:
        self.aval = aval
        self.requires_grad = requires_grad
        self.has_tangent = has_tangent
        self.is_leaf = is_leaf


@lru_cache(maxsize=65536)
def node_type(
    aval: Aval, requires_grad: bool = False, has_tangent: bool = False, is_leaf: bool = False
) -> NodeType:
    """The type with these properties; the same object for equal ones while it is kept."""
    return NodeType(aval, requires_grad, has_tangent, is_leaf)


class Signature:
    """A call of an op on operands of given types.

    Attributes:
        call: what travels.
        key: the identity of the call: equal calls are mostly one object.
        results: types of the results.
        several: whether the op gives a tuple, be it of one result.
    """

    __slots__ = ("call", "key", "results", "several")

    def __init__(self, call: Call, results: tuple[NodeType, ...], several: bool) -> None:
        self.call = call
        self.key = id(call)
        self.results = results
        self.several = several


@lru_cache(maxsize=16384)
def signature(entry: Op, attributes: Attributes, types: tuple[NodeType, ...]) -> Signature:
    """The signature of an op of the catalog.

    Raises:
        InvalidArgument: the operands or attributes cannot be right.
    """
    avals = tuple(each.aval for each in types)
    results = infer(entry, attributes, avals)
    return inferred_signature(
        entry.name, attributes, types, results, entry.several, differentiable=entry.differentiable
    )


def inferred_signature(
    op: str,
    attributes: Attributes,
    types: tuple[NodeType, ...],
    results: tuple[Aval, ...],
    several: bool,
    *,
    differentiable: bool,
) -> Signature:
    """The signature of an op whose result avals are known."""
    sources = [each for each in types if each.requires_grad] if differentiable else []
    tangent = any(each.has_tangent for each in sources)
    return Signature(
        _call(op, attributes, len(types), len(results)),
        tuple(
            node_type(each, bool(sources), tangent) if each.inexact else node_type(each)
            for each in results
        ),
        several,
    )


@lru_cache(maxsize=16384)
def einsum_signature(subscripts: str, types: tuple[NodeType, ...]) -> Signature:
    """The signature of an einsum by a subscripts string alone.

    Raises:
        InvalidArgument: EINSUM_SYNTAX and the other reasons of einsum.
    """
    _, attributes = einsum_attributes((subscripts, *types))
    return signature(EINSUM, bind(EINSUM, attributes), types)


def bound(entry: Op, values: tuple[Any, ...]) -> Attributes:
    """Attributes given in the order of the entry, checked and in their hashable form.

    Raises:
        InvalidArgument: INVALID_ATTRIBUTE.
    """
    try:
        return _bound(entry, *values)
    except TypeError:  # unhashable: a list
        return _bind(entry, values)


@lru_cache(maxsize=4096, typed=True)
def _bound(entry: Op, *values: Any) -> Attributes:
    return _bind(entry, values)


def _bind(entry: Op, values: tuple[Any, ...]) -> Attributes:
    return bind(entry, {spec.name: v for spec, v in zip(entry.attributes, values, strict=True)})


@lru_cache(maxsize=4096)
def _call(op: str, attributes: Attributes, operand_count: int, result_count: int) -> Call:
    return Call(op, attributes, operand_count, result_count)
