"""The adapter for PyTensor, in PyTensor's own check, and a model of PyMC's."""

from __future__ import annotations

import importlib
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.adapters.counting import counted

import backhaul as bh

pytensor: Any = pytest.importorskip(
    "pytensor", reason="PyTensor is not installed: make adapters-test"
)
pt: Any = importlib.import_module("pytensor.tensor")
verify_grad: Any = importlib.import_module("pytensor.gradient").verify_grad

_X, _Y = np.array([0.3, 0.5, -0.4]), np.array([0.1, 0.2, 1.3])


def _number(x: Any, y: Any) -> Any:
    return bh.sum(bh.exp(x) * y * x)


def _elements(x: Any, y: Any) -> Any:
    return bh.exp(x) * y + x[::-1] * y * x


@pytest.mark.parametrize("function", [_number, _elements])
def test_verify_grad_to_the_second_order(connection: bh.Connection, function: Any) -> None:
    f = bh.adapters.pytensor.wrap(function, connection=connection)
    verify_grad(f, [_X, _Y], rng=np.random.default_rng(1))

    def gradient(x: Any, y: Any) -> Any:
        return pytensor.grad((f(x, y) ** 2).sum(), x)

    verify_grad(gradient, [_X, _Y], rng=np.random.default_rng(2))


@pytest.mark.parametrize("own", [True, False], ids=["own", "by reverse mode twice"])
@pytest.mark.parametrize("function", [_number, _elements])
def test_forward_mode(connection: bh.Connection, function: Any, own: bool) -> None:
    f = bh.adapters.pytensor.wrap(function, connection=connection)
    x, v = pt.dvector("x", shape=(3,)), pt.dvector("v", shape=(3,))
    y = f(x, _Y)

    def along(y: Any) -> Any:
        return pytensor.gradient.Rop(y, x, v, use_op_rop_implementation=own)

    gradient = pytensor.grad((y**2).sum(), x)
    compute = pytensor.function([x, v], [along(y), gradient, along(gradient)])
    h, direction = 1e-6, np.array([1.0, -0.5, 0.3])
    of_y, _, of_gradient = compute(_X, direction)
    value = pytensor.function([x], [y, gradient])
    after, before = value(_X + h * direction), value(_X - h * direction)
    assert_allclose(of_y, (after[0] - before[0]) / (2 * h), rtol=1e-6)
    assert_allclose(of_gradient, (after[1] - before[1]) / (2 * h), rtol=1e-6, atol=1e-8)
    # Reverse over forward, which is the same number from the other side.
    crossed = pytensor.function([x, v], pytensor.grad(along((y**2).sum()), x))
    assert_allclose(crossed(_X, direction), of_gradient)


def test_round_trips(connection: bh.Connection) -> None:
    f = bh.adapters.pytensor.wrap(_number, connection=connection)
    x = pt.dvector("x", shape=(3,))
    y = f(x, _Y)
    (gradient,) = pytensor.grad(y, [x])
    alone = pytensor.function([x], y)
    both = pytensor.function([x], [y, gradient])
    for compute in (alone, both):
        compute(_X)
        with counted(connection) as trips:
            compute(_X)
        assert trips.count == 1
    assert_allclose(both(_X)[1], np.exp(_X) * _Y * (1 + _X))
    # Of the value alone no gradient is computed.
    names = [type(node.op).__name__ for node in alone.maker.fgraph.toposort()]
    assert names == ["_NumberAlone"]


def test_a_log_density_is_minus_infinity_where_it_is_rejected(connection: bh.Connection) -> None:
    def normal(x: Any, covariance: Any) -> Any:
        lower = bh.linalg.cholesky(covariance)
        z = bh.linalg.solve_triangular(lower, x, lower=True)
        return -0.5 * bh.sum(z * z) - bh.sum(bh.log(bh.diagonal(lower)))

    f = bh.adapters.pytensor.logp(normal, connection=connection)
    x, covariance = pt.dvector("x"), pt.dmatrix("covariance")
    y = f(x, covariance)
    compute = pytensor.function([x, covariance], [y, *pytensor.grad(y, [x, covariance])])
    value, of_x, _ = compute([1.0, 2.0], np.eye(2))
    assert value == -2.5
    assert_allclose(of_x, [-1.0, -2.0])
    value, of_x, of_covariance = compute([1.0, 2.0], -np.eye(2))
    assert value == -np.inf
    assert_allclose(of_x, np.zeros(2))
    assert_allclose(of_covariance, np.zeros((2, 2)))
    alone = pytensor.function([x, covariance], y)
    assert alone([1.0, 2.0], -np.eye(2)) == -np.inf
    strict = bh.adapters.pytensor.logp(normal, rejected=(), connection=connection)
    with pytest.raises(bh.LinearAlgebraError, match="test_pytensor"):
        pytensor.function([x, covariance], strict(x, covariance))([1.0, 2.0], -np.eye(2))
    log = bh.adapters.pytensor.logp(lambda x: bh.sum(bh.log(x)), connection=connection)
    assert pytensor.function([x], log(x))([0.0, 1.0]) == -np.inf


def test_integers_are_constants(connection: bh.Connection) -> None:
    f = bh.adapters.pytensor.wrap(lambda x, i: bh.sum(x[i] ** 2), connection=connection)
    x, i = pt.dvector("x", shape=(3,)), pt.lvector("i")
    y = f(x, pt.specify_shape(i, (2,)))
    found = pytensor.function([x, i], pytensor.grad(y, x))([1.0, 2.0, 3.0], [0, 2])
    assert_allclose(found, [2.0, 0.0, 6.0])
    counts = bh.adapters.pytensor.wrap(bh.argmax, connection=connection)
    assert pytensor.function([x], counts(x))([1.0, 5.0, 2.0]) == 1


def test_what_is_not_known_is_asked_for() -> None:
    f = bh.adapters.pytensor.wrap(lambda x: 2.0 * x)
    with pytest.raises(bh.InvalidArgument, match="result=pytensor") as found:
        f(pt.dvector("x"))
    assert found.value.reason == "INVALID_VALUE"
    with pytest.raises(bh.InvalidArgument, match="real numbers") as found:
        f(pt.zvector("z"))
    assert found.value.reason == "DTYPE_NOT_SUPPORTED"


def test_a_third_derivative_is_refused(connection: bh.Connection) -> None:
    f = bh.adapters.pytensor.wrap(_number, connection=connection)
    x = pt.dvector("x", shape=(3,))
    second = pytensor.grad(pytensor.grad(f(x, _Y), x).sum(), x)
    with pytest.raises(pytensor.gradient.NullTypeGradError, match="third derivative"):
        pytensor.grad(second.sum(), x)


def test_nuts_samples_a_posterior_of_the_server(connection: bh.Connection) -> None:
    pm: Any = pytest.importorskip("pymc", reason="PyMC is not installed: make adapters-test")
    rng = np.random.default_rng(4)
    data = 1.5 + 0.5 * rng.standard_normal(40)

    def log_likelihood(mean: Any, log_scale: Any) -> Any:
        z = (data - mean) * bh.exp(-log_scale)
        # Beyond a bound there is no likelihood: minus infinity, and the sampler goes elsewhere.
        inside = bh.where(mean < 100.0, 0.0, -np.inf)
        return -0.5 * bh.sum(z * z) - data.size * log_scale + inside

    with pm.Model():
        mean = pm.Normal("mean", 0.0, 10.0)
        log_scale = pm.Normal("log_scale", 0.0, 2.0)
        f = bh.adapters.pytensor.logp(log_likelihood, connection=connection)
        pm.Potential("likelihood", f(mean, log_scale))
        trace = pm.sample(
            draws=150,
            tune=150,
            chains=1,
            cores=1,
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    found = trace.posterior["mean"].values
    assert abs(found.mean() - data.mean()) < 0.1
    assert 0.03 < found.std() < 0.2  # about 0.5 / √40
    assert abs(np.exp(trace.posterior["log_scale"].values).mean() - data.std()) < 0.15
