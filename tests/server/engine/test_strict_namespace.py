"""Every op on array-api-strict, which has the array API and no more: its numbers are those on NumPy.

All arrays lie on its second device, from which nothing is read but through the namespace. The numbers on
NumPy are held to differences in `test_ops`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import array_api_strict
import numpy as np
import pytest
from tests.samples import cases, normal
from tests.server.engine.points import Array, Point, curved, inexact
from tests.server.engine.strict import ON_HOST, USES, strict_engine

from backhaul_proto.catalog.index import Index, Slice
from backhaul_proto.catalog.ops import CATALOG, Op, Sample
from backhaul_server.engine.composed import COMPOSED
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.rules import RULES
from backhaul_server.engine.tape import Tape

NUMPY = Engine()
STRICT = strict_engine()
XP = STRICT.xp
ULPS = 16
ULPS_OF = {"linalg.expm": 256}
"""More where the way is another: our expm always takes the approximant of degree 13, SciPy's the least."""


def _chosen() -> Iterator[Any]:
    """All samples in double precision; the first of each op in single precision."""
    for case in cases():
        entry, sample, dtype = case.values
        if dtype.itemsize == (16 if dtype.kind == "c" else 8) or sample is entry.samples[0]:
            yield case


CASES = list(_chosen())


def answers(engine: Engine, point: Point) -> dict[str, list[Array]]:
    """Values, and where there are derivatives that can be compared: gradients and H·v."""
    tape, leaves, results = point.record()
    for node in results:
        assert node.error is None, node.error
    found = {"values": [engine.host(node.value) for node in results]}
    entry = CATALOG[point.call.name]
    if not entry.differentiable or entry.gauge:
        return found
    loss = curved(tape, inexact(results), point.cotangents(inexact(results)))
    gradients = tape.pullback(loss, wrt=leaves)[0]
    found["gradients"] = [engine.host(gradients[leaf]) for leaf in leaves]
    if RULES[entry.name].jvp is not None:
        first, products = tape.hvp(loss, wrt=leaves)[0]
        found["gradients on the way to H·v"] = [engine.host(first[leaf]) for leaf in leaves]
        found["H·v"] = [engine.host(products[leaf]) for leaf in leaves]
    return found


@cache
def strict_answers(number: int) -> dict[str, list[Array]]:
    entry, sample, dtype = CASES[number].values
    return answers(STRICT, Point(STRICT, entry, sample, dtype))


def within_ulps(got: Array, expected: Array, ulps: int = ULPS) -> None:
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    if expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(got, expected)
        return
    finite = np.abs(expected[np.isfinite(expected)])
    scale = max(float(np.max(finite, initial=0.0)), 1.0)
    tolerance = ulps * float(np.finfo(expected.dtype).eps) * scale
    np.testing.assert_allclose(got, expected, rtol=0, atol=tolerance)


@pytest.mark.parametrize(
    ("number", "entry", "sample", "dtype"),
    [pytest.param(i, *case.values, id=case.id) for i, case in enumerate(CASES)],
)
def test_values_and_derivatives_are_numpys(
    number: int, entry: Op, sample: Sample, dtype: np.dtype[Any]
) -> None:
    expected = answers(NUMPY, Point(NUMPY, entry, sample, dtype))
    got = strict_answers(number)
    assert got.keys() == expected.keys()
    for what in expected:
        for x, y in zip(got[what], expected[what], strict=True):
            within_ulps(x, y, ULPS_OF.get(entry.name, ULPS))


def test_the_host_supplies_what_is_listed_and_nothing_more() -> None:
    """A missing name is an error above; one that nothing uses, or that can be had nearer, is one here."""
    for number in range(len(CASES)):
        strict_answers(number)
    assert ON_HOST & USES.keys() == ON_HOST
    assert not {name for name in ON_HOST if hasattr(array_api_strict, name)} | (
        ON_HOST & COMPOSED.keys()
    )
    with pytest.raises(AttributeError, match="median"):
        _ = XP.median


def test_the_second_device_refuses_what_it_is_not_told() -> None:
    """What makes the tests above mean something."""
    x = XP.from_host(np.ones(2))
    with pytest.raises(RuntimeError, match="device1"):
        np.asarray(x)
    with pytest.raises(ValueError, match="device"):
        XP.add(x, array_api_strict.ones(2))
    assert (XP.zeros((2,), dtype=np.dtype("float32")) + x).device == x.device
    np.testing.assert_array_equal(XP.to_host(x), np.ones(2))


@pytest.mark.parametrize(
    ("op", "attributes", "dtypes"),
    [
        ("add", {}, ("float32", "complex128")),
        ("multiply", {}, ("float64", "complex64")),
        ("multiply", {}, ("float32", "int64")),
        ("divide", {}, ("float64", "bool")),
        ("pow", {}, ("float64", "int32")),
        ("maximum", {}, ("float32", "float64")),
        ("matmul", {}, ("float64", "complex128")),
        ("matmul", {}, ("float64", "int64")),
        ("linalg.solve", {}, ("float64", "complex128")),
        ("einsum", {"subscripts": "ij,jk->ki"}, ("float64", "complex64")),
        ("einsum", {"subscripts": "ij,ij,ij->"}, ("complex64", "float64")),
        ("concat", {}, ("float64", "complex128")),
    ],
)
def test_operands_of_different_dtypes(
    op: str, attributes: dict[str, Any], dtypes: tuple[str, str]
) -> None:
    rng = np.random.default_rng(5)
    count = attributes.get("subscripts", "").count(",") + 1 if op == "einsum" else 2
    operands = [
        (np.abs(rng.standard_normal((3, 3))) * 3 + 1).astype(dtypes[min(i, 1)])
        for i in range(count)
    ]

    def run(engine: Engine) -> list[Array]:
        tape, here = Tape(engine), engine.xp.from_host
        leaves = [tape.leaf(here(x)) for x in operands if x.dtype.kind in "fc"]
        rest = iter(leaves)
        nodes = [next(rest) if x.dtype.kind in "fc" else tape.constant(here(x)) for x in operands]
        y = tape.apply(op, nodes, **attributes)
        assert y.error is None, y.error
        loss = tape.apply("sum", [tape.apply("real", [tape.apply("multiply", [y, y])])])
        gradients = tape.pullback(loss)[0]
        directions = [{leaf: gradients[leaf] for leaf in leaves}]
        _, products = tape.hvp(loss, directions)[0]
        found = [y.value, *(gradients[leaf] for leaf in leaves), *(products[x] for x in leaves)]
        return [engine.host(each) for each in found]

    for got, expected in zip(run(STRICT), run(NUMPY), strict=True):
        within_ulps(got, expected)


def test_a_tape_of_several_steps_and_every_question() -> None:
    """Cotangents that meet, elements read twice, zeros that nobody sent, directions and cotangents."""
    rng = np.random.default_rng(7)
    start, unused = rng.standard_normal(6), rng.standard_normal((2, 2))
    v, ct = rng.standard_normal(6), rng.standard_normal(5)

    def run(engine: Engine) -> list[Array]:
        tape, here = Tape(engine), engine.xp.from_host
        x, other = tape.leaf(here(start), here(v)), tape.leaf(here(unused))
        left = tape.apply("getitem", [x], index=Index((Slice(None, -1),)))
        right = tape.apply("getitem", [x], index=Index((Slice(1),)))
        hill = tape.apply("subtract", [right, tape.apply("square", [left])])
        y = tape.apply("add", [tape.apply("square", [hill]), tape.apply("exp", [left])])
        loss = tape.apply("sum", [y])
        gradients = tape.pullback(loss, wrt=[x, other, left])[0]
        weighted = tape.pullback(y, [here(ct), here(2 * ct)], wrt=[x])
        (first, product), (_, doubled) = tape.hvp(loss, [{x: here(v)}, {x: here(2 * v)}], wrt=[x])
        (own,) = tape.pushforward(y)
        found = [*gradients.values(), weighted[0][x], weighted[1][x], first[x], product[x]]
        return [engine.host(each) for each in (*found, doubled[x], own)]

    for got, expected in zip(run(STRICT), run(NUMPY), strict=True):
        within_ulps(got, expected)


@pytest.mark.parametrize("op", ["linalg.inv", "linalg.solve", "linalg.cholesky", "linalg.slogdet"])
def test_linear_algebra_fails_with_the_same_reason(op: str) -> None:
    matrix = -np.ones((2, 2))

    def reason(engine: Engine) -> str | None:
        tape = Tape(engine)
        operands = [tape.leaf(engine.xp.from_host(matrix))] * (2 if op == "linalg.solve" else 1)
        y = tape.apply(op, operands)
        error = (y[0] if isinstance(y, tuple) else y).error
        return None if error is None else error.reason

    assert reason(STRICT) == reason(NUMPY)


@pytest.mark.parametrize(
    ("subscripts", "shapes"),
    [
        ("abcdefghijklmnop,bdfhjlnp->acegikmo", ((2,) * 16, (2,) * 8)),  # copied by gathering
        ("abc,def->adbecf", ((32, 4, 2), (32, 2, 4))),  # an outer product, by the library's einsum
        ("abc,cbd,dae,ef,ee->fa", ((2, 3, 4), (4, 3, 2), (2, 2, 3), (3, 4), (3, 3))),
        ("abi,bcj,cdk,adl,ijkl->", ((3, 4, 2), (4, 2, 3), (2, 3, 2), (3, 3, 2), (2, 3, 2, 2))),
    ],
)
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_networks(subscripts: str, shapes: tuple[tuple[int, ...], ...], dtype: str) -> None:
    rng = np.random.default_rng(11)
    operands = [normal(rng, shape, dtype) for shape in shapes]
    directions = [normal(rng, shape, dtype) for shape in shapes]

    def run(engine: Engine) -> list[Array]:
        tape, here = Tape(engine), engine.xp.from_host
        leaves = [tape.leaf(here(x), here(d)) for x, d in zip(operands, directions, strict=True)]
        y = tape.apply("einsum", leaves, subscripts=subscripts)
        loss = tape.apply("sum", [tape.apply("square", [tape.apply("abs", [y])])])
        gradients, products = tape.hvp(loss)[0]
        found = [y.value, *(gradients[x] for x in leaves), *(products[x] for x in leaves)]
        return [engine.host(each) for each in found]

    for got, expected in zip(run(STRICT), run(NUMPY), strict=True):
        within_ulps(got, expected)
