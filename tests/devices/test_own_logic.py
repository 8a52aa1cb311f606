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

from backhaul_server.engine.arrays import numpy_namespace

XP = numpy_namespace()
Array = np.ndarray[Any, Any]


def _on_numpy(name: str, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A module of the engine, anew, that takes NumPy for CuPy."""
    extensions = ModuleType("cupyx")
    vars(extensions)["scatter_add"] = np.add.at
    science = ModuleType("cupyx.scipy")
    vars(science)["linalg"] = scipy.linalg
    for each, module in (("cupy", np), ("cupyx", extensions), ("cupyx.scipy", science)):
        monkeypatch.setitem(sys.modules, each, module)
    monkeypatch.delitem(sys.modules, name, raising=False)
    made = importlib.import_module(name)
    monkeypatch.delitem(sys.modules, name)
    return made


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
    monkeypatch: pytest.MonkeyPatch,
    a_shape: tuple[int, ...],
    b_shape: tuple[int, ...],
    lower: bool,
    how: str,
) -> None:
    def stacked(a: Array, b: Array, trans: str, lower: bool, unit_diagonal: bool) -> Array:
        """CuPy's takes stacks of equal shape, which not every SciPy does."""
        assert a.shape[:-2] == b.shape[:-2]
        found: Array = XP.solve_triangular(
            a, b, lower=lower, trans=trans, unit_diagonal=unit_diagonal
        )
        return found

    fake = ModuleType("linalg")
    vars(fake)["solve_triangular"] = stacked
    vars(sys.modules["cupyx.scipy"])["linalg"] = fake
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
