"""The adapter for JAX, in JAX's own check and against JAX's own derivatives."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.testing import assert_allclose
from tests.adapters.counting import counted

import backhaul as bh

jax: Any = pytest.importorskip("jax", reason="JAX is not installed: make adapters-test")
jnp: Any = importlib.import_module("jax.numpy")
check_grads: Any = importlib.import_module("jax.test_util").check_grads


@pytest.fixture(autouse=True)
def double_precision() -> Iterator[None]:
    before = jax.config.jax_enable_x64
    jax.config.update("jax_enable_x64", True)
    yield
    jax.config.update("jax_enable_x64", before)


def _elements(xp: Any) -> Callable[..., Any]:
    """A function of many numbers with many, mixed second derivatives."""
    return lambda x, y: xp.exp(x) * y * x + x[::-1] * y**2


def _number(xp: Any) -> Callable[..., Any]:
    elements = _elements(xp)
    return lambda x, y: xp.sum(elements(x, y) * xp.sin(x))


def _complex(xp: Any) -> Callable[..., Any]:
    """Not holomorphic."""
    return lambda z, w: xp.exp(z) * xp.conj(w) * z + xp.conj(z) * z


def _real_of_complex(xp: Any) -> Callable[..., Any]:
    elements = _complex(xp)
    return lambda z, w: xp.sum(xp.real(elements(z, w) * w))


_X, _Y = np.array([0.3, 0.5, -0.7]), np.array([0.1, 0.2, 1.3])
_Z, _W = np.array([0.3 + 0.2j, 0.5 - 1.0j]), np.array([1.0 - 0.3j, 0.2 + 0.1j])

_FUNCTIONS: list[Any] = [
    pytest.param(_number, (_X, _Y), id="number"),
    pytest.param(_elements, (_X, _Y), id="elements"),
    pytest.param(_real_of_complex, (_Z, _W), id="real of complex"),
    pytest.param(_complex, (_Z, _W), id="complex"),
]


def _agree(found: Any, expected: Any) -> None:
    for one, other in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(("make", "at"), _FUNCTIONS)
def test_check_grads_to_the_second_order(
    connection: bh.Connection, make: Any, at: Any, compiled: bool
) -> None:
    f = bh.adapters.jax.wrap(make(bh), connection=connection)
    at = tuple(map(jnp.asarray, at))
    _agree(f(*at), make(jnp)(*at))
    check_grads(jax.jit(f) if compiled else f, at, order=2, modes=["fwd", "rev"])


_TRANSFORMATIONS: list[Any] = [
    pytest.param(lambda f: jax.grad(f, (0, 1)), id="grad"),
    pytest.param(lambda f: jax.value_and_grad(f), id="value_and_grad"),
    pytest.param(lambda f: jax.hessian(f, (0, 1)), id="hessian"),
    pytest.param(lambda f: jax.jacrev(jax.jacrev(f)), id="jacrev of jacrev"),
    pytest.param(lambda f: jax.jacrev(jax.jacfwd(f)), id="jacrev of jacfwd"),
    pytest.param(lambda f: jax.jacfwd(jax.jacfwd(f)), id="jacfwd of jacfwd"),
]


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize("transformation", _TRANSFORMATIONS)
def test_transformations_of_a_number(
    connection: bh.Connection, transformation: Any, compiled: bool
) -> None:
    f = transformation(bh.adapters.jax.wrap(_number(bh), connection=connection))
    at = jnp.asarray(_X), jnp.asarray(_Y)
    _agree((jax.jit(f) if compiled else f)(*at), transformation(_number(jnp))(*at))


@pytest.mark.parametrize("compiled", [False, True], ids=["eager", "jit"])
@pytest.mark.parametrize(
    "transformation",
    [
        pytest.param(lambda f: jax.jacrev(f, (0, 1)), id="jacrev"),
        pytest.param(lambda f: jax.jacfwd(f, (0, 1)), id="jacfwd"),
        *_TRANSFORMATIONS[2:],
    ],
)
def test_transformations_of_many_numbers(
    connection: bh.Connection, transformation: Any, compiled: bool
) -> None:
    f = transformation(bh.adapters.jax.wrap(_elements(bh), connection=connection))
    at = jnp.asarray(_X), jnp.asarray(_Y)
    _agree((jax.jit(f) if compiled else f)(*at), transformation(_elements(jnp))(*at))


@pytest.mark.parametrize(
    ("make", "transformation"),
    [
        pytest.param(_number, lambda f: f, id="number"),
        pytest.param(_number, lambda f: jax.grad(f), id="grad of a number"),
        pytest.param(_number, lambda f: jax.hessian(f), id="hessian of a number"),
        pytest.param(_elements, lambda f: jax.jacrev(f), id="jacrev of elements"),
        pytest.param(_elements, lambda f: jax.jacfwd(jax.jacfwd(f)), id="D² of elements"),
    ],
)
def test_vmap(connection: bh.Connection, make: Any, transformation: Any) -> None:
    remote = transformation(bh.adapters.jax.wrap(make(bh), connection=connection))
    local = transformation(make(jnp))
    xs = jnp.asarray(np.random.default_rng(1).standard_normal((4, 3)))
    y = jnp.asarray(_Y)
    for axes, at in [((0, None), (xs, y)), ((None, 0), (y, xs)), ((1, 0), (xs.T, xs))]:
        _agree(jax.vmap(remote, axes)(*at), jax.vmap(local, axes)(*at))
    nested = [jax.jit(jax.vmap(jax.vmap(f, (0, None)), (None, 0))) for f in (remote, local)]
    _agree(nested[0](xs, xs), nested[1](xs, xs))


def test_complex_derivatives_are_jaxs_own(connection: bh.Connection) -> None:
    z, w = jnp.asarray(_Z), jnp.asarray(_W)
    remote = bh.adapters.jax.wrap(_real_of_complex(bh), connection=connection)
    local = _real_of_complex(jnp)
    gradient = jax.grad(remote)(z, w)
    _agree(gradient, jax.grad(local)(z, w))
    tape = bh.Tape(connection)
    leaf = tape.leaf(_Z)
    ours = tape.pullback(_real_of_complex(bh)(leaf, tape.constant(_W)))[leaf]
    assert_allclose(gradient, ours.conj())
    assert np.abs(ours.imag).min() > 0.1  # else the convention would not matter

    def along(f: Any) -> Any:
        return jax.jvp(jax.grad(f, (0, 1)), (z, w), (w, z))

    _agree(along(remote), along(local))
    elements = bh.adapters.jax.wrap(_complex(bh), connection=connection)
    ct = jnp.array([1.0 + 2.0j, 0.3 - 0.1j])
    _agree(jax.vjp(elements, z, w)[1](ct), jax.vjp(_complex(jnp), z, w)[1](ct))
    x = jnp.array([0.3, 0.5])

    def twice(f: Any) -> Any:
        return jax.jacfwd(jax.jacfwd(lambda x: f(x + 0j, w)))(x)

    _agree(twice(elements), twice(_complex(jnp)))


def test_round_trips(connection: bh.Connection) -> None:
    number = bh.adapters.jax.wrap(_number(bh), connection=connection)
    elements = bh.adapters.jax.wrap(_elements(bh), connection=connection)
    x, y = jnp.asarray(_X), jnp.asarray(_Y)
    xs = jnp.stack([x, y, x])

    def hvp(x: Any) -> Any:
        return jax.jvp(lambda x: jax.grad(number)(x, y), (x,), (x,))[1]

    expected: list[tuple[Callable[..., Any], tuple[Any, ...], int]] = [
        (number, (x, y), 1),
        (jax.jit(number), (x, y), 1),
        (jax.value_and_grad(number, (0, 1)), (x, y), 1),
        (jax.jit(jax.value_and_grad(number, (0, 1))), (x, y), 1),
        (lambda x: jax.jvp(number, (x, y), (x, y)), (x,), 1),
        (hvp, (x,), 2),  # the gradient, of which JAX knows at the end alone that nobody wants it
        (jax.jit(hvp), (x,), 1),
        (jax.jit(jax.hessian(number)), (x, y), 1),
        (jax.vmap(jax.value_and_grad(number)), (xs, xs), 1),
        (jax.jit(jax.jacrev(elements)), (x, y), 1),
        (jax.jit(jax.jacfwd(elements)), (x, y), 1),
        (jax.jit(jax.grad(lambda x: jnp.sum(elements(x, y) ** 2))), (x,), 2),
    ]
    for position, (function, arguments, count) in enumerate(expected):
        jax.block_until_ready(function(*arguments))
        with counted(connection) as trips:
            jax.block_until_ready(function(*arguments))
        assert trips.count == count, position


def test_shapes_are_known_without_a_trip(connection: bh.Connection) -> None:
    f = bh.adapters.jax.wrap(_elements(bh), connection=connection)
    with counted(connection) as trips:
        shape = jax.eval_shape(jax.jacrev(f), _X, _Y)
    assert (trips.count, shape.shape) == (0, (3, 3))


def test_a_function_that_looks_at_values(connection: bh.Connection) -> None:
    def branch(x: Any) -> Any:
        return bh.sum(x * x) if float(x[0]) > 1.0 else -bh.sum(x)

    number = jax.ShapeDtypeStruct((), np.float64)
    f = bh.adapters.jax.wrap(branch, result=number, connection=connection)
    _agree(jax.grad(f)(jnp.array([2.0, 3.0])), np.array([4.0, 6.0]))
    _agree(jax.jit(jax.grad(f))(jnp.array([0.0, 3.0])), np.array([-1.0, -1.0]))


def test_pytrees_integers_and_single_precision(connection: bh.Connection) -> None:
    def loss(parameters: Any, i: Any, data: Any) -> Any:
        return bh.sum((parameters["w"] @ data + parameters["b"])[i] ** 2)

    f = bh.adapters.jax.wrap(loss, connection=connection)
    parameters = {
        "w": jnp.ones((2, 3), np.float32),
        "b": jnp.array([1.0, 2.0], np.float32),
    }
    data, i = jnp.arange(3, dtype=np.float32), jnp.array(1)
    value, gradients = jax.jit(jax.value_and_grad(f))(parameters, i, data)
    assert (value, value.dtype) == (25.0, np.float32)
    _agree(gradients, {"w": np.outer([0.0, 10.0], [0, 1, 2]), "b": np.array([0.0, 10.0])})
    assert gradients["w"].dtype == np.float32


def test_results_that_jax_has_no_64_bits_for(connection: bh.Connection) -> None:
    jax.config.update("jax_enable_x64", False)
    f = bh.adapters.jax.wrap(lambda x: x * np.ones(2), connection=connection)  # float64 on the tape
    x = jnp.ones(2)
    assert f(x).dtype == jax.jit(f)(x).dtype == np.float32
    _agree(jax.grad(lambda x: f(x).sum())(x), np.ones(2))
    check_grads(f, (x,), order=2, rtol=0.1)


def test_integer_results_have_no_derivative(connection: bh.Connection) -> None:
    f = bh.adapters.jax.wrap(lambda x: bh.argmax(x), connection=connection)
    x = jnp.array([1.0, 3.0, 2.0])
    assert f(x) == 1
    _agree(jax.grad(lambda x: x[f(x)] * 2.0)(x), np.array([0.0, 2.0, 0.0]))


def test_empty_batches(connection: bh.Connection) -> None:
    f = bh.adapters.jax.wrap(_number(bh), connection=connection)
    with counted(connection) as trips:
        found = jax.vmap(jax.grad(f))(jnp.zeros((0, 3)), jnp.zeros((0, 3)))
    assert (found.shape, trips.count) == ((0, 3), 0)


def test_errors_are_ours_where_jax_lets_them_through(connection: bh.Connection) -> None:
    f = bh.adapters.jax.wrap(lambda x: bh.sum(bh.linalg.inv(x)), connection=connection)
    with pytest.raises(bh.LinearAlgebraError, match="test_jax"):
        jax.grad(f)(jnp.zeros((2, 2)))
    with pytest.raises(jax.errors.JaxRuntimeError, match=r"LinearAlgebraError.*SINGULAR_MATRIX"):
        jax.block_until_ready(jax.jit(f)(jnp.zeros((2, 2))))
    with pytest.raises(bh.InvalidArgument) as found:  # at the trace, where shapes are known
        jax.jit(bh.adapters.jax.wrap(lambda x: x @ x, connection=connection))(jnp.ones((2, 3)))
    assert found.value.reason == "SHAPE_MISMATCH"


def test_a_third_derivative_is_refused(connection: bh.Connection) -> None:
    f = bh.adapters.jax.wrap(_number(bh), connection=connection)
    with pytest.raises(bh.HvpNotSupported, match="third derivative"):
        jax.grad(lambda x: jnp.sum(jax.hessian(f)(x, _Y)))(jnp.asarray(_X))


def test_compiled_programs_of_many_threads(connection: bh.Connection) -> None:
    f = jax.jit(jax.grad(bh.adapters.jax.wrap(_number(bh), connection=connection)))
    local = jax.grad(_number(jnp))
    y = jnp.asarray(_Y)
    f(y, y)
    found: dict[int, Any] = {}

    def work(i: int) -> None:
        for _ in range(5):
            found[i] = f(y * i, y)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(6)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for i in range(6):
        _agree(found[i], local(y * i, y))


def test_large_arrays_in_a_compiled_program(connection: bh.Connection) -> None:
    f = bh.adapters.jax.wrap(lambda x: bh.sum(x * x), connection=connection)
    x = jnp.asarray(np.random.default_rng(2).standard_normal((600, 500)))
    _agree(jax.jit(jax.grad(f))(x), 2 * x)


def test_training_in_jax(connection: bh.Connection) -> None:
    rng = np.random.default_rng(3)
    data = rng.standard_normal((50, 3))
    wanted = data @ np.array([1.0, -2.0, 0.5])
    loss = bh.adapters.jax.wrap(lambda w: bh.mean((data @ w - wanted) ** 2), connection=connection)

    def train(w: Any) -> Any:
        return jax.lax.fori_loop(0, 100, lambda _, w: w - 0.2 * jax.grad(loss)(w), w)

    assert_allclose(jax.jit(train)(jnp.zeros(3)), [1.0, -2.0, 0.5], atol=1e-5)
