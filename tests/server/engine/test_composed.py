"""What is put in the array API's terms gives NumPy's and SciPy's numbers at awkward arguments too."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from backhaul_server.engine.arrays import numpy_namespace
from backhaul_server.engine.composed import COMPOSED

Array = np.ndarray[Any, Any]
XP = numpy_namespace()
INF, NAN = float("inf"), float("nan")
REAL = np.array(
    [0.0, -0.0, 1.0, -1.0, 0.3, -2.5, 40.0, -40.0, 700.0, -700.0, 1e-300, -1e300, INF, -INF, NAN]
)
COMPLEX = np.array([0, 1 + 2j, -3 - 1j, 2j, -5, 30 - 1j, -30 + 0.5j])


def alike(name: str, *operands: Array, **keywords: Any) -> None:
    with np.errstate(all="ignore"):
        got = COMPOSED[name](np, *operands, **keywords)
        expected = getattr(XP, name)(*operands, **keywords)
    assert got.dtype == expected.dtype
    rtol = 8 * np.finfo(got.dtype).eps if got.dtype.kind in "fc" else 0
    np.testing.assert_allclose(got, expected, rtol=rtol, atol=0)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "name",
    [
        "angle",
        "cbrt",
        "conj",
        "copy",
        "deg2rad",
        "exp2",
        "imag",
        "log_sigmoid",
        "logical_not",
        "rad2deg",
        "real",
        "round",
        "sigmoid",
        "sinc",
    ],
)
def test_functions_of_one_number(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        alike(name, REAL.astype(dtype))


@pytest.mark.parametrize("name", ["angle", "conj", "imag", "logical_not", "real", "sigmoid"])
def test_functions_of_one_complex_number(name: str) -> None:
    alike(name, COMPLEX)


@pytest.mark.parametrize("dtype", ["float64", "float32"])
@pytest.mark.parametrize(
    "name",
    ["fmax", "fmin", "logaddexp2", "logical_and", "logical_or", "logical_xor", "xlog1py", "xlogy"],
)
def test_functions_of_two_numbers(name: str, dtype: str) -> None:
    with np.errstate(all="ignore"):
        x = REAL.astype(dtype)
    alike(name, x[:, None], x[None, :])


@pytest.mark.parametrize("decimals", [2, 0, -1])
@pytest.mark.parametrize("dtype", ["float64", "int64"])
def test_round(decimals: int, dtype: str) -> None:
    alike("round", np.array([-2517.5, 0.125, 15.0, 25.0, 3.14159]).astype(dtype), decimals=decimals)


def test_functions_of_arrays() -> None:
    rng = np.random.default_rng(2)
    x = rng.standard_normal((3, 4, 5))
    alike("diagonal", x, offset=1, axis1=2, axis2=0)
    alike("diagonal", x, offset=-2, axis1=0, axis2=1)
    alike("put_in_order", x, np.argsort(rng.standard_normal((3, 4, 5)), axis=1), axis=1)
    alike("dot", x[0], x[1].T)
    alike("compact", x.transpose(2, 0, 1))
