"""Einsum on random expressions: against an explicit sum, and its derivatives against each other.

Inner products are real ones, Re sum(conj(a) b), so that complex cotangents are held to their convention.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from backhaul_proto.catalog.avals import INEXACT, aval
from backhaul_proto.catalog.einsum import einsum_attributes
from backhaul_server.engine.dual import Dual, tangent_of, value_of
from backhaul_server.engine.engine import Engine, PreparedCall
from backhaul_server.engine.passes import fit

Array = np.ndarray[Any, Any]
Draw = Callable[[st.SearchStrategy[Any]], Any]
ENGINE = Engine()
LETTERS = "ijklm"
DOTS = "XY"  # what the ellipsis stands for, from the right


@dataclass(frozen=True)
class Case:
    """An einsum call, and what it means: labels of each axis with the ellipsis spelt out."""

    args: tuple[Any, ...]
    keywords: dict[str, Any]
    operands: list[Array]
    terms: list[str]
    output: str
    sizes: dict[str, int]

    def __repr__(self) -> str:
        shown = [x if isinstance(x, str | list) else f"{x.dtype}{x.shape}" for x in self.args]
        return f"einsum({', '.join(map(str, shown))}, {self.keywords})"


@st.composite
def cases(draw: Draw, dtypes: Sequence[np.dtype[Any]] = INEXACT) -> Case:
    sizes = {label: draw(st.sampled_from((0, 1, 2, 2, 3, 3))) for label in LETTERS + DOTS}
    written = [draw(st.text(LETTERS, max_size=3)) for _ in range(draw(st.integers(1, 6)))]
    dots = [draw(st.sampled_from((None, None, 0, 1, 2))) for _ in written]
    terms, operands, shown = [], [], []
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    for term, under in zip(written, dots, strict=True):
        at = draw(st.integers(0, len(term)))
        middle = DOTS[len(DOTS) - under :] if under else ""
        terms.append(term[:at] + middle + term[at:])
        shown.append(term if under is None else f"{term[:at]}...{term[at:]}")
        ones = draw(st.sets(st.sampled_from(terms[-1]), max_size=1)) if terms[-1] else set()
        shape = [1 if label in ones else sizes[label] for label in terms[-1]]
        operands.append(_normal(rng, shape, draw(st.sampled_from(dtypes))))
    for label in sizes:  # a label of size 1 in all its operands is of size 1
        found = [
            n
            for term, x in zip(terms, operands, strict=True)
            for each, n in zip(term, x.shape, strict=True)
            if each == label
        ]
        sizes[label] = next((n for n in found if n != 1), 1) if found else sizes[label]
    keywords: dict[str, Any] = {}
    given_sizes = {x: sizes[x] for x in LETTERS if not any(x in term for term in terms)}
    choice = draw(st.permutations(sorted(set("".join(written)))))
    named = "".join(choice[: draw(st.integers(0, min(4, len(choice))))])
    if named:
        named += draw(st.text(named, max_size=2))  # values on a diagonal
    if given_sizes and draw(st.booleans()):
        added = draw(st.sampled_from(sorted(given_sizes)))
        keywords["sizes"] = {added: sizes[added]}
        named += added
    under = max((n for n in dots if n is not None), default=0)
    dotted = draw(st.booleans())
    output = (DOTS[len(DOTS) - under :] if dotted and under else "") + named
    if draw(st.booleans()):
        inputs = _grouped(draw, shown)
        args: tuple[Any, ...] = (f"{inputs}->{'...' if dotted else ''}{named}", *operands)
        if "(" not in inputs and draw(st.booleans()):
            keywords["path"] = _path(draw, len(operands))
    else:
        args = tuple(
            each for term, x in zip(shown, operands, strict=True) for each in (x, _sublist(term))
        )
        args = (*args, _sublist(("..." if dotted else "") + named))
    return Case(args, keywords, operands, terms, output, sizes)


def _normal(rng: np.random.Generator, shape: Sequence[int], dtype: np.dtype[Any]) -> Array:
    x = rng.standard_normal(tuple(shape))
    if dtype.kind == "c":
        return np.asarray(x + 1j * rng.standard_normal(tuple(shape))).astype(dtype)
    return np.asarray(x).astype(dtype)


def _sublist(term: str) -> list[Any]:
    head, dots, tail = term.partition("...")
    return [*head, Ellipsis, *tail] if dots else list(head)


def _grouped(draw: Draw, terms: Sequence[str]) -> str:
    """The terms with some neighbours in parentheses."""
    members = list(terms)
    while len(members) > 2 and draw(st.booleans()):
        start = draw(st.integers(0, len(members) - 2))
        stop = draw(st.integers(start + 2, min(start + 3, len(members))))
        members[start:stop] = [f"({','.join(members[start:stop])})"]
    return ",".join(members)


def _path(draw: Draw, count: int) -> list[list[int]]:
    path = []
    while count > 1:
        step = draw(st.permutations(range(count)))[: draw(st.integers(2, min(3, count)))]
        path.append(list(step))
        count -= len(step) - 1
    return path


def explicit_sum(case: Case, operands: Sequence[Array]) -> Array:
    """The definition: a product for every assignment of all labels, added up where the output says."""
    summed = [x for x in case.sizes if any(x in term for term in (*case.terms, case.output))]
    grid = dict(zip(summed, np.indices([case.sizes[x] for x in summed]), strict=True))
    product = np.ones([case.sizes[x] for x in summed], np.result_type(*operands))
    for term, x in zip(case.terms, operands, strict=True):
        index = tuple(
            grid[label] if n != 1 else np.zeros_like(grid[label])
            for label, n in zip(term, x.shape, strict=True)
        )
        product = product * x[index]
    result = np.zeros([case.sizes[x] for x in case.output], product.dtype)
    if case.output:
        np.add.at(result, tuple(grid[label] for label in case.output), product)
        return result
    return np.asarray(product.sum())


def prepared(case: Case) -> PreparedCall:
    operands, attributes = einsum_attributes(case.args, **case.keywords)
    avals = tuple(aval(x.shape, x.dtype) for x in operands)
    return ENGINE.prepare("einsum", attributes, avals)


@dataclass(frozen=True)
class Evaluated:
    """A call at a point: its value, and its derivatives there."""

    call: PreparedCall
    operands: Sequence[Array]
    y: Array
    kept: dict[str, Any]

    def push(self, tangents: Sequence[Array | None]) -> tuple[Array | None, dict[str, Any]]:
        """The tangent of y, and what was kept as duals."""
        assert self.call.jvp is not None
        pushed = self.call.jvp(ENGINE.plain, self.y, *self.operands, *tangents, **self.kept)
        if not self.call.keeps:
            return pushed, {}
        return pushed[0], {"residual": pushed[1]}

    def pull(self, ct: Array, needs: Sequence[bool] | None = None) -> Sequence[Array | None]:
        """The operands' cotangents."""
        every = [True] * len(self.operands)
        found: Sequence[Array | None] = self.call.cotangents(
            ENGINE.plain, ct, self.y, self.operands, needs or every, **self.kept
        )
        return found


def evaluated(call: PreparedCall, operands: Sequence[Array]) -> Evaluated:
    y = call.forward(*operands)
    if not call.keeps:
        return Evaluated(call, operands, y, {})
    return Evaluated(call, operands, y[0], {"residual": y[1]})


def inner(a: Array, b: Array) -> float:
    wide = np.complex128
    return float(np.sum(np.conj(a.astype(wide)) * b.astype(wide)).real)


def tolerance(*arrays: Array) -> float:
    """Relative to the arrays' scale."""
    single = any(x.dtype in (np.float32, np.complex64) for x in arrays)
    return 1e-4 if single else 1e-10


def evaluate(call: PreparedCall, operands: Sequence[Array]) -> tuple[Array, Any]:
    """The result and the residual, None where none is kept."""
    result = call.forward(*operands)
    return result if call.keeps else (result, None)


def kept(call: PreparedCall, residual: Any) -> dict[str, Any]:
    """The residual as its derivatives take it."""
    return {"residual": residual} if call.keeps else {}


def push(
    call: PreparedCall,
    y: Array,
    operands: Sequence[Array],
    tangents: Sequence[Array | None],
    residual: Any,
) -> tuple[Any, Any]:
    """The tangents of the result and of the residual."""
    assert call.jvp is not None
    moved = call.jvp(ENGINE.plain, y, *operands, *tangents, **kept(call, residual))
    return moved if call.keeps else (moved, None)


def check(got: Array, expected: Array, bound: float) -> None:
    scale = 1 + np.max(np.abs(expected), initial=0)
    assert got.shape == expected.shape
    assert np.max(np.abs(got - expected), initial=0) <= bound * scale


@given(cases())
@settings(max_examples=200)
def test_value_is_the_explicit_sum(case: Case) -> None:
    call = prepared(case)
    y = evaluated(call, case.operands).y
    expected = explicit_sum(case, case.operands)
    assert (y.shape, y.dtype) == (call.results[0].shape, call.results[0].dtype)
    assert y.dtype == expected.dtype
    check(y, expected, tolerance(*case.operands))


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=200)
def test_jvp_and_vjp_are_adjoint(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = evaluated(prepared(case), case.operands)
    tangents = [_normal(rng, x.shape, x.dtype) for x in case.operands]
    ct = _normal(rng, at.y.shape, at.y.dtype)
    dy, _ = at.push(tangents)
    back = [
        fit(ENGINE.plain, g, aval(x.shape, x.dtype))
        for g, x in zip(at.pull(ct), case.operands, strict=True)
    ]
    left = inner(ct, np.asarray(dy))
    terms = [inner(np.asarray(g), t) for g, t in zip(back, tangents, strict=True)]
    scale = 1 + sum(map(abs, terms)) + np.linalg.norm(ct) * np.linalg.norm(np.asarray(dy))
    assert abs(left - sum(terms)) <= tolerance(*case.operands) * scale


@given(cases(), st.integers(0, 2**32))
@settings(max_examples=100)
def test_what_is_zero_or_not_needed_costs_nothing(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    at = evaluated(prepared(case), case.operands)
    chosen = [bool(rng.integers(2)) for _ in case.operands]
    ct = _normal(rng, at.y.shape, at.y.dtype)
    for wanted, g, expected in zip(chosen, at.pull(ct, chosen), at.pull(ct), strict=True):
        assert (g is not None) is wanted
        assert g is None or np.array_equal(g, np.asarray(expected))
    tangents = [
        _normal(rng, x.shape, x.dtype) if wanted else None
        for wanted, x in zip(chosen, case.operands, strict=True)
    ]
    zeros = [
        np.zeros_like(x) if t is None else t for x, t in zip(case.operands, tangents, strict=True)
    ]
    (dy, _), (full, _) = at.push(tangents), at.push(zeros)
    assert (dy is None) is (True not in chosen)
    if dy is not None:
        check(np.asarray(dy), np.asarray(full), tolerance(*case.operands))


@given(cases(dtypes=[np.dtype("float64"), np.dtype("complex128")]), st.integers(0, 2**32))
@settings(max_examples=100)
def test_cotangents_on_duals_are_their_differences(case: Case, seed: int) -> None:
    rng = np.random.default_rng(seed)
    call = prepared(case)
    at = evaluated(call, case.operands)
    tangents = [_normal(rng, x.shape, x.dtype) for x in case.operands]
    ct, dct = (_normal(rng, at.y.shape, at.y.dtype) for _ in range(2))
    dy, kept = at.push(tangents)

    def along(step: float) -> Sequence[Array | None]:
        there = [x + step * t for x, t in zip(case.operands, tangents, strict=True)]
        return evaluated(call, there).pull(ct + step * dct)

    duals = [Dual(x, t) for x, t in zip(case.operands, tangents, strict=True)]
    given = (ENGINE.duals, Dual(ct, dct), Dual(at.y, np.asarray(dy)), duals, [True] * len(duals))
    sent = call.cotangents(*given, **kept)
    again = call.cotangents(*given, **dict.fromkeys(kept))  # the residual computed again
    h = 1e-5
    for g, other, value, ahead, behind in zip(
        sent, again, along(0.0), along(h), along(-h), strict=True
    ):
        derivative = np.asarray(tangent_of(g))
        check(np.asarray(value_of(g)), np.asarray(value), 1e-10)
        check(derivative, (np.asarray(ahead) - np.asarray(behind)) / (2 * h), 1e-5)
        check(np.asarray(tangent_of(other)), derivative, 1e-10)
