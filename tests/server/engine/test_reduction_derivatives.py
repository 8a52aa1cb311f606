"""First and second derivatives of ops over and along axes, where formulas break: zeros, ties, extremes."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest

from backhaul_server.engine.engine import Engine
from backhaul_server.engine.tape import Tape

Array = np.ndarray[Any, Any]
ENGINE = Engine()
INF = math.inf


def derivatives(
    name: str, x: Any, direction: Any = None, weights: Any = None, **attributes: Any
) -> tuple[Array, Array]:
    """Gradient and H·v of Σ Re(conj(w) y); the direction is ones, and so are the weights."""
    value = np.asarray(x)
    along = np.ones_like(value) if direction is None else np.asarray(direction, value.dtype)
    tape = Tape(ENGINE)
    leaf = tape.leaf(value, along)
    y = tape.apply(name, [leaf], **attributes)
    w = np.conj(np.ones(y.aval.shape) if weights is None else weights)
    product = tape.apply("multiply", [y, tape.constant(np.asarray(w, y.aval.dtype))])
    loss = tape.apply("sum", [tape.apply("real", [product])])
    ((gradients, products),) = tape.hvp(loss, wrt=[leaf])
    np.testing.assert_array_equal(tape.pullback(loss)[0][leaf], gradients[leaf])
    assert gradients[leaf].dtype == products[leaf].dtype == value.dtype
    return gradients[leaf], products[leaf]


def others(x: Array, *left_out: int) -> Any:
    """The product of all elements but these."""
    return np.prod(np.delete(x, left_out))


def hessian_of_prod(x: Array) -> Array:
    h = np.zeros((x.size, x.size), x.dtype)
    for i, j in itertools.permutations(range(x.size), 2):
        h[i, j] = others(x, i, j)
    return h


@pytest.mark.parametrize("zeros", [(), (1,), (0, 2), (0, 1, 3), (0, 1, 2, 3, 4)])
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex128"])
def test_prod_with_zeros(zeros: tuple[int, ...], dtype: str) -> None:
    rng = np.random.default_rng(11)
    x, v = ((rng.standard_normal(5) + 1j * rng.standard_normal(5)) for _ in range(2))
    if dtype != "complex128":
        x, v = x.real, v.real
    x, v = x.astype(dtype), v.astype(dtype)
    x[list(zeros)] = 0
    with np.errstate(all="raise"):
        gradient, product = derivatives("prod", x, v)
    tolerance = 1e-5 if dtype == "float32" else 1e-13
    expected = np.conj([others(x, i) for i in range(5)])
    np.testing.assert_allclose(gradient, expected, tolerance, tolerance)
    np.testing.assert_allclose(product, np.conj(hessian_of_prod(x) @ v), tolerance, tolerance)


@pytest.mark.parametrize("axis", [(0, 1), (1, 2), (2, 0), (0, 1, 2)])
def test_prod_over_several_axes_with_zeros(axis: tuple[int, ...]) -> None:
    rng = np.random.default_rng(2)
    x, v = rng.standard_normal((2, 3, 2, 2)), rng.standard_normal((2, 3, 2, 2))
    x[0, 1, 0, 0] = x[1, 2, 1, 0] = x[1, 0, 1, 0] = 0
    gradient, product = derivatives("prod", x, v, axis=axis)
    for lanes in (gradient, product, x, v):
        assert lanes.shape == (2, 3, 2, 2)
    rest = [i for i in range(4) if i not in axis]
    count = math.prod(x.shape[i] for i in axis)
    flat_x, flat_v, flat_g, flat_h = (
        np.transpose(each, (*rest, *axis)).reshape(-1, count) for each in (x, v, gradient, product)
    )
    for lane, direction, g, h in zip(flat_x, flat_v, flat_g, flat_h, strict=True):
        np.testing.assert_allclose(g, [others(lane, i) for i in range(count)], 1e-12, 1e-15)
        np.testing.assert_allclose(h, hessian_of_prod(lane) @ direction, 1e-12, 1e-15)


def test_prod_whose_parts_overflow_or_underflow() -> None:
    """Products that the derivative has not must not be taken: 1e200 * 1e200 would be infinite."""
    x = np.array([1e-300, 1e200, 1e-100, 1e200])
    with np.errstate(all="raise"):
        gradient, _ = derivatives("prod", x, [0.0, 0.0, 1.0, 0.0])
    np.testing.assert_allclose(gradient[[1, 2, 3]], [1e-200, 1e100, 1e-200], 1e-12)
    _, product = derivatives("prod", np.array([1e-20, 1.0, 1.0]))
    np.testing.assert_allclose(product, [2.0, 1.0, 1.0], 1e-12)  # nothing cancels


@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_prod_with_zeros(reverse: bool) -> None:
    rng = np.random.default_rng(4)
    x, v, w = (rng.standard_normal(5) for _ in range(3))
    x[1] = x[3] = 0
    with np.errstate(all="raise", under="ignore"):
        gradient, product = derivatives("cumulative_prod", x, v, w, reverse=reverse)
    g, h = np.zeros(5), np.zeros(5)
    for i in range(5):
        part = slice(i, 5) if reverse else slice(0, i + 1)
        size = len(x[part])
        g[part] += w[i] * np.array([others(x[part], k) for k in range(size)])
        h[part] += w[i] * hessian_of_prod(x[part]) @ v[part]
    np.testing.assert_allclose(gradient, g, 1e-12, 1e-15)
    np.testing.assert_allclose(product, h, 1e-12, 1e-15)


@pytest.mark.parametrize(("name", "sign"), [("max", 1), ("min", -1)])
def test_ties_share_evenly_and_have_no_curvature(name: str, sign: int) -> None:
    x = sign * np.array([[3.0, 1.0, 3.0], [2.0, 2.0, 2.0]])
    gradient, product = derivatives(name, x, np.arange(6.0).reshape(2, 3), axis=1)
    np.testing.assert_array_equal(gradient, [[0.5, 0, 0.5], [1 / 3] * 3])
    np.testing.assert_array_equal(product, np.zeros((2, 3)))
    gradient, _ = derivatives(name, x.astype("f4"))
    np.testing.assert_array_equal(
        gradient, np.where(x == x.flat[0] if sign > 0 else x == -3, 0.5, 0)
    )


def test_a_nan_takes_the_derivative_and_leaves_other_lanes_alone() -> None:
    x = np.array([[1.0, np.nan, 2.0], [1.0, 0.0, 2.0]])
    for name, expected in (("max", [0, 0, 1]), ("min", [0, 1, 0]), ("median", [1, 0, 0])):
        gradient, _ = derivatives(name, x, axis=1)
        np.testing.assert_array_equal(gradient, [[0, 1, 0], expected])


@pytest.mark.parametrize(
    ("x", "expected"),
    [
        ([3.0, 1.0, 2.0], [0, 0, 1]),
        ([4.0, 1.0, 3.0, 2.0], [0, 0, 0.5, 0.5]),
        ([1.0, 1.0, 5.0], [0.5, 0.5, 0]),
        ([2.0, 2.0, 2.0, 2.0], [0.25] * 4),
        ([1.0, 2.0, 2.0, 9.0], [0, 0.5, 0.5, 0]),
        ([0.0, 1.0, 2.0, 2.0], [0, 0.5, 0.25, 0.25]),
    ],
)
def test_median(x: list[float], expected: list[float]) -> None:
    gradient, product = derivatives("median", np.array(x), np.arange(float(len(x))))
    np.testing.assert_array_equal(gradient, expected)
    np.testing.assert_array_equal(product, np.zeros(len(x)))


def test_quantile_weighs_the_two_elements_that_it_lies_between() -> None:
    gradient, _ = derivatives("quantile", np.array([5.0, 0.0, 1.0, 3.0]), q=0.25)
    np.testing.assert_allclose(gradient, [0, 0.25, 0.75, 0])


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
def test_the_spread_of_equal_elements(dtype: str) -> None:
    x = np.full(7, 0.1, dtype)
    v = np.arange(7.0)
    with np.errstate(all="raise"):
        for name, attributes in (("std", {}), ("std", {"correction": 1}), ("var", {})):
            gradient, product = derivatives(name, x, v, **attributes)
            np.testing.assert_array_equal(gradient, np.zeros(7))
            if name == "std":
                np.testing.assert_array_equal(product, np.zeros(7))
            else:
                np.testing.assert_allclose(product, 2 / 7 * (v - v.mean()), 1e-6, 1e-7)


def test_std_in_closed_form() -> None:
    rng = np.random.default_rng(9)
    x, v = rng.standard_normal(6), rng.standard_normal(6)
    gradient, product = derivatives("std", x, v, correction=1)
    c, s = x - x.mean(), np.std(x, ddof=1)
    np.testing.assert_allclose(gradient, c / (5 * s), 1e-13)
    expected = (v - v.mean()) / (5 * s) - c * (c @ v) / (25 * s**3)
    np.testing.assert_allclose(product, expected, 1e-12, 1e-14)


def test_no_elements_have_no_gradient() -> None:
    with np.errstate(all="raise"):
        for name in ("mean", "var", "std", "prod", "logsumexp", "linalg.vector_norm"):
            gradient, product = derivatives(name, np.zeros((0, 2)), axis=0)
            assert gradient.shape == product.shape == (0, 2)


@pytest.mark.parametrize(
    ("x", "shares"),
    [
        ([1000.0, 1000.0, -1000.0], [0.5, 0.5, 0]),
        ([-INF, 1.0, -INF], [0, 1, 0]),
        ([-1e300, 0.0, 0.0], [0, 0.5, 0.5]),
        ([-INF, -INF, -INF], [0, 0, 0]),
    ],
)
def test_logsumexp_at_extremes(x: list[float], shares: list[float]) -> None:
    finite = np.isfinite(x).any()
    with np.errstate(all="raise" if finite else "ignore", under="ignore"):
        gradient, product = derivatives("logsumexp", np.array(x), [1.0, 2.0, 3.0])
    p, v = np.array(shares), np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(gradient, p, 1e-15)
    np.testing.assert_allclose(product, p * (v - p @ v), 1e-15, 1e-15)


def test_an_infinite_lane_of_logsumexp_leaves_others_alone() -> None:
    x = np.array([[-INF, -INF], [INF, 0.0], [0.0, 0.0]])
    with np.errstate(all="ignore"):
        gradient, product = derivatives("logsumexp", x, [[1.0, 2.0]] * 3, axis=1)
    np.testing.assert_array_equal(gradient, [[0, 0], [1, 0], [0.5, 0.5]])
    np.testing.assert_array_equal(product, [[0, 0], [0, 0], [-0.25, 0.25]])


def test_infinite_elements_share_an_infinite_logsumexp() -> None:
    for x, shares in (([INF, 1.0, -INF], [1, 0, 0]), ([INF, 2.0, INF], [0.5, 0, 0.5])):
        with np.errstate(all="ignore"):
            gradient, product = derivatives("logsumexp", np.array(x), [1.0, 2.0, 3.0])
            one, same = derivatives("cumulative_logsumexp", np.array(x), weights=[0.0, 0.0, 1.0])
        np.testing.assert_array_equal(gradient, shares)
        np.testing.assert_array_equal(one, shares)
        np.testing.assert_array_equal([product, same], np.zeros((2, 3)))


def test_softmax_at_extremes() -> None:
    x, w = np.array([1000.0, -INF, 1000.0]), np.array([1.0, 5.0, -1.0])
    with np.errstate(all="raise", under="ignore"):
        gradient, product = derivatives("softmax", x, [1.0, 1.0, 2.0], w)
        np.testing.assert_allclose(gradient, [0.5, 0, -0.5], 1e-15)
        np.testing.assert_allclose(product, [0, 0, 0], 0, 1e-15)
        gradient, _ = derivatives("log_softmax", np.array([0.0, -1000.0]), weights=[0.0, 1.0])
        np.testing.assert_array_equal(gradient, [-1, 1])


def test_cumulative_logsumexp_at_extremes() -> None:
    x = np.array([-INF, 1000.0, -1000.0, 1000.0, -INF])
    with np.errstate(all="ignore"):
        gradient, product = derivatives("cumulative_logsumexp", x, np.arange(5.0))
    np.testing.assert_allclose(gradient, [0, 3, 0, 1, 0], 1e-15)
    np.testing.assert_allclose(product, [0, 0.25 * -4, 0, 0.25 * 4, 0], 1e-15)


@pytest.mark.parametrize("order", [2.0, 1.0, INF, -INF, 0.0, 3.0, 1.5, 0.5, -1.0])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_norms_at_zero_have_zero_derivatives(order: float, dtype: str) -> None:
    with np.errstate(all="raise"):
        gradient, product = derivatives(
            "linalg.vector_norm", np.zeros(3, dtype), [1, 2, 3], ord=order
        )
    np.testing.assert_array_equal(gradient, np.zeros(3))
    np.testing.assert_array_equal(product, np.zeros(3))


@pytest.mark.parametrize(
    ("order", "gradient", "product"),
    [
        # x = (3, 0, -4), v = (1, 1, 1)
        (2.0, [0.6, 0, -0.8], [(1 + 0.6 / 5) / 5, 0.2, (1 - 0.8 / 5) / 5]),
        (1.0, [1, 0, -1], [0, 0, 0]),
        (INF, [0, 0, -1], [0, 0, 0]),
        (-INF, [0, 0, 0], [0, 0, 0]),
        (0.0, [0, 0, 0], [0, 0, 0]),
        (3.0, [9 / 91 ** (2 / 3), 0, -16 / 91 ** (2 / 3)], None),
        (
            1.5,
            [3**0.5 / 13.196152422706632 ** (1 / 3), 0, -2 / 13.196152422706632 ** (1 / 3)],
            None,
        ),
    ],
)
def test_norms_beside_a_zero(order: float, gradient: Any, product: Any) -> None:
    with np.errstate(all="raise"):
        got, along = derivatives("linalg.vector_norm", np.array([3.0, 0.0, -4.0]), ord=order)
    np.testing.assert_allclose(got, gradient, 1e-14)
    assert np.isfinite(along).all()
    if product is not None:
        np.testing.assert_allclose(along, product, 1e-14, 1e-16)


def test_a_norm_of_many_orders_of_magnitude() -> None:
    with np.errstate(all="raise", under="ignore"):
        gradient, product = derivatives("linalg.vector_norm", np.array([1e100, 1.0]), ord=3.0)
    np.testing.assert_allclose(gradient, [1, 0], atol=1e-30)
    assert np.isfinite(product).all()


def test_greatest_absolute_values_share_evenly() -> None:
    gradient, product = derivatives("linalg.vector_norm", np.array([2.0, -2.0, 1.0]), ord=INF)
    np.testing.assert_array_equal(gradient, [0.5, -0.5, 0])
    np.testing.assert_array_equal(product, [0, 0, 0])
    z = np.array([3 + 4j, 1j])
    gradient, product = derivatives("linalg.vector_norm", z, [1, 0], ord=INF)
    np.testing.assert_allclose(gradient, [0.6 + 0.8j, 0], 1e-15)
    np.testing.assert_allclose(product, [(1 - 0.6 * (0.6 + 0.8j)) / 5, 0], 1e-14, 1e-16)


def test_sorting_carries_derivatives_along() -> None:
    x, w = np.array([2.0, 0.0, 2.0, 1.0]), np.array([1.0, 2.0, 3.0, 4.0])
    gradient, product = derivatives("sort", x, weights=w)
    np.testing.assert_array_equal(gradient, [3, 1, 4, 2])  # equals in the order in which they stand
    np.testing.assert_array_equal(product, np.zeros(4))


def test_a_long_cumulative_prod_takes_linear_time_and_stays_exact() -> None:
    x = np.ones(100_000)
    gradient, product = derivatives("cumulative_prod", x)
    np.testing.assert_array_equal(gradient, np.arange(100_000, 0, -1))
    places = np.arange(100_000.0)  # the i-th product has i other factors than any one of its own
    np.testing.assert_allclose(product, np.cumsum(places[::-1])[::-1], 1e-12)
