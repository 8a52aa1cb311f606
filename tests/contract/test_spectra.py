"""Spectral decompositions: derivatives of losses that do not depend on the gauge, and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backhaul as bh

Array = np.ndarray[Any, Any]
RNG = np.random.default_rng(17)


def matrix(*shape: int, dtype: str = "f8") -> Array:
    x = RNG.standard_normal(shape)
    if dtype == "c16":
        x = x + 1j * RNG.standard_normal(shape)
    return np.asarray(x)


def spectrum(m: int, n: int, values: list[float], dtype: str = "f8") -> Array:
    """A matrix with these singular values."""
    k = min(m, n)
    u = np.linalg.qr(matrix(m, k, dtype=dtype))[0]
    v = np.linalg.qr(matrix(n, k, dtype=dtype))[0]
    return np.asarray(u * np.asarray(values) @ v.conj().T)


def hermitian(values: list[float], dtype: str = "f8") -> Array:
    """A Hermitian matrix with these eigenvalues."""
    n = len(values)
    v = np.linalg.qr(matrix(n, n, dtype=dtype))[0]
    return np.asarray(v * np.asarray(values) @ v.conj().T)


def adjoint(x: Any) -> Any:
    return bh.conj(bh.matrix_transpose(x))


def squares(x: Any, weights: Array) -> Any:
    """A loss of |x|², element by element."""
    return bh.sum(bh.real(x * bh.conj(x)) * weights)


DTYPES = ["f8", "c16"]
SHAPES = [(3, 3), (4, 3), (3, 5), (2, 3, 3), (2, 4, 2), (1, 3), (3, 1)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("n", [1, 3, 4])
def test_eigh(n: int, dtype: str) -> None:
    a, c = matrix(2, n, n, dtype=dtype), matrix(2, n, n, dtype=dtype)
    weights = RNG.standard_normal((2, n, n))

    def function_of_the_matrix(a: Any) -> Any:
        w, v = bh.linalg.eigh(a)
        return bh.sum(bh.real((v * bh.tanh(bh.reshape(w, (2, 1, n)))) @ adjoint(v) * c))

    def of_vectors(a: Any) -> Any:
        w, v = bh.linalg.eigh(a)
        return squares(v, weights) + bh.sum(w * w * weights[:, 0])

    for loss in (function_of_the_matrix, of_vectors):
        report = bh.check_grad(loss, a)
        assert report, report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_svd(shape: tuple[int, ...], dtype: str) -> None:
    a = matrix(*shape, dtype=dtype)
    *batch, m, n = shape
    k = min(m, n)
    c = matrix(*shape, dtype=dtype)
    wu, wv = RNG.standard_normal((*batch, m, k)), RNG.standard_normal((*batch, k, n))

    def function_of_the_matrix(a: Any) -> Any:
        u, s, vh = bh.linalg.svd(a)
        return bh.sum(bh.real(u * bh.reshape(s * s, (*batch, 1, k)) @ vh * c))

    def of_vectors(a: Any) -> Any:
        u, s, vh = bh.linalg.svd(a)
        return squares(u, wu) + squares(vh, wv) + bh.sum(bh.log(s))

    def of_left_vectors(a: Any) -> Any:
        u, _, _ = bh.linalg.svd(a)
        return squares(u, wu)

    for loss in (function_of_the_matrix, of_vectors, of_left_vectors):
        report = bh.check_grad(loss, a, tolerance=1e-5)
        assert report, report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", SHAPES)
def test_qr(shape: tuple[int, ...], dtype: str) -> None:
    a = matrix(*shape, dtype=dtype)
    *batch, m, n = shape
    k = min(m, n)
    wq, wr = RNG.standard_normal((*batch, m, k)), RNG.standard_normal((*batch, k, n))
    c = matrix(*batch, m, m, dtype=dtype)

    def of_both(a: Any) -> Any:
        q, r = bh.linalg.qr(a)
        return squares(q, wq) + squares(r, wr)

    def of_the_projector(a: Any) -> Any:
        q, _ = bh.linalg.qr(a)
        return bh.sum(bh.real(q @ adjoint(q) * c))

    def of_the_product(a: Any) -> Any:
        q, r = bh.linalg.qr(a)
        return squares(q @ r, np.ones(shape))

    def of_r(a: Any) -> Any:
        return squares(bh.linalg.qr(a)[1], wr)

    for loss in (of_both, of_the_projector, of_the_product, of_r):
        report = bh.check_grad(loss, a, tolerance=1e-5)
        assert report, report


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    ("values", "shape"),
    [
        ([3.0, 2.0, 1.0, 0.5], (4, 5)),
        ([3.0, 2.0, 1.0, 1.0], (4, 4)),  # equal ones discarded
        ([3.0, 2.0, 0.0, 0.0], (6, 4)),  # zeros discarded
        ([3.0, 2.0, 0.0], (3, 5)),
    ],
)
def test_truncated_svd(values: list[float], shape: tuple[int, int], dtype: str) -> None:
    m, n = shape
    a, c = spectrum(m, n, values, dtype), matrix(m, n, dtype=dtype)
    wu, wv = RNG.standard_normal((m, 2)), RNG.standard_normal((2, n))

    def of_the_approximation(a: Any) -> Any:
        u, s, vh = bh.linalg.svd_truncated(a, rank=2)
        return bh.sum(bh.real(u * bh.reshape(s, (1, 2)) @ vh * c))

    def of_vectors(a: Any) -> Any:
        u, s, vh = bh.linalg.svd_truncated(a, rank=2)
        return squares(u, wu) + squares(vh, wv) + bh.sum(s * s * s)

    for loss in (of_the_approximation, of_vectors):
        report = bh.check_grad(loss, a, tolerance=1e-5)
        assert report, report


@pytest.mark.parametrize("dtype", DTYPES)
def test_truncated_svd_is_the_whole_one_cut_off(dtype: str, tape: bh.Tape) -> None:
    a = matrix(5, 4, dtype=dtype)
    for got, whole in zip(
        bh.linalg.svd_truncated(tape.leaf(a), rank=3),
        np.linalg.svd(a, full_matrices=False),
        strict=True,
    ):
        kept = whole[:3] if whole.ndim == 1 or whole.shape[0] == 4 else whole[:, :3]
        np.testing.assert_allclose(got.numpy(), kept, atol=1e-14)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(
    "loss",
    [
        lambda w: bh.sum(w * w * w),
        lambda w: bh.sum(bh.exp(w)),
        lambda w: bh.log(bh.sum(bh.exp(w))),
        lambda w: bh.sum(w) * bh.sum(w * w),
    ],
)
def test_symmetric_functions_of_equal_values(loss: Callable[[Any], Any], dtype: str) -> None:
    """Gradient and H·v exist there, and are those of the function of the matrix."""
    for values in ([1.0, 1.0, 2.0], [2.0, 2.0, 2.0], [1.0, 2.0, 2.0, 2.0], [1.0, 1.0, 3.0, 3.0]):
        report = bh.check_grad(lambda a: loss(bh.linalg.eigvalsh(a)), hermitian(values, dtype))
        assert report, report
        n = len(values)
        for m in (n, n + 1):
            a = spectrum(m, n, sorted(values, reverse=True), dtype)
            report = bh.check_grad(lambda a: loss(bh.linalg.svdvals(a)), a)
            assert report, report


def test_the_gradient_of_a_symmetric_function_at_the_identity(tape: bh.Tape) -> None:
    a = tape.leaf(np.eye(3))
    result = tape.hvp(bh.sum(bh.linalg.eigvalsh(a) ** 3), tangents={a: np.ones((3, 3))})
    np.testing.assert_allclose(result.gradients[a], 3 * np.eye(3), atol=1e-13)
    np.testing.assert_allclose(result.hvp[a], 6 * np.ones((3, 3)), atol=1e-12)


def test_the_kink_at_zero_of_a_singular_value_is_that_of_abs(tape: bh.Tape) -> None:
    a = tape.leaf(np.diag([2.0, 0.0]))
    np.testing.assert_array_equal(
        np.abs(tape.pullback(bh.sum(bh.linalg.svdvals(a)))[a]), np.diag([1.0, 0.0])
    )
    zero = tape.leaf(np.zeros((2, 3)))
    gradient = tape.pullback(bh.sum(bh.linalg.svdvals(zero)))[zero]
    np.testing.assert_array_equal(gradient, np.zeros((2, 3)))


def refused(tape: bh.Tape, loss: Any) -> str:
    with pytest.raises(bh.LinearAlgebraError) as error:
        tape.pullback(loss)
    return error.value.reason


@pytest.mark.parametrize("dtype", DTYPES)
def test_values_apart_from_zero_ones_have_a_second_derivative(dtype: str) -> None:
    a = spectrum(4, 3, [3.0, 1.5, 0.0], dtype)
    report = bh.check_grad(lambda x: bh.linalg.svdvals(x)[:2] ** 2 * np.array([1.0, 2.0]), a)
    assert report, report
    rank_one = spectrum(3, 4, [2.0, 0.0, 0.0], dtype)
    report = bh.check_grad(lambda x: bh.linalg.matrix_norm(x, ord=2), rank_one)
    assert report, report


def test_what_depends_on_a_basis_of_equal_values_has_no_derivative(tape: bh.Tape) -> None:
    c = matrix(3, 3)
    equal = tape.leaf(hermitian([1.0, 1.0, 2.0]))
    w, v = bh.linalg.eigh(equal)
    assert refused(tape, bh.sum(v * v * c)) == "DEGENERATE_SPECTRUM"
    assert refused(tape, bh.sum((v * w) @ bh.matrix_transpose(v) * c)) == "DEGENERATE_SPECTRUM"
    a = tape.leaf(spectrum(3, 4, [2.0, 2.0, 1.0]))
    u, s, vh = bh.linalg.svd(a)
    assert refused(tape, bh.sum(u * u * c)) == "DEGENERATE_SPECTRUM"
    assert refused(tape, bh.sum((u * s) @ vh)) == "DEGENERATE_SPECTRUM"
    low = tape.leaf(spectrum(3, 4, [2.0, 1.0, 0.0]))
    u, s, vh = bh.linalg.svd(low)
    assert refused(tape, bh.sum((u * s) @ vh)) == "DEGENERATE_SPECTRUM"
    cut = tape.leaf(spectrum(3, 3, [2.0, 1.0, 1.0]))
    u, s, vh = bh.linalg.svd_truncated(cut, rank=2)
    assert refused(tape, bh.sum((u * s) @ vh)) == "DEGENERATE_SPECTRUM"
    order = tape.leaf(np.eye(3))
    assert (
        refused(tape, bh.sum(bh.linalg.eigvalsh(order) * [0.0, 0.0, 1.0])) == "DEGENERATE_SPECTRUM"
    )


def test_the_projector_on_equal_eigenvalues_has_a_derivative(tape: bh.Tape) -> None:
    a, c = hermitian([1.0, 1.0, 3.0]), matrix(3, 3)
    first = np.diag([1.0, 1.0, 0.0])

    def loss(a: Any) -> Any:
        _, v = bh.linalg.eigh(a)
        return bh.sum((v @ first) @ bh.matrix_transpose(v) * c)

    report = bh.check_grad(loss, a, order=1)
    assert report, report


@pytest.mark.parametrize("op", ["eigh", "svd", "svd_truncated"])
def test_a_loss_of_phases_is_measured_and_refused(op: str, tape: bh.Tape) -> None:
    a = tape.leaf(matrix(3, 3, dtype="c16"))
    vectors = {
        "eigh": lambda: bh.linalg.eigh(a)[1],
        "svd": lambda: bh.linalg.svd(a)[0],
        "svd_truncated": lambda: bh.linalg.svd_truncated(a, rank=2)[2],
    }[op]()
    with pytest.raises(bh.LinearAlgebraError) as error:
        tape.pullback(bh.sum(bh.real(vectors)))
    assert error.value.reason == "GAUGE_DEPENDENT"
    assert 1e-3 < float(error.value.details["actual"]) <= 1.0
    assert op in str(error.value)


def test_a_cutoff_keeps_what_is_above_it(connection: bh.Connection, tape: bh.Tape) -> None:
    a = np.stack([spectrum(4, 3, [2.0, 1.0, 0.1]), spectrum(4, 3, [4.0, 0.1, 0.1])])
    x = tape.leaf(a)
    before = connection.calls.total()
    for cutoff, rank, kept in ((0.2, None, 2), (0.6, None, 1), (1e-9, 2, 2), (0.0, None, 3)):
        u, s, vh = bh.linalg.svd_truncated(x, cutoff=cutoff, rank=rank)
        assert (u.shape, s.shape, vh.shape) == ((2, 4, kept), (2, kept), (2, kept, 3))
    assert connection.calls.total() == before + 4
    assert bh.linalg.svd_truncated(tape.leaf(np.zeros((2, 2))), cutoff=0.5)[1].shape == (1,)
    bad: list[Any] = [-1.0, 1.0, np.nan, "x"]
    for each in bad:
        with pytest.raises(bh.InvalidArgument, match="cutoff"):
            bh.linalg.svd_truncated(x, cutoff=each)
    with pytest.raises(bh.InvalidArgument, match="rank= or cutoff="):
        bh.linalg.svd_truncated(x)


def test_a_step_that_is_not_finite_gives_nan_and_harms_no_other(tape: bh.Tape) -> None:
    a = np.stack([np.eye(2), np.full((2, 2), np.nan)])
    for values in (bh.linalg.eigvalsh(tape.leaf(a)), bh.linalg.svdvals(tape.leaf(a))):
        got = values.numpy()
        np.testing.assert_allclose(got[0], 1.0)
        assert np.isnan(got[1]).all()


def test_attributes_and_shapes_that_cannot_be(tape: bh.Tape) -> None:
    a = tape.leaf(matrix(3, 4))
    for rank in (0, 4, -1):
        with pytest.raises(bh.InvalidArgument, match=r"1\.\.3|from 1 to 3"):
            bh.linalg.svd_truncated(a, rank=rank)
    for function in (bh.linalg.eigh, bh.linalg.eigvalsh):
        with pytest.raises(bh.InvalidArgument, match="square"):
            function(a)
    with pytest.raises(bh.InvalidArgument):
        bh.linalg.qr(tape.leaf(np.ones(3)))
