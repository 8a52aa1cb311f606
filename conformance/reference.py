"""The answer that a case must get, from the engine in this process: no wire, no session, no client."""

from __future__ import annotations

from typing import Any

import numpy as np
from conformance.vector import Json, array_of, tensor_json

from backhaul_proto.catalog.index import ARRAY, Index, Slice
from backhaul_proto.catalog.ops import AttributeValue
from backhaul_proto.errors import BackhaulError, status_of
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.node import Node
from backhaul_server.engine.tape import Tape

_MARKS: dict[str, Any] = {"NEW_AXIS": None, "ELLIPSIS": Ellipsis, "ARRAY": ARRAY}


@np.errstate(all="ignore")
def answer(case: Json) -> Json:
    """The answer without its name; a refusal's is its error, without details."""
    try:
        return _answer(case)
    except BackhaulError as error:
        return {"error": {"reason": error.reason, "code": status_of(error)}}


def _answer(case: Json) -> Json:
    tape = Tape(Engine())
    nodes = [_source(tape, each) for each in case["sources"]]
    for call in case["calls"]:
        attributes = {name: attribute(value) for name, value in call["attributes"].items()}
        made = tape.apply(call["op"], [nodes[i] for i in call["operands"]], **attributes)
        nodes += made if isinstance(made, tuple) else [made]
    ask = case["ask"]
    told: Json = {"values": [_value(nodes[i]) for i in ask["values"]]}
    if ask.get("pullback"):
        told["pullback"] = _pullback(tape, nodes, ask["pullback"])
    if ask.get("hvp"):
        told["hvp"] = _hvp(tape, nodes, ask["hvp"])
    return told


def _source(tape: Tape, source: Json) -> Node:
    value = array_of(source["value"]).copy()
    if source["kind"] == "constant":
        return tape.constant(value)
    tangent = source.get("tangent")
    return tape.leaf(value, None if tangent is None else array_of(tangent).copy())


def _value(node: Node) -> Json:
    if node.error is not None:
        raise node.error
    return tensor_json(node.value)


def _pullback(tape: Tape, nodes: list[Node], ask: Json) -> Json:
    wrt = [nodes[i] for i in ask["wrt"]]
    cotangents = [array_of(ask["cotangent"]).copy()] if ask.get("cotangent") else []
    (gradients,) = tape.pullback(nodes[ask["loss"]], cotangents, wrt)
    return {
        "value": _value(nodes[ask["loss"]]),
        "gradients": [tensor_json(gradients[each]) for each in wrt],
    }


def _hvp(tape: Tape, nodes: list[Node], ask: Json) -> Json:
    wrt = [nodes[i] for i in ask["wrt"]]
    direction = {nodes[t["of"]]: array_of(t["value"]).copy() for t in ask["tangents"]}
    ((gradients, products),) = tape.hvp(nodes[ask["loss"]], [direction] if direction else (), wrt)
    return {
        "value": _value(nodes[ask["loss"]]),
        "gradients": [tensor_json(gradients[each]) for each in wrt],
        "products": [tensor_json(products[each]) for each in wrt],
    }


def attribute(value: Json) -> AttributeValue:
    """The attribute that a case's JSON means."""
    ((kind, given),) = value.items()
    match kind:
        case "int":
            return int(given)
        case "float":
            return float(given)
        case "ints":
            return tuple(int(each) for each in given)
        case "int_lists":
            return tuple(tuple(int(number) for number in each) for each in given)
        case "dtype":
            return np.dtype(given)
        case "index":
            return Index(tuple(_item(each) for each in given))
        case "bool":
            return bool(given)
    return str(given)


def _item(item: Json) -> Any:
    if "at" in item:
        return int(item["at"])
    if "slice" in item:
        parts = {k: None if v is None else int(v) for k, v in item["slice"].items()}
        return Slice(**parts)
    return _MARKS[item["mark"]]
