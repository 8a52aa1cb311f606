"""NumPy's functions record on the tape what the catalog has, and refuse all else."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backhaul as bh

VALUES = np.arange(1.0, 5.0).reshape(2, 2)
Use = Callable[[Any], Any]

RECORDED: list[Use] = [
    lambda x: np.add(x, 1.0),
    lambda x: np.add(VALUES, x),
    lambda x: np.subtract(1.0, x),
    lambda x: np.multiply(x, VALUES),
    lambda x: np.matmul(VALUES, x),
    lambda x: np.linalg.matmul(x, VALUES),
    lambda x: np.linalg.matrix_transpose(x),
    lambda x: np.negative(x),
    lambda x: np.conj(x),
    lambda x: np.conjugate(x),
    lambda x: np.real(x),
    lambda x: np.imag(x),
    lambda x: np.sum(x),
    lambda x: np.sum(x, axis=1, keepdims=True),
    lambda x: np.einsum("ij,jk->ik", x, VALUES),
    lambda x: np.einsum("ij,jk->ik", VALUES, x, optimize=True),
    lambda x: np.einsum(x, [0, 1], [1, 0]),
    lambda x: np.reshape(x, (4, 1)),
    lambda x: np.reshape(x, -1),
    lambda x: np.stack([x, VALUES]),
    lambda x: np.stack([VALUES, x], axis=2),
    lambda x: np.broadcast_to(x, (3, 2, 2)),
    lambda x: np.tril(x),
    lambda x: np.linalg.cholesky(10.0 * np.eye(2) + x),
    lambda x: np.true_divide(VALUES, x),
    lambda x: np.power(x, 3),
    lambda x: np.arctan2(x, VALUES),
    lambda x: np.atan2(x, VALUES),
    lambda x: np.absolute(x),
    lambda x: np.log1p(x),
    lambda x: np.arcsinh(x),
    lambda x: np.maximum(x, 2.0),
    lambda x: np.where(VALUES > 2, x, 0.0),
    lambda x: np.where(x > 2, x, VALUES),
    lambda x: np.clip(x, 2, 3),
    lambda x: np.clip(x, a_min=2, a_max=None),
    lambda x: np.clip(x, None, 3),
    lambda x: np.mod(x, 2),
    lambda x: np.angle(x),
    lambda x: np.sinc(x),
    lambda x: np.round(x / 3, 1),
    lambda x: np.around(x / 3),
    lambda x: np.radians(x),
    lambda x: np.logaddexp(x, VALUES),
    lambda x: np.linalg.cholesky(x + 10.0 * np.eye(2), upper=True),
    lambda x: np.dot(x, VALUES),
    lambda x: np.dot(VALUES[0], x),
    lambda x: np.vdot(x, VALUES),
    lambda x: np.vecdot(VALUES, x),
    lambda x: np.inner(x, VALUES),
    lambda x: np.outer(x, VALUES),
    lambda x: np.kron(VALUES, x),
    lambda x: np.tensordot(x, VALUES),
    lambda x: np.tensordot(x, VALUES, 1),
    lambda x: np.tensordot(x, VALUES, axes=([0], [1])),
    lambda x: np.linalg.tensordot(x, VALUES, axes=(0, 1)),
    lambda x: np.linalg.vecdot(x, VALUES),
    lambda x: np.linalg.multi_dot([x, VALUES, VALUES[0]]),
    lambda x: np.linalg.inv(x),
    lambda x: np.linalg.solve(x, VALUES[0]),
    lambda x: np.linalg.solve(VALUES, x),
    lambda x: np.linalg.det(x),
    lambda x: np.linalg.slogdet(x)[1],
    lambda x: np.linalg.pinv(x),
    lambda x: np.linalg.matrix_power(x, 3),
]


@pytest.mark.parametrize("use", RECORDED)
def test_what_the_catalog_has_is_recorded(use: Use) -> None:
    result = use(bh.Tape().leaf(VALUES))
    assert isinstance(result, bh.TrackedTensor)
    expected = use(VALUES)
    assert result.shape == expected.shape
    assert result.requires_grad
    np.testing.assert_allclose(result.numpy(), expected, rtol=1e-15)


TRUTHS: list[Use] = [
    lambda x: np.equal(VALUES, x),
    lambda x: np.less_equal(x, 2.0),
    lambda x: VALUES.copy() > x - 0.5,
    lambda x: np.isfinite(x / (x - 1.0)),
    lambda x: np.logical_and(x > 1, x < 4),
    lambda x: np.invert(x > 1),
    lambda x: (VALUES > 1) & (x < 4),
]


@pytest.mark.parametrize("use", TRUTHS)
def test_truths_are_recorded_as_constants(use: Use) -> None:
    result = use(bh.Tape().leaf(VALUES))
    assert isinstance(result, bh.TrackedTensor)
    assert (result.requires_grad, result.dtype) == (False, np.dtype(bool))
    with np.errstate(divide="ignore"):
        np.testing.assert_array_equal(result.numpy(), use(VALUES))


def test_what_is_known_of_a_tensor_is_answered() -> None:
    x = bh.Tape().leaf(VALUES)
    assert (np.shape(x), np.ndim(x), np.size(x)) == ((2, 2), 2, 4)


REFUSED: list[tuple[Use, str]] = [
    (lambda x: np.copysign(x, x), "copysign"),
    (lambda x: np.multiply.outer(x, x), "outer"),
    (lambda x: np.add.reduce(x), "reduce"),
    (lambda x: np.insert(x, 0, VALUES), "insert"),
    (lambda x: np.linalg.eig(x), "eig"),
    (lambda x: np.linalg.lstsq(x, VALUES), r"bh\.linalg\.lstsq gives x"),
    (lambda x: np.add(x, 1.0, out=np.zeros((2, 2))), "out="),
    (lambda x: np.add(x, 1.0, where=VALUES > 1), "where="),
    (lambda x: np.add(x, 1.0, dtype="f4"), "dtype="),
    (lambda x: np.sum(x, out=np.zeros(())), "out="),
    (lambda x: np.sum(x, dtype="f4"), "dtype="),
    (lambda x: np.frexp(x), "frexp"),
    (lambda x: np.array_equal(x, VALUES), "array_equal"),
]


@pytest.mark.parametrize(("use", "named"), REFUSED)
def test_what_it_has_not_is_a_type_error_that_names_it(use: Use, named: str) -> None:
    x = bh.Tape().leaf(VALUES)
    with pytest.raises(TypeError, match=named):
        use(x)


def test_an_array_is_not_changed_in_place_by_a_tensor() -> None:
    x = bh.Tape().leaf(VALUES)
    array: Any = VALUES.copy()
    with pytest.raises(TypeError, match="out="):
        array += x
    np.testing.assert_array_equal(array, VALUES)


def test_a_near_name_is_suggested() -> None:
    x: Any = bh.Tape().leaf(1.0)
    with pytest.raises(TypeError, match=r"did you mean .*reshape"):
        np.resize(x, (2,))


def test_errors_of_an_op_are_its_own() -> None:
    x = bh.Tape().leaf(VALUES)
    with pytest.raises(bh.InvalidArgument) as error:
        np.add(x, np.ones(3))
    assert error.value.reason == "SHAPE_MISMATCH"


def test_numpy_svd_and_qr_take_the_keywords_that_ask_for_thin_factors() -> None:
    values = np.arange(6.0).reshape(2, 3) ** 2
    with bh.Tape() as tape:
        x = tape.leaf(values)
        singular: Any = np.linalg.svd(x, full_matrices=False)
        triangular: Any = np.linalg.qr(x, mode="reduced")
        assert [each.shape for each in singular] == [(2, 2), (2,), (2, 3)]
        expected = np.linalg.svd(values, full_matrices=False)[1]
        np.testing.assert_allclose(singular[1].numpy(), expected)
        np.testing.assert_allclose((triangular[0] @ triangular[1]).numpy(), values, atol=1e-12)
        with pytest.raises(TypeError, match="full_matrices=False"):
            np.linalg.svd(x)
        with pytest.raises(TypeError, match="full_matrices=False"):
            np.linalg.svd(x, full_matrices=True)


def test_a_number_beyond_float32_is_infinite_without_a_warning(
    recwarn: pytest.WarningsRecorder,
) -> None:
    with bh.Tape() as tape:
        result = tape.leaf(np.ones(2, np.float32)) + 1e300
        assert result.numpy().tolist() == [np.inf, np.inf]
    assert not recwarn.list


@pytest.mark.parametrize("part", [-1.0, float("nan")])
def test_a_part_of_the_singular_values_that_is_none_is_refused_where_it_is_given(
    part: float,
) -> None:
    with bh.Tape() as tape:
        x = tape.leaf(VALUES)
        with pytest.raises(bh.InvalidArgument, match="rtol") as pinv:
            np.linalg.pinv(x, rtol=part)
        with pytest.raises(bh.InvalidArgument, match="rcond") as lstsq:
            bh.linalg.lstsq(x, VALUES, rcond=part)
        assert pinv.value.reason == lstsq.value.reason == "INVALID_ATTRIBUTE"
