"""What must be refused, with reason and gRPC code: by the .proto and the corpus, not by the engine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Final

import numpy as np
from conformance.cases import corpus as corpus_cases
from conformance.cases.building import CaseBuilder
from conformance.vector import Json, Vector, text

from backhaul_proto.errors import REASONS

INVALID: Final = "INVALID_ARGUMENT"
MOST_BYTES: Final = 5000
"""Of a vector of the corpus."""
X: Final = np.arange(1.0, 7.0).reshape(2, 3)


def vectors(corpus: Path) -> list[Vector]:
    """The corpus's, then our own."""
    loaded = corpus_cases.load(corpus)
    return [
        *_of_the_corpus(loaded),
        *_steps(),
        *_attributes(),
        *_tensors(),
        *_questions(),
        *_data(),
    ]


def _of_the_corpus(cases: list[Json]) -> Iterator[Vector]:
    for case in cases:
        kind = case.get("expect_error")
        if kind is None or any(
            field in case for field in ("loss_override", "grads_get_override", "before")
        ):
            continue
        reason = kind["kind"].upper()
        built = corpus_cases.build(case) if reason in REASONS else None
        if built is None:
            continue
        case_now, names = built
        loss = names[case["program"][-1]["out"]]
        if kind["stage"] == "pullback":
            case_now.pullback(loss, [names[each["name"]] for each in case["leaves"]])
        elif kind["stage"] == "hvp":
            case_now.hvp(loss, [names[each["name"]] for each in case["leaves"]])
        else:
            case_now.values(loss)
        vector = case_now.refusal(reason, REASONS[reason].status)
        if len(text("", [vector])) < MOST_BYTES:
            yield vector


def _steps() -> Iterator[Vector]:
    case = CaseBuilder("an-op-that-is-none")
    case.values(case.call_as_sent("sinn", [case.leaf(X)], {}))
    yield case.refusal("UNKNOWN_OP", "UNIMPLEMENTED", op="sinn")

    case = CaseBuilder("a-helper-is-no-op-of-users")
    case.values(case.call_as_sent("solve_factored", [case.leaf(X)], {}))
    yield case.refusal("UNKNOWN_OP", "UNIMPLEMENTED")

    case = CaseBuilder("shapes-that-do-not-broadcast")
    case.values(case.call_as_sent("add", [case.leaf(X), case.leaf(X[:, :2])], {}))
    yield case.refusal("SHAPE_MISMATCH", INVALID, op="add")

    case = CaseBuilder("matrices-that-do-not-fit")
    case.values(case.call_as_sent("matmul", [case.leaf(X), case.leaf(X)], {}))
    yield case.refusal("SHAPE_MISMATCH", INVALID, op="matmul")

    case = CaseBuilder("an-operand-too-few")
    case.values(case.call_as_sent("add", [case.leaf(X)], {}))
    yield case.refusal("OPERAND_COUNT", INVALID, op="add")

    case = CaseBuilder("an-operand-too-many")
    a = case.leaf(X)
    case.values(case.call_as_sent("sin", [a, a], {}))
    yield case.refusal("OPERAND_COUNT", INVALID, op="sin")

    case = CaseBuilder("bits-of-numbers-that-have-none")
    case.values(case.call_as_sent("bitwise_invert", [case.leaf(X)], {}))
    yield case.refusal("DTYPE_NOT_SUPPORTED", INVALID, op="bitwise_invert")


def _attributes() -> Iterator[Vector]:
    for name, op, attributes, reason in (
        ("an-attribute-of-another-type", "sum", {"axis": {"string": "0"}}, "INVALID_ATTRIBUTE"),
        ("an-attribute-without-a-value", "sum", {"axis": {}}, "INVALID_ATTRIBUTE"),
        ("an-attribute-that-the-op-has-not", "sum", {"axes": {"int": "0"}}, "INVALID_ATTRIBUTE"),
        ("an-attribute-that-is-missing", "reshape", {}, "INVALID_ATTRIBUTE"),
        ("an-axis-that-the-array-has-not", "sum", {"axis": {"int": "2"}}, "INVALID_ATTRIBUTE"),
        ("an-axis-twice", "sum", {"axis": {"ints": ["0", "-2"]}}, "INVALID_ATTRIBUTE"),
        ("a-shape-of-another-size", "reshape", {"shape": {"ints": ["4"]}}, "SHAPE_MISMATCH"),
        ("an-index-outside", "getitem", {"index": {"index": [{"at": "2"}]}}, "INDEX_OUT_OF_RANGE"),
    ):
        case = CaseBuilder(name)
        case.values(case.call_as_sent(op, [case.leaf(X)], attributes))
        yield case.refusal(reason, INVALID)


def _tensors() -> Iterator[Vector]:
    case = CaseBuilder("a-leaf-of-integers")
    case.values(case.leaf(np.arange(3)))
    yield case.refusal("DTYPE_NOT_SUPPORTED", INVALID)

    case = CaseBuilder("fewer-bytes-than-the-shape-says")
    case.values(case.leaf(X))
    case.case["sources"][0]["value"]["shape"] = [2, 4]
    yield case.refusal("MALFORMED_REQUEST", INVALID)

    case = CaseBuilder("a-negative-size")
    case.values(case.leaf(X))
    case.case["sources"][0]["value"]["shape"] = [-2, -3]
    yield case.refusal("MALFORMED_REQUEST", INVALID)

    case = CaseBuilder("a-tangent-that-would-broadcast")
    case.values(case.leaf(X, X[:1]))
    yield case.refusal("TANGENT_SHAPE_MISMATCH", INVALID)

    case = CaseBuilder("a-tangent-of-another-dtype")
    case.values(case.leaf(X, X.astype("float32")))
    yield case.refusal("TANGENT_DTYPE_MISMATCH", INVALID)


def _questions() -> Iterator[Vector]:
    case = CaseBuilder("a-loss-of-several-elements")
    a = case.leaf(X)
    case.pullback(case.call("sin", a), [a])
    yield case.refusal("NON_SCALAR_LOSS", INVALID)

    case = CaseBuilder("a-complex-loss")
    a = case.leaf(np.array(1 + 2j))
    case.pullback(case.call("square", a), [a])
    yield case.refusal("COMPLEX_LOSS", INVALID)

    case = CaseBuilder("a-loss-that-requires-no-gradient")
    a = case.leaf(X)
    case.pullback(case.call("sum", case.call("stop_gradient", a)), [a])
    yield case.refusal("MISSING_NODE", "NOT_FOUND")

    case = CaseBuilder("a-cotangent-of-another-shape")
    a = case.leaf(X)
    case.pullback(case.call("sin", a), [a], X[0])
    yield case.refusal("COTANGENT_MISMATCH", INVALID)

    case = CaseBuilder("a-cotangent-of-another-dtype")
    a = case.leaf(X)
    case.pullback(case.call("sin", a), [a], X.astype("float32"))
    yield case.refusal("COTANGENT_MISMATCH", INVALID)

    case = CaseBuilder("hvp-without-any-tangent")
    a = case.leaf(X)
    case.hvp(case.call("sum", case.call("sin", a)), [a])
    yield case.refusal("HVP_WITHOUT_TANGENT", INVALID)

    case = CaseBuilder("hvp-of-several-elements")
    a = case.leaf(X, X)
    case.hvp(case.call("sin", a), [a])
    yield case.refusal("NON_SCALAR_LOSS", INVALID)

    for name, tangent, reason in (
        ("a-direction-of-another-shape", X[0], "TANGENT_SHAPE_MISMATCH"),
        ("a-direction-of-another-dtype", X.astype("float32"), "TANGENT_DTYPE_MISMATCH"),
    ):
        case = CaseBuilder(name)
        a = case.leaf(X)
        case.hvp(case.call("sum", case.call("sin", a)), [a], {a: tangent})
        yield case.refusal(reason, INVALID)


def _data() -> Iterator[Vector]:
    """Steps that fail on their data: the block is committed, and the error comes inside the answer."""
    singular = np.ones((2, 2))
    for op, reason, matrix in (
        ("linalg.inv", "SINGULAR_MATRIX", singular),
        ("linalg.cholesky", "NOT_POSITIVE_DEFINITE", -np.eye(2)),
    ):
        for asked in ("value", "gradient"):
            case = CaseBuilder(f"{reason.lower().replace('_', '-')}-{asked}")
            a = case.leaf(matrix)
            result = case.call(op, a)
            if asked == "value":
                case.values(result)
            else:
                case.pullback(case.call("sum", result), [a])
            yield case.refusal(reason, None, op=op)
