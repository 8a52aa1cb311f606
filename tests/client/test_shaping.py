"""NumPy's functions that shape, join, split, repeat and pad: values and shapes are NumPy's."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import backhaul as bh

V = np.arange(1.0, 7.0).reshape(2, 3)
W = np.arange(24.0).reshape(2, 3, 4)
Use = Callable[[Any], Any]

ONE_RESULT: list[Use] = [
    lambda x: np.transpose(x),
    lambda x: np.transpose(x, (0, -1)),
    lambda x: np.permute_dims(x, (1, 0)),
    lambda x: np.moveaxis(x, 0, 1),
    lambda x: np.swapaxes(x, 0, 1),
    lambda x: np.matrix_transpose(x),
    lambda x: np.squeeze(x[:1]),
    lambda x: np.squeeze(x[:1], axis=0),
    lambda x: np.expand_dims(x, (0, -1)),
    lambda x: np.ravel(x),
    lambda x: np.ravel(x, order="C"),
    lambda x: np.flip(x),
    lambda x: np.flip(x, axis=-1),
    lambda x: np.fliplr(x),
    lambda x: np.flipud(x),
    lambda x: np.rot90(x),
    lambda x: np.rot90(x, 2),
    lambda x: np.rot90(x, -1, axes=(1, 0)),
    lambda x: np.rot90(x, 4),
    lambda x: np.roll(x, 1),
    lambda x: np.roll(x, -7, axis=1),
    lambda x: np.roll(x, (1, 2), axis=(0, 1)),
    lambda x: np.roll(x, 1, axis=(1, 1)),
    lambda x: np.roll(x, (1, 3)),
    lambda x: np.concatenate([x, V]),
    lambda x: np.concatenate((V, x, V), axis=1),
    lambda x: np.concatenate([x, V[0]], axis=None),
    lambda x: np.concat([x, x]),
    lambda x: np.hstack([x, V]),
    lambda x: np.hstack([x[0], 2.0]),
    lambda x: np.vstack([x, V[0]]),
    lambda x: np.dstack([x, V]),
    lambda x: np.dstack([x[0], V[0]]),
    lambda x: np.column_stack([x, V[:, 0]]),
    lambda x: np.column_stack([x[0, 0], 1.0]),
    lambda x: np.atleast_1d(x[0, 0]),
    lambda x: np.atleast_2d(x[0]),
    lambda x: np.atleast_3d(x[0, 0]),
    lambda x: np.atleast_3d(x[0]),
    lambda x: np.atleast_3d(x),
    lambda x: np.tile(x, 2),
    lambda x: np.tile(x, (2, 1, 3)),
    lambda x: np.tile(x, ()),
    lambda x: np.repeat(x, 2),
    lambda x: np.repeat(x, [1, 2], axis=0),
    lambda x: np.repeat(x, np.array([0, 2, 1]), axis=1),
    lambda x: np.repeat(x, [3], axis=1),
    lambda x: np.pad(x, 1),
    lambda x: np.pad(x, (1, 2), mode="edge"),
    lambda x: np.pad(x, ((1, 0), (2, 5)), mode="reflect"),
    lambda x: np.pad(x, ((1,), (2,)), "symmetric"),
    lambda x: np.pad(x, np.array([[0, 7]]), "wrap"),
    lambda x: np.pad(x, 1, constant_values=-3),
    lambda x: np.pad(x, 1, constant_values=((1, 2), (3, 4))),
    lambda x: np.tril(x, 1),
    lambda x: np.triu(x, k=-1),
    lambda x: np.diag(x),
    lambda x: np.diag(x[0], -1),
    lambda x: np.diagonal(x, 1),
    lambda x: np.trace(x, offset=-1),
    lambda x: np.linalg.diagonal(x),
    lambda x: np.linalg.trace(x, offset=1),
    lambda x: x.T,
    lambda x: x.mT,
    lambda x: x.transpose(),
    lambda x: x.transpose(None),
    lambda x: x.transpose(1, 0),
    lambda x: x.transpose([1, 0]),
    lambda x: x.swapaxes(0, -1),
    lambda x: x.ravel(),
    lambda x: x.flatten(),
    lambda x: x[None].squeeze(0),
    lambda x: x.repeat(2, axis=1),
    lambda x: x.diagonal(offset=1),
    lambda x: x.trace(),
]
SEVERAL: list[Use] = [
    lambda x: np.split(x, 2),
    lambda x: np.split(x, [1, -1], axis=1),
    lambda x: np.split(x, [0, 1, 9], axis=1),
    lambda x: np.array_split(x, 2, axis=1),
    lambda x: np.array_split(x, 5, axis=1),
    lambda x: np.array_split(x, [2], axis=1),
    lambda x: np.hsplit(x, 3),
    lambda x: np.hsplit(x[0], [1]),
    lambda x: np.vsplit(x, 2),
    lambda x: np.dsplit(x[None], 3),
    lambda x: np.unstack(x, axis=1),
    lambda x: np.broadcast_arrays(x[0], V),
    lambda x: np.atleast_2d(x[0], V[0]),
]


@pytest.mark.parametrize("use", ONE_RESULT)
def test_functions_with_one_result(use: Use) -> None:
    expected, result = use(V), use(bh.Tape().leaf(V))
    assert isinstance(result, bh.TrackedTensor)
    assert result.shape == expected.shape
    assert result.requires_grad
    np.testing.assert_array_equal(result.numpy(), expected)


@pytest.mark.parametrize("use", SEVERAL)
def test_functions_with_several_results(use: Use) -> None:
    expected, results = use(V), use(bh.Tape().leaf(V))
    assert len(results) == len(expected)
    for result, each in zip(results, expected, strict=True):
        np.testing.assert_array_equal(np.asarray(result), each)


@pytest.mark.parametrize("dtype", ["float32", "complex64", "complex128"])
def test_dtypes_stay(dtype: str) -> None:
    x = bh.Tape().leaf(V.astype(dtype))
    for result in (
        bh.pad(x, 1, constant_values=2),
        bh.pad(x, 1, "wrap"),
        bh.repeat(x, [1, 2], 0),
        bh.concat([x, x[:1]]),
        bh.trace(x),
        x[[0, 0]],
        bh.scatter_add(x, [0, 0], 1.0),
    ):
        assert result.dtype == dtype


def test_a_padding_of_complex_numbers() -> None:
    value = V.astype(complex)
    x = bh.Tape().leaf(value)
    expected = np.pad(value, 1, constant_values=2j)
    np.testing.assert_array_equal(bh.pad(x, 1, constant_values=2j).numpy(), expected)


def test_axes_of_higher_rank() -> None:
    x = bh.Tape().leaf(W)
    pairs: list[tuple[bh.TrackedTensor, Any]] = [
        (bh.moveaxis(x, (0, 1), (-1, 0)), np.moveaxis(W, (0, 1), (-1, 0))),
        (bh.permute_dims(x, (2, 0, 1)), np.transpose(W, (2, 0, 1))),
        (bh.diagonal(x, 1, 2, 0), np.diagonal(W, 1, 2, 0)),
        (bh.trace(x, -1, 0, 2), np.trace(W, -1, 0, 2)),
        (bh.linalg.diagonal(x), np.diagonal(W, 0, -2, -1)),
        (bh.linalg.trace(x), np.trace(W, 0, -2, -1)),
        (bh.triu(x, 1), np.triu(W, 1)),
    ]
    for result, expected in pairs:
        np.testing.assert_array_equal(result.numpy(), expected)


REFUSED: list[tuple[Use, str]] = [
    (lambda x: bh.roll(x, (1, 2), (0, 1, 1)), "INVALID_ATTRIBUTE"),
    (lambda x: bh.transpose(x, (0, 0)), "INVALID_ATTRIBUTE"),
    (lambda x: bh.squeeze(x, 0), "INVALID_ATTRIBUTE"),
    (lambda x: bh.moveaxis(x, 0, 2), "INVALID_ATTRIBUTE"),
    (lambda x: bh.moveaxis(x, (0, 1), 0), "INVALID_ATTRIBUTE"),
    (lambda x: bh.swapaxes(x, 0, 2), "INVALID_ATTRIBUTE"),
    (lambda x: bh.expand_dims(x, 3), "INVALID_ATTRIBUTE"),
    (lambda x: bh.flip(x, 2), "INVALID_ATTRIBUTE"),
    (lambda x: bh.fliplr(x[0]), "INVALID_ATTRIBUTE"),
    (lambda x: bh.rot90(x, 1, (0,)), "INVALID_ATTRIBUTE"),
    (lambda x: bh.concat([x, x[0]]), "SHAPE_MISMATCH"),
    (lambda x: bh.concat([x[0, 0]]), "SHAPE_MISMATCH"),
    (lambda x: bh.concat([x, x[:, :1]]), "SHAPE_MISMATCH"),
    (lambda x: bh.concat([x], 2), "INVALID_ATTRIBUTE"),
    (lambda x: bh.split(x, 2, 1), "SHAPE_MISMATCH"),
    (lambda x: bh.split(x, 0), "INVALID_ATTRIBUTE"),
    (lambda x: bh.split(x, [2, 1]), "INVALID_ATTRIBUTE"),
    (lambda x: bh.repeat(x, [1, 2, 3], 0), "SHAPE_MISMATCH"),
    (lambda x: bh.repeat(x, -1), "INVALID_ATTRIBUTE"),
    (lambda x: bh.tile(x, (1, -1)), "INVALID_ATTRIBUTE"),
    (lambda x: bh.pad(x, -1), "INVALID_ATTRIBUTE"),
    (lambda x: bh.pad(x, 0.5), "INVALID_ATTRIBUTE"),
    (lambda x: bh.pad(x, (1, 2, 3)), "INVALID_ATTRIBUTE"),
    (lambda x: bh.pad(x, 1, "mean"), "INVALID_ATTRIBUTE"),  # type: ignore[arg-type]  # no mode of ours
    (lambda x: bh.pad(x[:0], 1, "edge"), "SHAPE_MISMATCH"),
    (lambda x: bh.pad(x, 1, constant_values=x[0, 0]), "INVALID_VALUE"),
    (lambda x: bh.diag(x[None]), "SHAPE_MISMATCH"),
    (lambda x: bh.diagonal(x, 0, 1, -1), "INVALID_ATTRIBUTE"),
    (lambda x: bh.trace(x[0]), "SHAPE_MISMATCH"),
]


@pytest.mark.parametrize(("use", "reason"), REFUSED)
def test_what_cannot_be_is_refused_at_the_call(use: Use, reason: str) -> None:
    x = bh.Tape().leaf(V)
    with pytest.raises(bh.InvalidArgument) as error:
        use(x)
    assert error.value.reason == reason


def test_integers_are_padded_with_integers() -> None:
    tape = bh.Tape()
    whole, small = tape.constant(np.array([1, 2])), tape.constant(np.array([1], np.uint8))
    np.testing.assert_array_equal(bh.pad(whole, 1, constant_values=7).numpy(), [7, 1, 2, 7])
    large = bh.pad(whole, (0, 1), constant_values=2**60 + 1).numpy()
    np.testing.assert_array_equal(large, [1, 2, 2**60 + 1])
    for x, constant in ((whole, np.nan), (whole, 1e30), (small, -1), (small, 256)):
        with pytest.raises(bh.InvalidArgument, match="constant_values"):
            bh.pad(x, 1, constant_values=constant)


def test_an_empty_axis_has_a_bounded_number_of_parts() -> None:
    x = bh.Tape().leaf(np.zeros((0, 2)))
    assert [part.shape for part in bh.split(x, 3)] == [(0, 2)] * 3
    with pytest.raises(bh.InvalidArgument, match="divided"):
        bh.split(x, 10**12)
