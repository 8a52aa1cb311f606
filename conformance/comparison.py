"""What a runner answered against what it should have."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from conformance.vector import Json, Vector, array_of


def difference(vector: Vector, answer: Json) -> str | None:
    """The first difference in words; None when the answer is right."""
    return next(_differences(vector, answer), None)


def _differences(vector: Vector, answer: Json) -> Iterator[str]:
    if answer.get("name") != vector.name:
        yield f"the answer is named {answer.get('name')!r}, not {vector.name!r}: one line a case, in order"
        return
    if "error" in vector.expect:
        yield from _error_differences(vector.expect["error"], answer)
        return
    if "error" in answer:
        yield f"the error {_said(answer['error'])} in place of an answer"
        return
    yield from _list_differences(
        "values", vector.expect["values"], answer.get("values"), vector.tolerance.get("values")
    )
    for question, parts in (("pullback", ("gradients",)), ("hvp", ("gradients", "products"))):
        if question not in vector.expect:
            continue
        told, tolerance = answer.get(question), vector.tolerance.get(question)
        if not isinstance(told, dict):
            yield f"{question}: none answered"
            continue
        expected = vector.expect[question]
        if told.get("value") is not None:  # a client's answer may leave it out
            yield from _tensor_differences(
                f"{question}.value", expected["value"], told["value"], tolerance
            )
        for part in parts:
            if part == "gradients" and question == "hvp" and told.get(part) is None:
                continue  # likewise
            yield from _list_differences(
                f"{question}.{part}", expected[part], told.get(part), tolerance
            )


def _error_differences(expected: Json, answer: Json) -> Iterator[str]:
    told = answer.get("error")
    if not isinstance(told, dict):
        yield f"an answer in place of the error {_said(expected)}"
        return
    if told.get("reason") != expected["reason"] or (
        expected["code"] is not None and told.get("code") != expected["code"]
    ):
        yield f"the error {_said(told)} in place of {_said(expected)}"
    for name, text in expected.get("details", {}).items():
        if (told.get("details") or {}).get(name) != text:
            yield f"the error's detail {name} is {(told.get('details') or {}).get(name)!r}, not {text!r}"


def _said(error: Json) -> str:
    return f"{error.get('reason')} ({error.get('code') or 'inside an answer'})"


def _list_differences(
    where: str, expected: list[Json], told: object, tolerance: Sequence[float] | None
) -> Iterator[str]:
    if not isinstance(told, list) or len(told) != len(expected):
        count = len(told) if isinstance(told, list) else "none"
        yield f"{where}: {len(expected)} expected, {count} answered"
        return
    for at, (right, found) in enumerate(zip(expected, told, strict=True)):
        yield from _tensor_differences(f"{where}[{at}]", right, found, tolerance)


def _tensor_differences(
    where: str, expected: Json, told: object, tolerance: Sequence[float] | None
) -> Iterator[str]:
    try:
        assert isinstance(told, dict)
        found, right = array_of(told), array_of(expected)
    except (AssertionError, KeyError, TypeError, ValueError) as error:
        yield f"{where}: no tensor ({type(error).__name__}: {error})"
        return
    if told["dtype"] != expected["dtype"] or found.shape != right.shape:
        yield (
            f"{where}: {told['dtype']} of shape {found.shape}, "
            f"not {expected['dtype']} of shape {right.shape}"
        )
    elif tolerance is None or right.dtype.kind not in "fc":
        if found.tobytes() != right.tobytes():
            yield f"{where}: other bytes than expected; {_first(found, right, found != right)}"
    else:
        rtol, atol = tolerance
        with np.errstate(all="ignore"):
            wrong = ~np.isclose(found, right, rtol, atol, equal_nan=True)
        if wrong.any():
            yield f"{where}: {_first(found, right, wrong)} (tolerance {rtol:g}, {atol:g})"


def _first(found: object, right: object, wrong: object) -> str:
    found, right, wrong = np.asarray(found), np.asarray(right), np.asarray(wrong)
    at = tuple(int(i) for i in np.argwhere(wrong)[0]) if wrong.any() else ()
    if at or (wrong.ndim == 0 and wrong.any()):
        return f"{found[at]!r} in place of {right[at]!r} at {list(at)}"
    return "they differ in signs of zeros or in NaNs"
