"""First and second derivatives of ops on each element, where formulas break: kinks, zeros, extremes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
ENGINE = Engine()
INF, NAN = math.inf, math.nan
HALF_PI = math.pi / 2


def derivatives(
    name: str,
    *operands: Any,
    along: Sequence[Any] | None = None,
    dtype: Any = None,
    **attributes: Any,
) -> tuple[list[Array], list[Array]]:
    """Gradients of the sum of the op's results (its real part), and H·v along ones or the directions."""
    values = [np.asarray(x, dtype or np.result_type(np.asarray(x), 0.0)) for x in operands]
    directions = (
        [np.ones_like(x) for x in values] if along is None else list(map(np.asarray, along))
    )
    tape = Tape(ENGINE)
    leaves = [tape.leaf(x, d.astype(x.dtype)) for x, d in zip(values, directions, strict=True)]
    y = tape.apply(name, leaves, **attributes)
    loss = tape.apply("sum", [tape.apply("real", [y])])
    ((gradients, products),) = tape.hvp(loss, wrt=leaves)
    plain = tape.pullback(loss, wrt=leaves)[0]
    for leaf in leaves:
        np.testing.assert_array_equal(plain[leaf], gradients[leaf])
        assert gradients[leaf].dtype == products[leaf].dtype == leaf.aval.dtype
    return [gradients[leaf] for leaf in leaves], [products[leaf] for leaf in leaves]


ONE_OPERAND: list[tuple[str, float, float, float]] = [
    # name, x, f'(x), f''(x)
    ("abs", 0.0, 0.0, 0.0),
    ("abs", -2.0, -1.0, 0.0),
    ("relu", 0.0, 0.0, 0.0),
    ("relu", 3.0, 1.0, 0.0),
    ("sign", 0.0, 0.0, 0.0),
    ("floor", 2.0, 0.0, 0.0),
    ("round", 0.5, 0.0, 0.0),
    ("square", 0.0, 0.0, 2.0),
    ("sinc", 0.0, 0.0, -(math.pi**2) / 3),
    ("sinc", 1e-9, -(math.pi**2) / 3 * 1e-9, -(math.pi**2) / 3),
    ("sinc", 1e-200, -(math.pi**2) / 3 * 1e-200, -(math.pi**2) / 3),
    ("sinc", 1.0, -1.0, 2.0),
    ("softplus", 1000.0, 1.0, 0.0),
    ("softplus", -1000.0, 0.0, 0.0),
    ("softplus", -700.0, math.exp(-700), math.exp(-700)),
    ("softplus", 0.0, 0.5, 0.25),
    ("sigmoid", 40.0, math.exp(-40), -math.exp(-40)),
    ("sigmoid", -40.0, math.exp(-40), math.exp(-40)),
    ("sigmoid", 1000.0, 0.0, 0.0),
    ("log_sigmoid", -1000.0, 1.0, 0.0),
    ("log_sigmoid", 40.0, math.exp(-40), -math.exp(-40)),
    ("silu", -1000.0, 0.0, 0.0),
    ("silu", 1000.0, 1.0, 0.0),
    ("gelu", 0.0, 0.5, 2 / math.sqrt(2 * math.pi)),
    ("gelu", -50.0, 0.0, 0.0),
    ("gelu", 50.0, 1.0, 0.0),
    ("silu", -INF, 0.0, 0.0),
    ("silu", INF, 1.0, 0.0),
    ("gelu", -INF, 0.0, 0.0),
    ("gelu", INF, 1.0, 0.0),
    ("tanh", 1000.0, 0.0, 0.0),
    ("expm1", -50.0, math.exp(-50), math.exp(-50)),
    ("log1p", -1 + 1e-15, 1 / math.fsum([1, -1 + 1e-15]), -1 / math.fsum([1, -1 + 1e-15]) ** 2),
    ("asinh", 1e200, 1e-200, 0.0),
    ("asin", 0.0, 1.0, 0.0),
    ("erf", 30.0, 0.0, 0.0),
    ("lgamma", 1.0, -0.5772156649015329, math.pi**2 / 6),
    ("lgamma", 0.5, -1.9635100260214235, HALF_PI * math.pi),
    ("digamma", 1.0, math.pi**2 / 6, -2.4041138063191886),
    ("digamma", -0.5, 8.934802200544679, -0.8287966448),
    ("angle", -1.0, 0.0, 0.0),
]


@pytest.mark.parametrize(("name", "x", "first", "second"), ONE_OPERAND)
def test_of_one_operand(name: str, x: float, first: float, second: float) -> None:
    with np.errstate(all="raise", under="ignore"):
        (gradient,), (product,) = derivatives(name, x)
    np.testing.assert_allclose(gradient, first, rtol=2e-13, atol=1e-300)
    np.testing.assert_allclose(product, second, rtol=1e-9, atol=1e-300)


INFINITE: list[tuple[str, float, float]] = [
    ("sqrt", 0.0, INF),
    ("cbrt", 0.0, INF),
    ("log", 0.0, INF),
    ("reciprocal", 0.0, -INF),
    ("rsqrt", 0.0, -INF),
    ("asin", 1.0, INF),
    ("acos", -1.0, -INF),
    ("acosh", 1.0, INF),
    ("atanh", 1.0, INF),
]


@pytest.mark.parametrize(("name", "x", "first"), INFINITE)
def test_an_infinite_derivative_is_reported_as_such(name: str, x: float, first: float) -> None:
    with np.errstate(all="ignore"):
        (gradient,), _ = derivatives(name, x)
    assert gradient == first


TWO_OPERANDS: list[tuple[str, tuple[float, float], tuple[float, float], tuple[float, float]]] = [
    # name, operands, gradient, H·(1, 1)
    ("maximum", (1.0, 1.0), (0.5, 0.5), (0.0, 0.0)),
    ("minimum", (1.0, 1.0), (0.5, 0.5), (0.0, 0.0)),
    ("maximum", (2.0, 1.0), (1.0, 0.0), (0.0, 0.0)),
    ("minimum", (2.0, 1.0), (0.0, 1.0), (0.0, 0.0)),
    ("maximum", (NAN, 1.0), (1.0, 0.0), (0.0, 0.0)),
    ("maximum", (1.0, NAN), (0.0, 1.0), (0.0, 0.0)),
    ("maximum", (INF, INF), (0.5, 0.5), (0.0, 0.0)),
    ("fmax", (NAN, 1.0), (0.0, 1.0), (0.0, 0.0)),
    ("fmin", (1.0, NAN), (1.0, 0.0), (0.0, 0.0)),
    ("fmin", (NAN, NAN), (0.5, 0.5), (0.0, 0.0)),
    ("hypot", (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    ("hypot", (3e200, 4e200), (0.6, 0.8), (0.0, 0.0)),
    ("atan2", (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    ("atan2", (0.0, -1.0), (-1.0, 0.0), (-1.0, -1.0)),
    ("logaddexp", (0.0, 0.0), (0.5, 0.5), (0.0, 0.0)),
    ("logaddexp", (-INF, -INF), (0.5, 0.5), (0.0, 0.0)),
    ("logaddexp", (INF, INF), (0.5, 0.5), (0.0, 0.0)),
    ("logaddexp", (INF, -INF), (1.0, 0.0), (0.0, 0.0)),
    ("logaddexp", (-INF, 3.0), (0.0, 1.0), (0.0, 0.0)),
    ("logaddexp", (1000.0, -1000.0), (1.0, 0.0), (0.0, 0.0)),
    ("logaddexp2", (1.0, 1.0), (0.5, 0.5), (0.0, 0.0)),
    ("pow", (0.0, 2.0), (0.0, 0.0), (2.0, 0.0)),
    ("pow", (0.0, 3.0), (0.0, 0.0), (0.0, 0.0)),
    ("pow", (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    ("pow", (2.0, 0.0), (0.0, math.log(2)), (0.5, 0.5 + math.log(2) ** 2)),
    ("xlogy", (0.0, 0.0), (0.0, 0.0), (0.0, 0.0)),
    ("xlogy", (0.0, 2.0), (math.log(2), 0.0), (0.5, 0.5)),
    ("xlogy", (2.0, 4.0), (math.log(4), 0.5), (0.25, 0.25 - 0.125)),
    ("xlog1py", (0.0, -1.0), (0.0, 0.0), (0.0, 0.0)),
    ("xlog1py", (2.0, 3.0), (math.log(4), 0.5), (0.25, 0.25 - 0.125)),
    ("divide", (3.0, 2.0), (0.5, -0.75), (-0.25, -0.25 + 0.75)),
    ("remainder", (7.5, 2.0), (1.0, -3.0), (0.0, 0.0)),
    ("remainder", (-7.5, 2.0), (1.0, 4.0), (0.0, 0.0)),
    ("floor_divide", (7.5, 2.0), (0.0, 0.0), (0.0, 0.0)),
]


@pytest.mark.parametrize(("name", "operands", "first", "second"), TWO_OPERANDS)
def test_of_two_operands(
    name: str,
    operands: tuple[float, float],
    first: tuple[float, float],
    second: tuple[float, float],
) -> None:
    with np.errstate(all="raise", under="ignore"):
        gradients, products = derivatives(name, *operands)
    np.testing.assert_allclose(gradients, first, rtol=1e-14, atol=1e-200)
    np.testing.assert_allclose(products, second, rtol=1e-13, atol=1e-200)


@pytest.mark.parametrize("dtype", ["f4", "f8", "c8", "c16"])
def test_constant_exponents_are_polynomials_at_every_base(dtype: str) -> None:
    """x**n has the derivatives n x**(n-1) and n (n-1) x**(n-2), at 0 and at negative x too."""
    x = np.array([0.0, -0.0, -2.0, 3.0, 1e-310 if dtype[1:] in ("8", "16") else 1e-40], dtype)
    if dtype == "c8":
        x = x[:4]
    for n in (0, 1, 2, 3, 4):
        tape = Tape(ENGINE)
        leaf = tape.leaf(x, np.ones_like(x))
        exponent = tape.constant(np.asarray(n, dtype))
        with np.errstate(all="raise", under="ignore"):
            loss = tape.apply("sum", [tape.apply("real", [tape.apply("pow", [leaf, exponent])])])
            ((gradients, products),) = tape.hvp(loss)
        first = n * x ** max(n - 1, 0)
        second = n * (n - 1) * x ** max(n - 2, 0)
        np.testing.assert_allclose(gradients[leaf], first, rtol=1e-6, atol=0)
        np.testing.assert_allclose(products[leaf], second, rtol=1e-6, atol=0)
        assert gradients[leaf].dtype == dtype


def test_the_derivative_by_an_exponent_at_a_negative_base_is_nan() -> None:
    with np.errstate(all="ignore"):
        (by_base, by_exponent), _ = derivatives("pow", -2.0, 3.0)
    assert by_base == 12.0
    assert np.isnan(by_exponent)


def test_a_power_of_zero_by_a_negative_exponent_is_infinite() -> None:
    with np.errstate(all="ignore"):
        (by_base, by_exponent), _ = derivatives("pow", 0.0, -1.0)
    assert (float(by_base), float(by_exponent)) == (-INF, -INF)


def test_what_where_did_not_choose_stays_out_of_the_gradient() -> None:
    tape = Tape(ENGINE)
    x = tape.leaf(np.array([-1.0, 4.0]), np.ones(2))
    positive = tape.apply("greater", [x, tape.constant(np.asarray(0.0))])
    chosen = tape.apply("where", [positive, x, tape.constant(np.array([NAN, INF]))])
    ((gradients, products),) = tape.hvp(tape.apply("sum", [tape.apply("square", [chosen])]))
    # the loss is NaN, by the constant that was chosen; x has no part in it
    np.testing.assert_array_equal(gradients[x], [0.0, 8.0])
    np.testing.assert_array_equal(products[x], [0.0, 2.0])


def test_a_condition_that_was_computed_gets_no_gradient() -> None:
    tape = Tape(ENGINE)
    x = tape.leaf(np.array([0.0, 2.0]), np.ones(2))
    y = tape.apply("where", [x, tape.constant(np.ones(2)), x])
    ((gradients, products),) = tape.hvp(tape.apply("sum", [y]))
    np.testing.assert_array_equal(gradients[x], [1.0, 0.0])
    np.testing.assert_array_equal(products[x], [0.0, 0.0])


def test_clip_is_one_at_its_bounds_and_moves_with_them_beyond() -> None:
    x, lower, upper = [-2.0, -1.0, 0.0, 1.0, 2.0], [-1.0] * 5, [1.0] * 5
    with np.errstate(all="raise"):
        gradients, products = derivatives("clip", x, lower, upper)
    np.testing.assert_array_equal(gradients[0], [0, 1, 1, 1, 0])
    np.testing.assert_array_equal(gradients[1], [1, 0, 0, 0, 0])
    np.testing.assert_array_equal(gradients[2], [0, 0, 0, 0, 1])
    assert not np.any(products)


@pytest.mark.parametrize("x", [-3.0, 0.0, 1.0, 3.0])
def test_clip_between_crossed_bounds_is_the_upper(x: float) -> None:
    gradients, _ = derivatives("clip", x, 1.0, -1.0)
    assert list(map(float, gradients)) == [0.0, 0.0, 1.0]


def test_complex_absolute_value_sign_and_angle() -> None:
    z, v = np.array([3 + 4j, 0j, -2j]), np.array([1j, 1 + 1j, 2.0])
    with np.errstate(all="raise"):
        (absolute,), (moved,) = derivatives("abs", z, along=[v])
        (angle,), _ = derivatives("angle", z, along=[v])
    np.testing.assert_allclose(absolute, [0.6 + 0.8j, 0, -1j], rtol=1e-15)
    # (v - s Re(conj(s) v)) / |z|, s = z / |z|
    np.testing.assert_allclose(moved, [(1j - (0.6 + 0.8j) * 0.8) / 5, 0, 1.0], atol=1e-16)
    np.testing.assert_allclose(angle, [(-4 + 3j) / 25, 0, 0.5], rtol=1e-15)


def test_derivatives_stay_in_float32() -> None:
    for name in (
        "gelu",
        "softplus",
        "sinc",
        "logaddexp",
        "pow",
        "lgamma",
        "clip",
        "xlogy",
        "erfinv",
    ):
        count = {"logaddexp": 2, "pow": 2, "xlogy": 2, "clip": 3}.get(name, 1)
        derivatives(name, *[[0.25, 0.5]] * count, dtype="float32")  # it checks the dtypes


@pytest.mark.parametrize("name", ["asin", "acos", "asinh", "acosh", "atanh", "atan", "sqrt", "log"])
def test_complex_derivatives_have_the_functions_own_branch_cuts(name: str) -> None:
    rng = np.random.default_rng(5)
    z = 3 * (rng.standard_normal(40) + 1j * rng.standard_normal(40))
    step = 1e-6
    function = getattr(np, name)
    differences = (function(z + step) - function(z - step)) / (2 * step)
    (gradient,), _ = derivatives(name, z)
    np.testing.assert_allclose(gradient.conj(), differences, rtol=1e-7)


def test_the_series_of_sinc_joins_its_formula() -> None:
    x = np.array([0.25 - 1e-12, 0.25 + 1e-12, 0.1, -0.2])
    (first,), (second,) = derivatives("sinc", x)
    u = np.pi * x
    np.testing.assert_allclose(first, (np.cos(u) - np.sinc(x)) / x, rtol=1e-13)
    np.testing.assert_allclose(
        second, -np.pi * np.sin(u) / x - 2 * (np.cos(u) - np.sinc(x)) / x**2, rtol=1e-12
    )
