"""The parts of CuPy's namespace that are ours, run on NumPy and SciPy, whose functions have the same names.

It shows that our own steps are right, such as which axes broadcast, and nothing about CuPy: that is for a
GPU (`tests/devices/test_gpu.py`).
"""

from __future__ import annotations

import importlib
import sys
from types import ModuleType
from typing import Any

import numpy as np
import pytest
import scipy.linalg
import scipy.special
from tests.server.engine.points import Point
from tests.server.engine.test_strict_namespace import CASES, answers, within_ulps

from backhaul_server.engine.arrays import Namespace, numpy_namespace
from backhaul_server.engine.engine import Engine

XP = numpy_namespace()
Array = np.ndarray[Any, Any]


class Scan:
    """What our kernel does, in Python, with what it is given: a lane after the other."""

    def __init__(self, *_: str) -> None: ...

    def __call__(
        self, a: Array, b: Array, n: int, step: int, reverse: bool, y: Array, *, size: int
    ) -> None:
        a, b, out = a.reshape(-1), b.reshape(-1), y.reshape(-1)
        for lane in range(size):
            first = lane // step * n * step + lane % step
            places = [first + (n - 1 - k if reverse else k) * step for k in range(n)]
            out[places[0]] = before = b[places[0]]
            for at in places[1:]:
                out[at] = before = a[at] * before + b[at]


def _solve_triangular(a: Array, b: Array, trans: str, lower: bool, unit_diagonal: bool) -> Array:
    """As CuPy's, which takes stacks of equal shape, and not every SciPy does."""
    assert a.shape[:-2] == b.shape[:-2]
    found: Array = XP.solve_triangular(a, b, lower=lower, trans=trans, unit_diagonal=unit_diagonal)
    return found


def _on_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the engine, anew, that takes NumPy for CuPy."""
    stand_in, extensions = ModuleType("cupy"), ModuleType("cupyx")
    vars(stand_in).update({each: getattr(np, each) for each in dir(np) if each[0] != "_"})
    vars(stand_in)["ElementwiseKernel"] = Scan
    vars(extensions)["scatter_add"] = np.add.at
    science, linalg = ModuleType("cupyx.scipy"), ModuleType("cupyx.scipy.linalg")
    vars(science).update(linalg=linalg, special=scipy.special)
    vars(linalg).update(
        lu_factor=scipy.linalg.lu_factor,
        lu_solve=scipy.linalg.lu_solve,
        solve_triangular=_solve_triangular,
    )
    for each in (stand_in, extensions, science):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    on_cupy = _without_ours()
    made = importlib.import_module(name)
    _without_ours()
    sys.modules.update(on_cupy)
    return made


def _without_ours() -> dict[str, ModuleType]:
    """Our modules on CuPy, taken out of those that are imported."""
    ours = [each for each in sys.modules if each.startswith("backhaul_server.engine.cupy_")]
    return {each: sys.modules.pop(each) for each in ours}


@pytest.fixture
def linalg(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _on_numpy("backhaul_server.engine.cupy_linalg", monkeypatch)


@pytest.fixture
def indexing(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    return _on_numpy("backhaul_server.engine.cupy_indexing", monkeypatch)


SHAPES = [
    ((3, 3), (3, 2)),
    ((3, 3), (4, 3, 2)),
    ((3, 3), (2, 5, 3, 1)),
    ((4, 3, 3), (3, 2)),
    ((4, 3, 3), (4, 3, 2)),
    ((4, 1, 3, 3), (5, 3, 2)),
    ((3, 3), (0, 3, 2)),
    ((3, 3), (3, 0)),
    ((0, 0), (0, 2)),
]


def _drawn(shape: tuple[int, ...], dtype: str, seed: int) -> Array:
    rng = np.random.default_rng(seed)
    x = rng.normal(size=shape) + (1j * rng.normal(size=shape) if "complex" in dtype else 0)
    return x.astype(dtype)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
@pytest.mark.parametrize("adjoint", [False, True])
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
def test_systems(
    linalg: ModuleType,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    adjoint: bool,
    dtype: str,
) -> None:
    a = _drawn(a_shape, dtype, 1) + 2 * np.eye(a_shape[-1])
    b = _drawn(b_shape, dtype, 2)
    got = linalg.lu_solve(linalg.lu_factor(a), b, adjoint=adjoint)
    expected = XP.lu_solve(XP.lu_factor(a), b, adjoint=adjoint)
    assert got.shape == expected.shape
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.parametrize("how", ["N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
@pytest.mark.parametrize(("a_shape", "b_shape"), SHAPES)
def test_triangular_systems(
    linalg: ModuleType,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    lower: bool,
    how: str,
) -> None:
    a = _drawn(a_shape, "complex128", 1) + 2 * np.eye(a_shape[-1])
    b = _drawn(b_shape, "float64", 2)
    keywords: dict[str, Any] = {"lower": lower, "trans": how, "unit_diagonal": False}
    got = linalg.solve_triangular(a, b, **keywords)
    expected = XP.solve_triangular(a, b, **keywords)
    assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
    np.testing.assert_allclose(got, expected, rtol=1e-10)


@pytest.mark.filterwarnings("ignore:Diagonal number")
def test_a_singular_matrix_is_an_error(linalg: ModuleType) -> None:
    for a in (np.ones((2, 2)), np.zeros((3, 3))):
        with pytest.raises(np.linalg.LinAlgError):
            linalg.lu_factor(a)


KEYS: list[tuple[Any, ...]] = [
    (np.array([0, 2, 2]), ...),
    (slice(None), np.array([[1, -1], [0, 1]]), ...),
    (..., np.array([0, -1])),
    (np.array([0, 1]), np.array([1, -4]), ...),
    (np.array([0, 1]), slice(1, 3), np.array([1, 0]), ...),
    (None, 1, ..., np.array([0])),
    (slice(0, 2), ...),
]


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128", "int64", "int8", "bool"])
@pytest.mark.parametrize("key", KEYS, ids=range(len(KEYS)))
def test_reading_and_adding(indexing: ModuleType, key: tuple[Any, ...], dtype: str) -> None:
    x = (np.arange(3 * 4 * 2).reshape(3, 4, 2) % 7).astype(dtype)
    np.testing.assert_array_equal(indexing.getitem(x, key), x[key])
    updates = np.ones(x[key].shape, dtype)
    expected = x.copy()
    np.add.at(expected, key, updates)
    got = indexing.add_at(x.copy(), key, updates)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)


@pytest.mark.parametrize(
    "key",
    [
        (np.array([0, 3]), ...),
        (slice(None), np.array([-5]), ...),
        (..., np.array([2])),
        (0, np.array([0]), np.array([-3])),
        (None, slice(None), None, np.array([4]), ...),
    ],
    ids=range(5),
)
def test_what_is_out_of_range_is_an_error_for_a_library_that_wraps(
    indexing: ModuleType, key: tuple[Any, ...]
) -> None:
    x = np.zeros((3, 4, 2))
    with pytest.raises(IndexError, match="out of bounds"):
        indexing.check(x.shape, key)
    with pytest.raises(IndexError, match="out of bounds"):
        indexing.add_at(x, key, 1.0)


def test_every_op_with_what_we_supply_gives_numpys_numbers(monkeypatch: pytest.MonkeyPatch) -> None:
    """Values, gradients and H·v of all samples, by our functions where CuPy has none or others."""
    arrays = _on_numpy("backhaul_server.engine.cupy_arrays", monkeypatch)
    ours = Engine(Namespace("ours", sys.modules["cupy"], arrays.SUPPLIED))
    numpys = Engine()
    for case in CASES:
        expected, got = (answers(each, Point(each, *case.values)) for each in (numpys, ours))
        assert got.keys() == expected.keys()
        for what, found in got.items():
            for x, y in zip(found, expected[what], strict=True):
                within_ulps(x, y, 256)


EDGES = [0.0, -0.0, 1.0, -1.0, 0.1, -0.1, 3.0, -7.5, 1e20, -1e20, 5e-324, np.inf, -np.inf, np.nan]


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
@pytest.mark.parametrize("name", ["floor_divide", "remainder"])
def test_division_is_numpys_at_the_edges(
    monkeypatch: pytest.MonkeyPatch, name: str, dtype: str
) -> None:
    ours = getattr(_on_numpy("backhaul_server.engine.cupy_arithmetic", monkeypatch), name)
    edges = [-7, -3, -1, 1, 2, 3, 10] if dtype == "int64" else EDGES
    a, b = np.meshgrid(*[np.array(edges, dtype)] * 2)
    with np.errstate(all="ignore"):
        got, expected = ours(a, b), getattr(np, name)(a, b)
    assert got.dtype == expected.dtype
    np.testing.assert_array_equal(got, expected)
    np.testing.assert_array_equal(np.signbit(got), np.signbit(expected))


def test_powers_and_angles_are_numpys_at_the_edges(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = _on_numpy("backhaul_server.engine.cupy_arithmetic", monkeypatch)
    exponents = np.array([2, 1 + 1j, 0, -1, 1j, -0.5 + 2j])
    with np.errstate(all="ignore"):
        for base in (0, 2 - 1j):
            a = np.full(6, base, "complex128")
            np.testing.assert_array_equal(ours.power(a, exponents), a**exponents)
        np.testing.assert_array_equal(ours.power(np.array(EDGES), 2.5), np.array(EDGES) ** 2.5)
    np.testing.assert_array_equal(ours.power(np.array([0j, 2]), 2.0), [0, 4])
    np.testing.assert_array_equal(ours.power(np.array([2, 3]), np.array([3, 0])), [8, 1])
    with pytest.raises(ValueError, match="negative integer powers"):
        ours.power(np.array([2]), np.array([-1]))
    np.testing.assert_array_equal(ours.angle(np.array(EDGES)), np.angle(np.array(EDGES)))
