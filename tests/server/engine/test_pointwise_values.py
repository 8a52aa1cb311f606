"""Ops on each element give NumPy's and SciPy's values and dtypes, for every dtype and awkward numbers."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from scipy import special

from backhaul_proto.catalog.ops import CATALOG, Op
from backhaul_proto.errors import InvalidArgument
from backhaul_server.engine.engine import Engine
from backhaul_server.engine.rules import RULES
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
ENGINE = Engine()

FAMILIES = {
    "activation",
    "arithmetic",
    "comparison",
    "exponential",
    "parts",
    "rounding",
    "selection",
    "special",
    "trigonometric",
}
NOT_OF_NUMPY: dict[str, Callable[..., Any]] = {
    "conj": lambda x: np.conj(x) if x.dtype.kind != "b" else x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sigmoid": lambda x: special.expit(x) if x.dtype.kind != "c" else 1 / (1 + np.exp(-x)),
    "log_sigmoid": special.log_expit,
    "softplus": lambda x: np.logaddexp(x, x.dtype.type(0)),
    "relu": lambda x: np.where(x < 0, x.dtype.type(0), x),
    "gelu": lambda x: np.where(x == -np.inf, x.dtype.type(0), x * special.ndtr(x)),
    "silu": lambda x: np.where(x == -np.inf, x.dtype.type(0), x * special.expit(x)),
    "erf": special.erf,
    "erfc": special.erfc,
    "erfinv": special.erfinv,
    "lgamma": special.gammaln,
    "digamma": special.psi,
    "xlogy": special.xlogy,
    "xlog1py": special.xlog1py,
}
POINTWISE = sorted(
    name
    for name, rule in RULES.items()
    if type(rule).__module__.rpartition(".")[2] in FAMILIES and not CATALOG[name].private
)
NOT_OF_BOOLS = {"subtract", "negative", "pow", "floor_divide", "remainder"}
DTYPES = ("bool", "int8", "int64", "uint8", "float32", "float64", "complex64", "complex128")
NUMBERS = {
    "b": [True, False, True, False, True, False],
    "i": [0, 1, -1, 2, 7, -5],
    "u": [0, 1, 2, 3, 7, 250],
    "f": [
        0.0,
        -0.0,
        0.5,
        -0.75,
        1.0,
        -1.0,
        3.25,
        -20.0,
        90.0,
        -90.0,
        np.inf,
        -np.inf,
        np.nan,
        1e-30,
    ],
    "c": [0.5 + 0.25j, -0.75 + 1j, 2 - 3j, 1e-3j, -4 + 0.5j, 3 + 0.125j],
}


def reference(name: str) -> Callable[..., Any]:
    """What the op is held to."""
    found: Callable[..., Any] = NOT_OF_NUMPY.get(name) or getattr(np, name)
    return found


def run(name: str, *operands: Array, **attributes: Any) -> Array:
    """The op's value on the engine, without warnings about what the numbers themselves are."""
    tape = Tape(ENGINE)
    with np.errstate(all="ignore"):
        node = tape.apply(name, [tape.constant(x) for x in operands], **attributes)
        assert node.error is None
        value = np.asarray(node.value)
    assert (value.shape, value.dtype) == (node.aval.shape, node.aval.dtype)
    return value


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", POINTWISE)
def test_values(name: str, dtype: str) -> None:
    entry = CATALOG[name]
    x = np.array(NUMBERS[np.dtype(dtype).kind]).astype(dtype)
    operands = [np.roll(x, i) for i in range(len(entry.operands))]
    if name == "where":
        operands[0] = operands[0].real > 0
    elif name == "pow" and x.dtype.kind == "i":
        operands[1] = np.abs(operands[1])
    if x.dtype.kind not in entry.kinds or (dtype == "bool" and name in NOT_OF_BOOLS):
        with pytest.raises(InvalidArgument) as error:
            run(name, *operands)
        assert error.value.reason == "DTYPE_NOT_SUPPORTED"
        return
    with np.errstate(all="ignore"):
        expected = np.asarray(reference(name)(*map(floated(entry), operands)))
    got = run(name, *operands)
    assert got.dtype == expected.dtype
    tolerance = 1e-6 if got.dtype in ("float32", "complex64") else 2e-15
    np.testing.assert_allclose(got, expected, rtol=tolerance, atol=0)


def floated(entry: Op) -> Callable[[Array], Array]:
    """How the op takes an operand: integers as float64 where it has no integer results."""
    return lambda x: x.astype("float64") if entry.floating and x.dtype.kind in "biu" else x


@pytest.mark.parametrize("name", ["add", "divide", "pow", "maximum", "logaddexp", "atan2"])
def test_float32_stays_beside_integers_and_is_widened_by_float64(name: str) -> None:
    x = np.array([0.5, 2.0], np.float32)
    for beside, wanted in (("int64", "float32"), ("bool", "float32"), ("float64", "float64")):
        got = run(name, x, np.array([1, 0]).astype(beside))
        assert got.dtype == wanted
        with np.errstate(divide="ignore"):
            expected = reference(name)(x.astype(wanted), np.array([1, 0], wanted))
        np.testing.assert_array_equal(got, expected)


def test_real_and_complex_operands_mix() -> None:
    x, z = np.array([0.5, 2.0]), np.array([1 + 2j, -3j])
    for name in ("add", "divide", "pow", "multiply"):
        np.testing.assert_array_equal(run(name, x, z), reference(name)(x, z))
    condition = np.array([1, 0])
    np.testing.assert_array_equal(run("where", condition, x, z), [0.5, -3j])


def test_round_to_decimals() -> None:
    x = np.array([1234.5678, -0.5, 2.5])
    for decimals in (2, 0, -2):
        np.testing.assert_array_equal(run("round", x, decimals=decimals), np.round(x, decimals))
    np.testing.assert_array_equal(run("round", np.array([155, 149]), decimals=-1), [160, 150])


def test_an_integer_to_a_negative_integer_power_is_an_error() -> None:
    tape = Tape(ENGINE)
    node = tape.apply("pow", [tape.constant(np.array([2])), tape.constant(np.array([-1]))])
    assert node.error is not None
    assert (node.error.reason, "astype" in node.error.message) == ("INVALID_VALUE", True)


def test_bits_of_what_promotes_to_floats_are_an_error() -> None:
    with pytest.raises(InvalidArgument, match="astype") as error:
        run("bitwise_and", np.array([1], "uint64"), np.array([1], "int64"))
    assert error.value.reason == "DTYPE_NOT_SUPPORTED"


def test_accuracy_where_a_plain_formula_has_none() -> None:
    x = np.array([1e-20, -1e-20, -800.0, 800.0])
    np.testing.assert_allclose(run("expm1", x[:2]), x[:2], rtol=1e-15)
    np.testing.assert_allclose(run("log1p", x[:2]), x[:2], rtol=1e-15)
    np.testing.assert_allclose(run("softplus", x[2:]), [0.0, 800.0], atol=0)
    np.testing.assert_allclose(run("log_sigmoid", x[2:]), [-800.0, 0.0], atol=0)
    np.testing.assert_allclose(run("sigmoid", np.array([-700.0])), np.exp([-700.0]), rtol=1e-15)
    np.testing.assert_allclose(run("sigmoid", x[2:] + 0j), [0.0, 1.0], atol=0)
    np.testing.assert_allclose(run("erfc", np.array([10.0])), [2.088487583762545e-45], rtol=1e-13)
    np.testing.assert_allclose(run("hypot", np.array([3e200]), np.array([4e200])), [5e200])
    assert run("logaddexp", np.array(-np.inf), np.array(-np.inf)) == -np.inf
    assert run("logaddexp", np.array(1000.0), np.array(-np.inf)) == 1000.0
    assert run("xlogy", np.array(0.0), np.array(0.0)) == 0.0
