"""Every function of NumPy's on tensors: recorded, with NumPy's value, or refused; no gradient is dropped."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import overrides

import backhaul as bh

Function = Callable[..., Any]

RECORDED = [
    "absolute",
    "add",
    "all",
    "amax",
    "amin",
    "angle",
    "any",
    "arccos",
    "arccosh",
    "arcsin",
    "arcsinh",
    "arctan",
    "arctan2",
    "arctanh",
    "argmax",
    "argmin",
    "argsort",
    "around",
    "array_split",
    "atleast_1d",
    "atleast_2d",
    "atleast_3d",
    "average",
    "broadcast_arrays",
    "cbrt",
    "ceil",
    "clip",
    "column_stack",
    "concatenate",
    "conjugate",
    "cos",
    "cosh",
    "count_nonzero",
    "cumprod",
    "cumsum",
    "deg2rad",
    "degrees",
    "diag",
    "diagonal",
    "diff",
    "divide",
    "dot",
    "dstack",
    "equal",
    "exp",
    "exp2",
    "expand_dims",
    "expm1",
    "flip",
    "fliplr",
    "flipud",
    "floor",
    "floor_divide",
    "fmax",
    "fmin",
    "greater",
    "greater_equal",
    "hsplit",
    "hstack",
    "hypot",
    "imag",
    "inner",
    "isfinite",
    "isinf",
    "isnan",
    "kron",
    "less",
    "less_equal",
    "linalg.cholesky",
    "linalg.det",
    "linalg.diagonal",
    "linalg.eigh",
    "linalg.eigvalsh",
    "linalg.inv",
    "linalg.matmul",
    "linalg.matrix_norm",
    "linalg.matrix_power",
    "linalg.matrix_transpose",
    "linalg.multi_dot",
    "linalg.norm",
    "linalg.pinv",
    "linalg.qr",
    "linalg.slogdet",
    "linalg.solve",
    "linalg.svd",
    "linalg.svdvals",
    "linalg.tensordot",
    "linalg.trace",
    "linalg.vecdot",
    "linalg.vector_norm",
    "log",
    "log10",
    "log1p",
    "log2",
    "logaddexp",
    "logaddexp2",
    "logical_and",
    "logical_not",
    "logical_or",
    "logical_xor",
    "matmul",
    "matrix_transpose",
    "matvec",
    "max",
    "maximum",
    "mean",
    "median",
    "min",
    "minimum",
    "multiply",
    "negative",
    "not_equal",
    "outer",
    "pad",
    "percentile",
    "positive",
    "power",
    "prod",
    "ptp",
    "quantile",
    "rad2deg",
    "radians",
    "ravel",
    "real",
    "reciprocal",
    "remainder",
    "repeat",
    "roll",
    "rot90",
    "round",
    "sign",
    "sin",
    "sinc",
    "sinh",
    "sort",
    "split",
    "sqrt",
    "square",
    "squeeze",
    "stack",
    "std",
    "subtract",
    "sum",
    "take",
    "tan",
    "tanh",
    "tensordot",
    "tile",
    "trace",
    "transpose",
    "trapezoid",
    "tril",
    "triu",
    "trunc",
    "unstack",
    "var",
    "vdot",
    "vecdot",
    "vecmat",
    "vsplit",
    "vstack",
    "where",
]
"""What records today, by name; ufuncs under their own."""

BY_VALUE = {"array", "asanyarray", "asarray", "ascontiguousarray", "asfortranarray", "require"}
"""What is called to have the value as an array."""

KNOWN_HERE = {"ndim", "shape", "size"}
HERMITIAN = {"linalg.eigh", "linalg.eigvalsh"}
"""NumPy reads the lower triangle, we the Hermitian part: the same for matrices that are meant."""

EACH_ALONE = {"atleast_1d", "atleast_2d", "atleast_3d", "broadcast_arrays"}
"""A result for each argument, an array for one that is no tensor."""

ARGUMENTS: list[Callable[[Any], tuple[Any, ...]]] = [
    lambda x: (x,),
    lambda x: (x, x),
    lambda x: (x, 1),
    lambda x: (x, x, x),
]
SEQUENCES = ["concatenate", "stack", "hstack", "vstack", "dstack", "column_stack"]

X = np.array([[0.5, 0.25], [0.125, 0.75]])


def _functions() -> Iterator[Any]:
    ufuncs = {each.__name__: each for each in overrides.get_overridable_numpy_ufuncs()}
    others = {
        f"{each.__module__}.{each.__name__}".removeprefix("numpy."): each
        for each in overrides.get_overridable_numpy_array_functions()
    }
    for name, function in sorted({**others, **ufuncs}.items()):
        yield pytest.param(name, function, id=name)


@pytest.fixture(scope="module")
def leaf() -> bh.TrackedTensor:
    return bh.Tape().leaf(X)


def _parts(result: Any) -> list[Any]:
    if isinstance(result, tuple | list):
        return [part for each in result for part in _parts(each)]
    return [result]


@pytest.mark.parametrize(("name", "function"), list(_functions()))
def test_a_function_of_numpys(name: str, function: Function, leaf: bh.TrackedTensor) -> None:
    recorded = False
    for arguments in ARGUMENTS:
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                result = function(*arguments(leaf))
        except bh.InternalError:
            raise
        except (TypeError, bh.BackhaulError, ValueError, AttributeError):
            continue  # ValueError and AttributeError: NumPy's own, before it asks the tensor
        if name in BY_VALUE | KNOWN_HERE or _makes_anew(name):
            continue
        parts = _parts(result)
        assert parts, name
        alone = name not in EACH_ALONE or len(arguments(leaf)) == 1
        assert all(isinstance(each, bh.TrackedTensor) for each in parts) or not alone, (
            name,
            result,
        )
        assert any(isinstance(each, bh.TrackedTensor) for each in parts), (name, result)
        recorded = True
        given = (X + X.T) / 2 if name in HERMITIAN else X
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            expected = _parts(function(*arguments(given)))
        for each, value in zip(parts, expected, strict=True):
            np.testing.assert_allclose(np.asarray(each), value, rtol=1e-12, atol=1e-14)
    assert recorded == (name in RECORDED), name


def _makes_anew(name: str) -> bool:
    """Functions for which a tensor is a shape or a file, which they refuse in words of their own."""
    return name in (
        "empty",
        "ones",
        "zeros",
        "fromfile",
        "genfromtxt",
        "loadtxt",
        "savetxt",
        "astype",
    )


@pytest.mark.parametrize("name", SEQUENCES)
def test_sequences_of_tensors_are_joined(name: str, leaf: bh.TrackedTensor) -> None:
    function = getattr(np, name)
    result = function([leaf, leaf])
    assert isinstance(result, bh.TrackedTensor)
    assert result.requires_grad
    np.testing.assert_array_equal(result.numpy(), function([X, X]))


@pytest.mark.parametrize("method", ["reduce", "accumulate", "outer", "reduceat"])
def test_methods_of_ufuncs_are_refused(method: str, leaf: bh.TrackedTensor) -> None:
    with pytest.raises(TypeError, match="does not record"):
        getattr(np.add, method)(
            leaf, *([leaf] if method == "outer" else [[0]] * (method == "reduceat"))
        )


def test_out_is_refused(leaf: bh.TrackedTensor) -> None:
    target: Any = leaf
    for call in (
        lambda: np.add(leaf, leaf, out=np.zeros((2, 2))),
        lambda: np.sum(leaf, out=np.zeros(())),
        lambda: np.add(X, X, out=target),
    ):
        with pytest.raises(TypeError):
            call()


def test_an_unknown_function_names_the_nearest_op(leaf: bh.TrackedTensor) -> None:
    with pytest.raises(TypeError, match="did you mean sin"):
        np.i0(leaf)
