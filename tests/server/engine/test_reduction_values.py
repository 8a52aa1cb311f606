"""Values of ops over and along axes: NumPy's and SciPy's, for every dtype and awkward input."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import scipy.special

from backhaul_proto.catalog.avals import BOOL, INEXACT, INTEGER
from backhaul_proto.errors import InvalidArgument
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
ENGINE = Engine()
INF, NAN = math.inf, math.nan


def value(name: str, *operands: Any, **attributes: Any) -> Array:
    tape = Tape(ENGINE)
    node = tape.apply(name, [tape.constant(np.asarray(x)) for x in operands], **attributes)
    assert node.error is None
    found: Array = node.value
    assert (found.shape, found.dtype) == (node.aval.shape, node.aval.dtype)
    return found


def _std(x: Array, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    return np.std(x, axis=axis, ddof=correction, keepdims=keepdims)


def _var(x: Array, axis: Any = None, correction: float = 0.0, keepdims: bool = False) -> Any:
    return np.var(x, axis=axis, ddof=correction, keepdims=keepdims)


NUMPYS: dict[str, tuple[Callable[..., Any], str]] = {
    # Ours, NumPy's, and the dtype kinds that both take
    "sum": (np.sum, "biufc"),
    "prod": (np.prod, "biufc"),
    "mean": (np.mean, "biufc"),
    "max": (np.max, "biuf"),
    "min": (np.min, "biuf"),
    "all": (np.all, "biufc"),
    "any": (np.any, "biufc"),
    "count_nonzero": (np.count_nonzero, "biufc"),
    "median": (np.median, "biuf"),
    "var": (_var, "biufc"),
    "std": (_std, "biufc"),
    "logsumexp": (scipy.special.logsumexp, "iufc"),
    "linalg.vector_norm": (np.linalg.vector_norm, "iufc"),
}
AXES: list[dict[str, Any]] = [
    {},
    {"axis": 1},
    {"axis": -1, "keepdims": True},
    {"axis": (2, 0)},
    {"axis": (0, 1, 2), "keepdims": True},
    {"axis": ()},
]


def numbers(dtype: np.dtype[Any], shape: tuple[int, ...] = (2, 3, 4)) -> Array:
    """Numbers of a dtype, some equal, some 0."""
    rng = np.random.default_rng(7)
    x = rng.integers(0, 2 if dtype.kind == "b" else 4, shape)
    if dtype.kind in "fc":
        x = x / 3 - 0.4 * (x > 1)
    return np.asarray(x + 1j * rng.standard_normal(shape) if dtype.kind == "c" else x).astype(dtype)


@pytest.mark.parametrize("dtype", [*INEXACT, *INTEGER, BOOL], ids=str)
@pytest.mark.parametrize("name", NUMPYS)
def test_reductions_are_numpys_over_any_axes(name: str, dtype: np.dtype[Any]) -> None:
    theirs, kinds = NUMPYS[name]
    if dtype.kind not in kinds:
        return
    x = numbers(dtype)
    for attributes in AXES:
        if attributes.get("axis") == () and name in ("median", "linalg.vector_norm", "logsumexp"):
            continue  # NumPy's have an error here, or a meaning of their own
        expected = np.asarray(theirs(x, **attributes))
        got = value(name, x, **attributes)
        assert got.shape == expected.shape
        assert got.dtype == expected.dtype or dtype.kind in "biu"
        tolerance = 4 * np.finfo(got.dtype).eps if got.dtype.kind in "fc" else 0
        np.testing.assert_allclose(got, expected, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize(
    ("name", "dtype", "expected"),
    [
        ("sum", "bool", "int64"),
        ("sum", "uint8", "uint64"),
        ("prod", "int8", "int64"),
        ("prod", "bool", "int64"),
        ("mean", "int32", "float64"),
        ("mean", "float32", "float32"),
        ("var", "complex64", "float32"),
        ("std", "uint8", "float64"),
        ("median", "bool", "float64"),
        ("max", "bool", "bool"),
        ("min", "int16", "int16"),
        ("count_nonzero", "float32", "int64"),
        ("logsumexp", "int64", "float64"),
        ("linalg.vector_norm", "complex64", "float32"),
        ("linalg.vector_norm", "int64", "float64"),
    ],
)
def test_dtypes_of_results(name: str, dtype: str, expected: str) -> None:
    assert value(name, np.ones((2, 2), dtype)).dtype == expected


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "complex128", "int8", "uint16", "bool"])
def test_cumulative_ops_are_numpys(dtype: str, axis: int) -> None:
    x = numbers(np.dtype(dtype))
    for name, theirs in (("cumulative_sum", np.cumsum), ("cumulative_prod", np.cumprod)):
        expected = theirs(x, axis=axis)
        got = value(name, x, axis=axis)
        assert got.dtype == expected.dtype
        np.testing.assert_array_equal(got, expected)
        backwards = np.flip(theirs(np.flip(x, axis), axis=axis), axis)
        np.testing.assert_array_equal(value(name, x, axis=axis, reverse=True), backwards)


@pytest.mark.parametrize("axis", [0, 1, -1])
@pytest.mark.parametrize("dtype", ["float32", "int8", "bool"])
def test_sorting_is_numpys(dtype: str, axis: int) -> None:
    x = numbers(np.dtype(dtype))
    np.testing.assert_array_equal(value("sort", x, axis=axis), np.sort(x, axis=axis))
    stable = np.argsort(x, axis=axis, stable=True)
    np.testing.assert_array_equal(value("argsort", x, axis=axis), stable)
    for name, theirs in (("argmax", np.argmax), ("argmin", np.argmin)):
        np.testing.assert_array_equal(value(name, x, axis=axis), theirs(x, axis=axis))
        assert value(name, x) == theirs(x)
        assert value(name, x, keepdims=True).shape == (1, 1, 1)


def test_nan_and_infinities_pass_through_as_numpys() -> None:
    x = np.array([[1.0, NAN, -INF], [INF, 2.0, 0.0], [-INF, -INF, -INF]])
    with np.errstate(all="ignore"):
        for name in ("sum", "max", "min", "median", "mean", "linalg.vector_norm"):
            expected = NUMPYS[name][0](x, axis=1)
            np.testing.assert_array_equal(value(name, x, axis=1), expected)
        for name, theirs in (("argmax", np.argmax), ("argmin", np.argmin), ("sort", np.sort)):
            np.testing.assert_array_equal(value(name, x, axis=1), theirs(x, axis=1))


def test_no_elements() -> None:
    nothing = np.zeros((0, 3))
    with np.errstate(all="raise"):
        assert value("sum", nothing) == 0
        assert value("prod", nothing) == 1
        np.testing.assert_array_equal(value("mean", nothing, axis=0), [NAN] * 3)
        np.testing.assert_array_equal(value("var", nothing, axis=0), [NAN] * 3)
        np.testing.assert_array_equal(value("std", nothing.astype("c8")), np.float32(NAN))
        np.testing.assert_array_equal(value("logsumexp", nothing, axis=0), [-INF] * 3)
        assert value("linalg.vector_norm", nothing) == 0
        assert value("linalg.vector_norm", nothing, ord=INF) == 0
        assert value("all", nothing)
        assert not value("any", nothing)
        assert value("max", nothing, axis=1).shape == (0,)
        assert value("median", nothing, axis=1, keepdims=True).shape == (0, 1)
        assert value("softmax", nothing, axis=0).shape == (0, 3)


@pytest.mark.parametrize(
    ("name", "attributes"),
    [
        ("max", {}),
        ("min", {"axis": 0}),
        ("argmax", {}),
        ("argmin", {"axis": 0, "keepdims": True}),
        ("median", {"axis": 0}),
        ("quantile", {"q": 0.5, "axis": (0, 1)}),
        ("linalg.vector_norm", {"ord": -INF}),
        ("linalg.vector_norm", {"ord": -1.0}),
    ],
)
def test_the_greatest_of_none_is_refused(name: str, attributes: dict[str, Any]) -> None:
    with pytest.raises(InvalidArgument, match="no elements") as caught:
        value(name, np.zeros((0, 3)), **attributes)
    assert caught.value.reason == "INVALID_ATTRIBUTE"


@pytest.mark.parametrize(
    ("name", "attributes", "said"),
    [
        ("sum", {"axis": 2}, "out of range"),
        ("mean", {"axis": (0, 0)}, "twice"),
        ("prod", {"axis": (0, -2)}, "twice"),
        ("max", {"axis": -3}, "out of range"),
        ("argmax", {"axis": (0, 1)}, "axis must be an integer"),
        ("sort", {"axis": 2}, "out of range"),
        ("cumulative_sum", {}, "no one axis"),
        ("cumulative_prod", {"axis": 5}, "out of range"),
        ("diff", {"n": -1}, "0 or more"),
        ("quantile", {"q": 1.5}, "not within 0 and 1"),
        ("quantile", {"q": NAN}, "not within 0 and 1"),
        ("quantile", {}, "needs the attribute q"),
        ("var", {"correction": INF}, "not finite"),
        ("std", {"keepdims": 1}, "True or False"),
        ("softmax", {"axis": 2}, "out of range"),
        ("linalg.vector_norm", {"ord": NAN}, "NaN"),
        ("linalg.vector_norm", {"ord": "fro"}, "a number"),
    ],
)
def test_attributes_that_cannot_be_right(name: str, attributes: dict[str, Any], said: str) -> None:
    with pytest.raises(InvalidArgument, match=said) as caught:
        value(name, np.ones((2, 3)), **attributes)
    assert caught.value.reason == "INVALID_ATTRIBUTE"


@pytest.mark.parametrize("name", ["max", "min", "sort", "argsort", "argmax", "median"])
def test_complex_numbers_have_no_order(name: str) -> None:
    with pytest.raises(InvalidArgument) as caught:
        value(name, np.ones(2, complex))
    assert caught.value.reason == "DTYPE_NOT_SUPPORTED"


def test_the_variance_of_equal_elements_is_exactly_zero() -> None:
    for dtype in ("float32", "float64", "complex128"):
        for n in (3, 7, 1000):
            x = np.full(n, 0.1 + 0.3j if dtype == "complex128" else 0.1, dtype)
            assert value("var", x) == 0
            assert value("std", x) == 0
    many = np.full((200_000, 2), 0.1, "f4")  # of which NumPy's sum along axis 0 is 0.1 % off
    np.testing.assert_array_equal(value("std", many, axis=0), [0, 0])


def test_the_variance_keeps_its_digits_far_from_zero() -> None:
    x = 1e9 + np.array([0.0, 1.0, 2.0, 3.0])
    assert value("var", x) == 1.25
    assert value("std", x, correction=1) == math.sqrt(5 / 3)


def test_no_degrees_of_freedom() -> None:
    with np.errstate(all="raise"):
        np.testing.assert_array_equal(value("var", [1.0, 2.0], correction=2), INF)
        np.testing.assert_array_equal(value("var", [[1.0], [2.0]], axis=1, correction=1), [NAN] * 2)
        np.testing.assert_array_equal(value("std", [1.0, 2.0], correction=5), INF)


@pytest.mark.parametrize("q", [0.0, 0.1, 0.25, 1 / 3, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("axis", [None, 0, (0, 2)])
def test_quantiles_are_numpys(q: float, axis: Any) -> None:
    x = np.random.default_rng(3).standard_normal((4, 3, 5))
    got = value("quantile", x, q=q, axis=axis)
    np.testing.assert_allclose(got, np.quantile(x, q, axis=axis), rtol=1e-14, atol=1e-15)


def test_a_median_between_infinities() -> None:
    with np.errstate(all="raise"):
        assert value("median", [INF, INF]) == INF
        assert value("median", [-INF, 1.0, INF]) == 1
        assert value("median", [1e308, 1.7e308]) == 1.35e308
        assert np.isnan(value("quantile", [1.0, NAN, 2.0], q=0.0))


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
@pytest.mark.parametrize("axis", [None, 1, (0, 2)])
def test_softmax_is_scipys(dtype: str, axis: Any) -> None:
    x = 3 * numbers(np.dtype(dtype))
    tolerance = 8 * float(np.finfo(dtype).eps)
    wide = x.astype("c16" if x.dtype.kind == "c" else "f8")
    softmax = scipy.special.softmax(wide, axis)
    # SciPy's own log_softmax of complex numbers is off by multiples of 2 pi i from this.
    log_softmax = wide - scipy.special.logsumexp(wide, axis, keepdims=True)
    np.testing.assert_allclose(value("softmax", x, axis=axis), softmax, tolerance, tolerance)
    np.testing.assert_allclose(
        value("log_softmax", x, axis=axis), log_softmax, tolerance, tolerance
    )


def test_sums_of_exponentials_at_extremes() -> None:
    with np.errstate(all="raise", under="ignore"):
        assert value("logsumexp", [1000.0, 1000.0]) == 1000 + math.log(2)
        assert value("logsumexp", [-1000.0, -1000.0]) == -1000 + math.log(2)
        assert value("logsumexp", [-INF, 2.0]) == 2
        assert value("logsumexp", [-INF, -INF]) == -INF
        assert value("logsumexp", np.full(2, -INF, "f4")).dtype == np.float32
        np.testing.assert_array_equal(value("softmax", [1000.0, -1000.0]), [1, 0])
        np.testing.assert_array_equal(value("softmax", [-INF, 0.0]), [0, 1])
        np.testing.assert_array_equal(value("log_softmax", [0.0, -1000.0]), [0, -1000])
        np.testing.assert_array_equal(value("log_softmax", [-INF, 5.0]), [-INF, 0])
        np.testing.assert_array_equal(
            value("cumulative_logsumexp", [-INF, -INF, 1000.0, 1000.0]),
            [-INF, -INF, 1000, 1000 + math.log(2)],
        )
    with np.errstate(all="ignore"):
        assert value("logsumexp", [INF, 1.0]) == INF
        assert np.isnan(value("logsumexp", [NAN, 1.0]))


@pytest.mark.parametrize("order", [2, 1, INF, -INF, 0, 3, 0.5, -1, -2.5])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_vector_norms_are_numpys(dtype: str, order: float) -> None:
    x = numbers(np.dtype(dtype))
    axes: tuple[Any, ...] = (None, 1, (0, 2))
    for axis in axes:
        with np.errstate(divide="ignore"):
            expected = np.linalg.vector_norm(x, axis=axis, ord=order, keepdims=True)
        with np.errstate(all="raise"):
            got = value("linalg.vector_norm", x, axis=axis, ord=order, keepdims=True)
        assert got.dtype == expected.dtype
        np.testing.assert_allclose(got, expected, rtol=8 * np.finfo(got.dtype).eps)


@pytest.mark.parametrize("n", [0, 1, 2, 3, 5])
def test_differences_are_numpys(n: int) -> None:
    x = np.random.default_rng(1).standard_normal((3, 4))
    for axis in (0, 1):
        np.testing.assert_array_equal(value("diff", x, n=n, axis=axis), np.diff(x, n, axis))


def test_differences_taken_absurdly_often_are_taken_no_more_than_there_are_elements() -> None:
    assert value("diff", np.ones(3), n=2**62).shape == (0,)


@pytest.mark.parametrize("shape", [(5,), (6, 1), (2, 9), (3, 2, 4), (1, 0), (0, 2)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "complex128"])
def test_a_linear_recurrence_is_its_loop(shape: tuple[int, ...], dtype: str) -> None:
    """Along the axis for all lanes, or lane by lane: one answer, with NaN and Inf kept to their lane."""
    rng = np.random.default_rng(5)
    a, b = (rng.standard_normal(shape).astype(dtype) for _ in range(2))
    if a.size > 2:
        a.flat[1], b.flat[0] = 0, INF
    for axis in range(len(shape)):
        for reverse in (False, True):
            order = range(shape[axis])[:: -1 if reverse else 1]
            expected = np.zeros(shape, dtype)
            before = np.zeros_like(np.take(expected, [0] if shape[axis] else [], axis))
            with np.errstate(all="ignore"):
                for i in order:
                    at = (slice(None),) * axis + (slice(i, i + 1),)
                    expected[at] = before = a[at] * before + b[at]
                got = ENGINE.plain.linear_recurrence(a, b, axis=axis, reverse=reverse)
            assert got.dtype == dtype
            np.testing.assert_allclose(
                got, expected, rtol=1e-5 if "4" in dtype[-2:] or dtype == "float32" else 1e-13
            )
