"""Cases of the corpus of checked cases, as far as their programs are ops of the catalog without more ado."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from conformance import reference
from conformance.cases.building import CaseBuilder
from conformance.comparison import difference
from conformance.vector import Json, Vector, tensor_json, text

# Names of the corpus that are others than the catalog's; all of them take their operands and nothing else.
NAMES: Final[Mapping[str, str]] = {
    "add": "add",
    "sub": "subtract",
    "mul": "multiply",
    "div": "divide",
    "neg": "negative",
    "exp": "exp",
    "log": "log",
    "sin": "sin",
    "cos": "cos",
    "tanh": "tanh",
    "sqrt": "sqrt",
    "square": "square",
    "sigmoid": "sigmoid",
    "softplus": "softplus",
    "maximum": "maximum",
    "minimum": "minimum",
    "sum": "sum",
    "mean": "mean",
    "real": "real",
    "imag": "imag",
    "conj": "conj",
    "matmul": "matmul",
    "inv": "linalg.inv",
    "det": "linalg.det",
    "cholesky": "linalg.cholesky",
}
LEFT_OUT: Final = ("accept", "accept_error", "policy", "disputed", "skip")
"""Fields of cases whose answer is a matter of opinion, or not compared whole."""


def load(corpus: Path) -> list[Json]:
    """All cases, arrays as NumPy has them."""
    tools = str(corpus / "tools")
    if tools not in sys.path:
        sys.path.insert(0, tools)
    cases: list[Json] = importlib.import_module("fmt").load(str(corpus))
    return cases


def checked(case: Json, most_bytes: int) -> Vector | None:
    """The vector of a case with the corpus's own answers; None for a case that is not told this way.

    Raises:
        ValueError: the engine's answer is not near the corpus's.
    """
    if case["procedure"] != "grad_hvp" or any(case.get(field) for field in LEFT_OUT):
        return None
    built = build(case)
    if built is None:
        return None
    builder, names = built
    leaves = [names[each["name"]] for each in case["leaves"]]
    loss = names[case["loss"]]
    builder.values(loss)
    builder.pullback(loss, leaves)
    builder.hvp(loss, leaves)
    vector = _vector(case, builder.case)
    if len(text("", [vector])) > most_bytes:
        return None
    engine = reference.answer(builder.case)
    if (wrong := difference(vector, {"name": vector.name, **engine})) is not None:
        raise ValueError(f"{case['id']}: the engine and the corpus differ: {wrong}")
    return vector


def build(case: Json) -> tuple[CaseBuilder, dict[str, int]] | None:
    """The case without questions, and its nodes by the corpus's names."""
    builder, names = CaseBuilder(case["id"]), dict[str, int]()
    for leaf in case["leaves"]:
        names[leaf["name"]] = builder.leaf(leaf["value"], leaf["tangent"])
    for name, value in case["consts"].items():
        names[name] = builder.constant(value)
    for step in case["program"]:
        plain = step.get("op") in NAMES and not step.get("attrs")
        if not (plain or step.get("op") == "einsum") or not isinstance(step["out"], str):
            return None
        if not all(isinstance(each, str) for each in step["args"]):
            return None
        operands = [names[each] for each in step["args"]]
        if plain:
            names[step["out"]] = builder.call(NAMES[step["op"]], *operands)
        else:
            attributes = einsum_attributes(step["attrs"])
            if attributes is None:
                return None
            names[step["out"]] = builder.call_as_sent("einsum", operands, attributes)
    return builder, names


def einsum_attributes(attributes: Json) -> Json | None:
    """Attributes of the catalog's einsum; None for labels that no list of integers can hold."""
    if "spec" in attributes:
        return {"subscripts": {"string": attributes["spec"]}}
    lists = [*attributes["sublists"]]
    output = attributes.get("out_sublist")
    labels = [each for one in (*lists, output or ()) for each in one if each != "..."]
    if not all(isinstance(each, int) and each >= 0 for each in labels):
        return None
    told: Json = {"labels": {"int_lists": [_labels(each) for each in lists]}}
    if output is not None:
        told["output"] = {"ints": _labels(output)}
    return told


def _labels(labels: list[Any]) -> list[str]:
    return ["-1" if each == "..." else str(each) for each in labels]


def _vector(case: Json, told: Json) -> Vector:
    expect, leaves = case["expect"], case["leaves"]
    real = case["leaves"][0]["value"].real.dtype
    loss = tensor_json(expect["loss"].astype(real))
    gradients, products = (
        [tensor_json(expect[kind][each["name"]].astype(each["value"].dtype)) for each in leaves]
        for kind in ("grads", "hvp")
    )
    tolerance = case["tolerance"]
    return Vector(
        told,
        {
            "values": [loss],
            "pullback": {"value": loss, "gradients": gradients},
            "hvp": {"value": loss, "gradients": gradients, "products": products},
        },
        {
            "values": list(tolerance["value"]),
            "pullback": _widest(tolerance["value"], tolerance["grad"]),
            "hvp": _widest(*tolerance.values()),
        },
    )


def _widest(*tolerances: list[float]) -> list[float]:
    return [max(each) for each in zip(*tolerances, strict=True)]
