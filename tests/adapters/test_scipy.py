"""The adapter for SciPy, in SciPy's own check and its own optimisers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from scipy.optimize import check_grad, minimize, rosen, rosen_der, rosen_hess_prod
from tests.adapters.counting import counted

import backhaul as bh
from backhaul.adapters.scipy import objective


def _rosenbrock(x: Any) -> Any:
    return bh.sum(100.0 * (x[1:] - x[:-1] ** 2) ** 2 + (1.0 - x[:-1]) ** 2)


def test_the_gradient_passes_scipys_check(connection: bh.Connection) -> None:
    at = objective(_rosenbrock, connection=connection)
    x = np.random.default_rng(1).standard_normal(6)
    assert check_grad(at.fun, at.jac, x) < 1e-4
    assert_allclose(at.fun(x), rosen(x))
    assert_allclose(at.jac(x), rosen_der(x))
    p = np.arange(6.0)
    assert_allclose(at.hessp(x, p), rosen_hess_prod(x, p))
    assert_allclose(at.hess(x) @ p, rosen_hess_prod(x, p))
    # Each column of the Hessian, by the same check of the gradient's elements.
    for i in range(6):

        def element(x: Any, i: int = i) -> float:
            return float(at.jac(x)[i])

        def row(x: Any, i: int = i) -> Any:
            return at.hess(x)[i]

        assert check_grad(element, row, x) < 1e-3


@pytest.mark.parametrize("method", ["trust-ncg", "trust-krylov", "Newton-CG", "trust-constr"])
def test_optimisers_that_take_products(connection: bh.Connection, method: Any) -> None:
    at = objective(_rosenbrock, connection=connection)
    start = np.array([1.3, 0.7, 0.8, 1.9])
    found = minimize(at.fun, start, jac=at.jac, hessp=at.hessp, method=method)
    assert found.success
    assert_allclose(found.x, np.ones(4), rtol=1e-3)


@pytest.mark.parametrize("method", ["L-BFGS-B", "BFGS", "CG", "SLSQP"])
def test_optimisers_that_take_gradients(connection: bh.Connection, method: Any) -> None:
    at = objective(_rosenbrock, connection=connection)
    found = minimize(at.fun, np.full(4, 1.2), jac=at.jac, method=method)
    assert_allclose(found.x, np.ones(4), rtol=1e-2)


def test_an_evaluation_is_one_round_trip(connection: bh.Connection) -> None:
    at = objective(_rosenbrock, connection=connection)
    points = np.random.default_rng(2).standard_normal((5, 4))
    at.fun(np.zeros(4))
    for x in points:
        with counted(connection) as trips:
            assert_allclose(at.fun(x), rosen(x))
            assert_allclose(at.jac(x), rosen_der(x))
            assert_allclose(at.fun_and_jac(x)[1], rosen_der(x))
        assert trips.count == 1
        with counted(connection) as trips:
            assert_allclose(at.hessp(x, x), rosen_hess_prod(x, x))
        assert trips.count == 1
        with counted(connection) as trips:
            at.hess(x)
        assert trips.count == 1
    with counted(connection) as trips:  # H·v first: it brings value and gradient
        at.hessp(points[0], points[1])
        at.jac(points[0])
    assert trips.count == 1


def test_a_whole_optimisation_makes_no_other_trips(connection: bh.Connection) -> None:
    at = objective(_rosenbrock, connection=connection)
    products: list[Any] = []

    def hessp(x: Any, p: Any) -> Any:
        products.append(p)
        return at.hessp(x, p)

    at.fun(np.zeros(4))
    points: set[bytes] = set()

    def fun(x: Any) -> float:
        points.add(x.tobytes())
        return at.fun(x)

    with counted(connection) as trips:
        found = minimize(fun, np.full(4, 1.3), jac=at.jac, hessp=hessp, method="trust-ncg")
    assert found.success
    # A trial point that is not taken is left, and asked again at the old one: trust-ncg keeps those itself.
    assert trips.count == len(points) + len(products)


def test_a_vector_that_is_changed_in_place_is_another_point(connection: bh.Connection) -> None:
    at = objective(_rosenbrock, connection=connection)
    x = np.zeros(3)
    first = at.fun(x)
    x += 1.0
    assert first == 2.0
    assert at.fun(x) == 0.0
    gradient = at.jac(x)
    gradient += 5.0
    assert_allclose(at.jac(x), np.zeros(3))


def test_several_arguments_are_parts_of_the_vector(connection: bh.Connection) -> None:
    rng = np.random.default_rng(3)
    data, wanted = rng.standard_normal((20, 3)), rng.standard_normal(20)

    def loss(w: Any, b: Any) -> Any:
        return bh.mean((data @ w + b - wanted) ** 2)

    at = objective(loss, [np.zeros(3), ()], connection=connection)
    x = at.pack(rng.standard_normal(3), 0.3)
    assert x.shape == (4,)
    w, b = at.unpack(x)
    assert (w.shape, b.shape) == ((3,), ())
    assert check_grad(at.fun, at.jac, x) < 1e-6
    found = minimize(at.fun, x, jac=at.jac, hessp=at.hessp, method="Newton-CG", tol=1e-10)
    solution = np.linalg.lstsq(np.column_stack([data, np.ones(20)]), wanted)[0]
    assert_allclose(found.x, solution, rtol=1e-5)


def test_shapes_that_do_not_fit_are_refused() -> None:
    at = objective(lambda a, b: bh.sum(a) + bh.sum(b), [(2, 2), (3,)])
    with pytest.raises(bh.InvalidArgument, match="a vector of 7 elements") as found:
        at.fun(np.zeros(6))
    assert found.value.reason == "SHAPE_MISMATCH"
    with pytest.raises(bh.InvalidArgument, match="arguments of shapes"):
        at.pack(np.zeros(2), np.zeros(3))


def test_what_is_no_number_is_refused(connection: bh.Connection) -> None:
    with pytest.raises(bh.NonScalarLoss):
        objective(lambda x: x * 2.0, connection=connection).fun(np.zeros(3))


def test_infinite_values_are_values(connection: bh.Connection) -> None:
    at = objective(lambda x: -bh.sum(bh.log(x)), connection=connection)
    assert at.fun(np.zeros(2)) == np.inf
    found = minimize(
        objective(lambda x: bh.sum(x - bh.log(x)), connection=connection).fun,
        np.full(2, 0.2),
        method="Nelder-Mead",
    )
    assert_allclose(found.x, [1.0, 1.0], rtol=1e-3)
