"""Linear algebra written by hand on this side: SciPy's arguments, names in two modules."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.linalg

import backhaul as bh

A = np.array([[4.0, 1.0, 0.5], [1.0, 5.0, 2.0], [0.5, 2.0, 6.0]])
C = A + 1j * np.triu(A, 1)
B = np.array([1.0, 2.0, 3.0])


@pytest.mark.parametrize("trans", [0, 1, 2, "N", "T", "C"])
@pytest.mark.parametrize("lower", [False, True])
def test_solve_triangular_takes_scipys_arguments(trans: Any, lower: bool, tape: bh.Tape) -> None:
    expected = scipy.linalg.solve_triangular(C, B, trans, lower)
    got = bh.linalg.solve_triangular(tape.leaf(C), B, trans, lower)
    np.testing.assert_allclose(got.numpy(), expected, rtol=1e-13)


@pytest.mark.parametrize("trans", [3, -1, True, "X", 1.0])
def test_solve_triangular_refuses_another_trans(trans: Any, tape: bh.Tape) -> None:
    with pytest.raises(bh.InvalidArgument, match="trans"):
        bh.linalg.solve_triangular(tape.leaf(A), B, trans)


@pytest.mark.parametrize("upper", [False, True])
def test_cho_solve_solves_with_the_factor(upper: bool, tape: bh.Tape) -> None:
    a, b = tape.leaf(A), tape.leaf(B)
    x = bh.linalg.cho_solve((bh.linalg.cholesky(a, upper=upper), not upper), b)
    np.testing.assert_allclose(x.numpy(), np.linalg.solve(A, B), rtol=1e-13)
    loss = bh.vdot(x, b)
    gradients = tape.pullback(loss)
    np.testing.assert_allclose(gradients[a], -np.outer(x.numpy(), x.numpy()), rtol=1e-12)
    np.testing.assert_allclose(gradients[b], 2 * x.numpy(), rtol=1e-12)


@pytest.mark.parametrize("given", [A, (A,), (A, True, True)])
def test_cho_solve_wants_a_pair(given: Any, tape: bh.Tape) -> None:
    with pytest.raises(bh.InvalidArgument, match=r"\(cholesky\(a\), True\)"):
        bh.linalg.cho_solve(given, tape.leaf(B))


def test_functions_of_the_array_apis_linalg_are_those_of_the_main_module() -> None:
    for name in ("matmul", "tensordot", "vecdot", "cross"):
        assert getattr(bh.linalg, name) is getattr(bh, name)
        assert name in bh.linalg.__all__


@pytest.mark.parametrize("axes", [2, 0, (1, 1), ([0], [1]), ([], []), [[0, 1], [1, 0]], (0, [1])])
def test_tensordots_axes_travel_as_numpy_takes_them(axes: Any, tape: bh.Tape) -> None:
    for call in (bh.tensordot, lambda a, b, axes: bh.apply("tensordot", a, b, axes=axes)):
        got = call(tape.leaf(A), A.T + 1, axes)
        np.testing.assert_allclose(got.numpy(), np.tensordot(A, A.T + 1, axes), rtol=1e-14)


def test_a_singular_matrix_is_reported_with_the_line_that_recorded_it(tape: bh.Tape) -> None:
    a = tape.leaf(np.ones((2, 2)))
    failed = bh.linalg.inv(a)
    with pytest.raises(np.linalg.LinAlgError, match=r"linalg\.inv.*test_triangular\.py") as caught:
        failed.numpy()
    assert isinstance(caught.value, bh.LinearAlgebraError)
    assert caught.value.reason == "SINGULAR_MATRIX"
    _, logarithm = bh.linalg.slogdet(a)
    assert float(logarithm) == -np.inf
    with pytest.raises(bh.LinearAlgebraError, match=r"linalg\.slogdet"):
        tape.pullback(logarithm)
    loss = bh.sum(bh.linalg.inv(a + np.eye(2)))
    np.testing.assert_allclose(tape.pullback(loss)[a], np.full((2, 2), -1 / 9))
