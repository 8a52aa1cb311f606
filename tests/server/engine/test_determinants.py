"""Determinants: exact derivatives at every rank, phase and logarithm."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.evaluation import ENGINE, gradient_and_hv
from tests.samples import normal

from backhaul_proto.errors import LinearAlgebraError
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]


def cofactors(a: Array) -> Array:
    """By minors, each a determinant."""
    n = a.shape[-1]
    return np.array(
        [
            [(-1) ** (i + j) * _leibniz(np.delete(np.delete(a, i, 0), j, 1)) for j in range(n)]
            for i in range(n)
        ],
        dtype=a.dtype,
    ).reshape(n, n)


def _leibniz(a: Array) -> Any:
    """The determinant by expansion along the first row: exact for small integers."""
    if not len(a):
        return 1
    return sum((-1) ** j * a[0, j] * _leibniz(np.delete(a[1:], j, 1)) for j in range(len(a)))


def moved_cofactors(a: Array, v: Array) -> Array:
    """The derivative of the cofactors along v: exact, as they are polynomials of degree 4 at most."""
    near = cofactors(a + v) - cofactors(a - v)
    far = cofactors(a + 2 * v) - cofactors(a - 2 * v)
    return np.asarray((8 * near - far) / 12)


@pytest.mark.parametrize("kind", ["f", "c"])
@pytest.mark.parametrize(("n", "rank"), [(n, r) for n in range(1, 6) for r in range(n + 1)])
def test_det_has_exact_derivatives_at_every_rank(n: int, rank: int, kind: str) -> None:
    rng = np.random.default_rng(100 * n + rank)

    def integers(*shape: int) -> Array:
        real = rng.integers(-3, 4, shape).astype(float)
        return real if kind == "f" else real + 1j * rng.integers(-3, 4, shape)

    a = integers(n, rank) @ integers(rank, n)
    v = integers(n, n)
    gradient, product = gradient_and_hv("linalg.det", a, v)
    scale = max(np.abs(a).max(), 1.0) ** (n - 1)
    tolerance = 1e-14 * n * scale
    np.testing.assert_allclose(gradient, cofactors(a).conj(), rtol=0, atol=tolerance)
    np.testing.assert_allclose(product, moved_cofactors(a, v).conj(), rtol=0, atol=10 * tolerance)


@pytest.mark.parametrize("n", [2, 5])
def test_near_singular_and_far_from_it_det_is_differentiated_alike(n: int) -> None:
    """From one way of finding minors to the other and back, against exact ones."""
    rng = np.random.default_rng(n)
    base = np.diag(np.arange(1.0, n + 1)) + np.triu(np.ones((n, n)), 1)
    v = rng.integers(-3, 4, (n, n)).astype(float)
    for last in 2.0 ** -np.arange(0, 60, 4):
        a = base.copy()
        a[-1, -1] = last
        gradient, product = gradient_and_hv("linalg.det", a, v)
        exact = cofactors(a)
        np.testing.assert_allclose(gradient, exact, rtol=0, atol=1e-12 * np.abs(exact).max())
        exact = moved_cofactors(a, v)
        np.testing.assert_allclose(product, exact, rtol=0, atol=1e-11 * np.abs(exact).max())


def test_det_at_the_identity_and_at_zero() -> None:
    v = np.arange(9.0).reshape(3, 3)
    gradient, product = gradient_and_hv("linalg.det", np.eye(3), v)
    np.testing.assert_allclose(gradient, np.eye(3), atol=1e-15)
    np.testing.assert_allclose(product, np.trace(v) * np.eye(3) - v.T, atol=1e-14)
    for n, expected in ((1, [[0.0]]), (2, [[3.0, -2.0], [-1.0, 0.0]]), (3, np.zeros((3, 3)))):
        v = np.arange(float(n * n)).reshape(n, n)
        _, product = gradient_and_hv("linalg.det", np.zeros((n, n)), v)
        np.testing.assert_allclose(product, expected, atol=1e-15)


def test_det_of_a_stack_of_ranks_with_weights() -> None:
    a = np.stack([np.eye(3), np.diag([1.0, 2, 0]), np.diag([3.0, 0, 0]), np.zeros((3, 3))])
    w = np.array([1.0, 10, 100, 1000])
    v = np.random.default_rng(7).standard_normal(a.shape)
    gradient, product = gradient_and_hv("linalg.det", a, v, w)
    for i in range(4):
        np.testing.assert_allclose(gradient[i], w[i] * cofactors(a[i]), atol=1e-12)
        np.testing.assert_allclose(product[i], w[i] * moved_cofactors(a[i], v[i]), atol=1e-11)


@pytest.mark.parametrize("scale", [1e-200, 1e-3, 1e150])
def test_minors_neither_overflow_nor_vanish_on_the_way(scale: float) -> None:
    diagonal = np.array([scale, 3.0, 2.0, 1 / scale])
    a = np.diag(diagonal)
    v = np.diag([0.0, 1.0, 0.0, 0.0])
    gradient, product = gradient_and_hv("linalg.det", a, v)
    np.testing.assert_allclose(np.diag(gradient), 6.0 / diagonal, rtol=1e-13)
    expected = [2.0 / scale, 0.0, 1.0, 2.0 * scale]
    np.testing.assert_allclose(np.diag(product), expected, rtol=1e-13)


def test_det_of_a_large_matrix_has_the_gradient_by_its_inverse() -> None:
    rng = np.random.default_rng(8)
    a = rng.standard_normal((60, 60)) / 8
    v = rng.standard_normal((60, 60))
    gradient, product = gradient_and_hv("linalg.det", a, v)
    inverse = np.linalg.inv(a)
    expected = np.linalg.det(a) * inverse.T
    np.testing.assert_allclose(gradient, expected, rtol=0, atol=1e-11 * np.abs(expected).max())
    moved = np.linalg.det(a) * (np.trace(inverse @ v) * inverse - inverse @ v @ inverse).T
    np.testing.assert_allclose(product, moved, rtol=0, atol=1e-10 * np.abs(moved).max())


def test_the_sign_of_a_real_determinant_has_a_zero_derivative() -> None:
    tape = Tape(ENGINE)
    a = tape.leaf(np.array([[1.0, 2], [3, 4]]))
    sign, _ = tape.apply("linalg.slogdet", [a])
    assert float(sign.value) == -1.0
    np.testing.assert_array_equal(tape.pullback(sign, wrt=[a])[0][a], np.zeros((2, 2)))


def test_phase_and_logarithm_multiply_to_the_determinant_with_its_derivatives() -> None:
    rng = np.random.default_rng(9)
    a, v = normal(rng, (3, 3), "complex128"), normal(rng, (3, 3), "complex128")
    tape = Tape(ENGINE)
    leaf = tape.leaf(a, v)
    sign, logarithm = tape.apply("linalg.slogdet", [leaf])
    size = tape.apply("linalg.expm", [tape.apply("reshape", [logarithm], shape=(1, 1))])
    det = tape.apply("multiply", [sign, tape.apply("reshape", [size], shape=())])
    loss = tape.apply("imag", [det])
    ((gradients, products),) = tape.hvp(loss)
    expected, moved = gradient_and_hv("linalg.det", a, v, np.array(1j))
    np.testing.assert_allclose(gradients[leaf], expected, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(products[leaf], moved, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_slogdet_of_a_singular_matrix_has_a_value_and_no_derivative(dtype: str) -> None:
    tape = Tape(ENGINE)
    a = tape.leaf(np.ones((2, 2), dtype), np.ones((2, 2), dtype))
    sign, logarithm = tape.apply("linalg.slogdet", [a])
    assert (complex(sign.value), float(logarithm.value)) == (0.0, -np.inf)
    for ask in (tape.pullback, tape.hvp):
        with pytest.raises(LinearAlgebraError, match=r"linalg\.slogdet") as caught:
            ask(logarithm)
        assert caught.value.reason == "SINGULAR_MATRIX"
