"""What is refused, with which error, and that the next call is none the worse for it."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both
from tests.functional.functions import A, X, bowl

import backhaul as bh

V = np.ones(3)


def refused(
    kind: type[bh.BackhaulError], reason: str, match: str, call: Callable[[], Any]
) -> bh.BackhaulError:
    with pytest.raises(kind, match=match) as error:
        call()
    assert error.value.reason == reason
    return error.value


@pytest.fixture(autouse=True)
def _goes_on(connection: bh.Connection) -> Any:
    yield
    before = connection.calls["Execute"]
    np.testing.assert_array_equal(bh.grad(bh.sum, connection=connection)(X), V)
    assert connection.calls["Execute"] == before + 1


def test_a_loss_is_one_real_number(connection: bh.Connection) -> None:
    for take in (bh.grad, bh.value_and_grad, bh.hessian):

        def of(f: Any, x: Any = X, take: Any = take) -> Callable[[], Any]:
            return lambda: take(f, connection=connection)(x)

        error = refused(bh.NonScalarLoss, "NON_SCALAR_LOSS", r"\(3,\)", of(lambda x: x * 2.0))
        assert error.details["actual"] == "(3,)"
        refused(bh.NonScalarLoss, "NON_SCALAR_LOSS", "has_aux", of(lambda x: (bh.sum(x), x)))
        refused(bh.InvalidArgument, "COMPLEX_LOSS", "complex128", of(lambda x: bh.sum(x) * 1j))
        refused(bh.MissingNode, "MISSING_NODE", "float()", of(lambda x: 3.0))
        refused(bh.MissingNode, "MISSING_NODE", "does not depend", of(lambda x: x.detach()[0]))
        refused(bh.MissingNode, "MISSING_NODE", "NoneType", of(lambda x: None))
    one = bh.grad(lambda x: x[:1], connection=connection)(X)  # of one element, though no scalar
    np.testing.assert_array_equal(one, [1.0, 0.0, 0.0])


def test_outputs_depend_on_the_arguments(connection: bh.Connection) -> None:
    def jacobian(f: Any) -> Callable[[], Any]:
        return lambda: bh.jacobian(f, connection=connection)(X)

    refused(
        bh.MissingNode, "MISSING_NODE", r"result\['a'\], a float", jacobian(lambda x: {"a": 1.0})
    )
    refused(bh.MissingNode, "MISSING_NODE", "does not depend", jacobian(lambda x: x.detach()))
    refused(bh.InvalidArgument, "DTYPE_NOT_SUPPORTED", "bool", jacobian(lambda x: (x, x > 0)))
    constant, moving = bh.jacobian(lambda x: (x.detach(), x), connection=connection)(X)
    np.testing.assert_array_equal(constant, np.zeros((3, 3)))
    np.testing.assert_array_equal(moving, np.eye(3))
    refused(
        bh.MissingNode,
        "MISSING_NODE",
        "does not depend",
        lambda: bh.gauss_newton_product(
            lambda x: x.detach(), bh.sum, (X,), (V,), connection=connection
        ),
    )
    refused(
        bh.NonScalarLoss,
        "NON_SCALAR_LOSS",
        "the loss has shape",
        lambda: bh.gauss_newton_product(
            lambda x: x, lambda y: y, (X,), (V,), connection=connection
        ),
    )


def test_leaves_that_have_no_gradient(connection: bh.Connection) -> None:
    def gradient(x: Any) -> Callable[[], Any]:
        return lambda: bh.grad(lambda x: bh.sum(x["a"]), connection=connection)({"a": x})

    for value in (np.arange(3), np.array([True]), np.ones(2, "float16"), np.array(["a"])):
        refused(bh.InvalidArgument, "DTYPE_NOT_SUPPORTED", r"argument 0\['a'\]", gradient(value))
    refused(bh.InvalidArgument, "DTYPE_NOT_SUPPORTED", r"argument 0\['a'\]", gradient("text"))
    refused(bh.InvalidArgument, "DTYPE_NOT_SUPPORTED", r"argument 0\['a'\]", gradient(object()))
    refused(bh.InvalidArgument, "INVALID_VALUE", "no array", gradient(None))
    assert bh.grad(lambda x: x * x, connection=connection)(3) == 6.0  # a Python int is a float64


def test_argnums(connection: bh.Connection) -> None:
    def gradient(argnums: Any) -> Callable[[], Any]:
        return lambda: bh.grad(lambda x, y: bh.sum(x * y), argnums, connection=connection)(X, V)

    refused(
        bh.InvalidArgument, "INVALID_VALUE", "2 positional arguments.*no argument 2", gradient(2)
    )
    refused(bh.InvalidArgument, "INVALID_VALUE", "no argument -3", gradient(-3))
    refused(bh.InvalidArgument, "INVALID_VALUE", "each argument", gradient((0, 0)))
    refused(bh.InvalidArgument, "INVALID_VALUE", "twice", gradient((0, -2)))
    for wrong in (1.0, "x", None, True, (0, True)):
        refused(bh.InvalidArgument, "INVALID_VALUE", "position", gradient(wrong))


def test_tangents_and_cotangents(connection: bh.Connection) -> None:
    p = {"a": X, "b": 2.0}

    def f(p: Any) -> Any:
        return bh.sum(p["a"] * p["a"]) * p["b"]

    def along(tangents: Any) -> Callable[[], Any]:
        return lambda: bh.hvp(f, (p,), tangents, connection=connection)

    refused(
        bh.TangentShapeMismatch,
        "TANGENT_SHAPE_MISMATCH",
        r"argument 0\['a'\]",
        along(({"a": np.ones(2), "b": 1.0},)),
    )
    refused(
        bh.InvalidArgument,
        "TANGENT_DTYPE_MISMATCH",
        r"argument 0\['a'\].*float32",
        along(({"a": np.ones(3, "float32"), "b": 1.0},)),
    )
    refused(bh.InvalidArgument, "TREE_MISMATCH", r"tangents\[0\]", along(({"a": V},)))
    refused(bh.InvalidArgument, "TREE_MISMATCH", "dict.*list", along(([V, 1.0],)))
    refused(bh.InvalidArgument, "TREE_MISMATCH", "2 for 1 argument", along((p, p)))
    refused(bh.InvalidArgument, "INVALID_VALUE", "a tuple with", along(V))
    refused(bh.InvalidArgument, "INVALID_VALUE", "a tuple with", along([V]))
    refused(bh.InvalidArgument, "HVP_WITHOUT_TANGENT", "empty", along([]))
    bare: Any = X
    for product in (bh.hvp, bh.jvp):
        of = partial(product, bowl, bare, (V,), connection=connection)
        refused(bh.InvalidArgument, "INVALID_VALUE", "primals is a tuple", of)
    _, pull = bh.vjp(lambda x: (x, bh.sum(x)), X, connection=connection)
    refused(
        bh.InvalidArgument, "COTANGENT_MISMATCH", r"cotangent\[0\]", lambda: pull((np.ones(2), 1.0))
    )
    refused(bh.InvalidArgument, "COTANGENT_MISMATCH", r"cotangent\[1\]", lambda: pull((V, 1j)))
    refused(bh.InvalidArgument, "TREE_MISMATCH", "tuple of 2", lambda: pull((V,)))
    refused(bh.InvalidArgument, "TREE_MISMATCH", "ndarray", lambda: pull(V))
    np.testing.assert_array_equal(pull((V, 1))[0], 2 * V)


def test_complex_arguments(connection: bh.Connection) -> None:
    z = X + 1j

    def loss(z: Any) -> Any:
        return bh.sum(bh.abs(z))

    def at(of: Any, x: Any) -> Callable[[], Any]:
        return lambda: of(x)

    hessian = bh.hessian(loss, connection=connection)
    refused(bh.InvalidArgument, "NOT_HOLOMORPHIC", "hessian.*bh.hvp", at(hessian, z))
    jacobian = bh.jacobian(lambda z: z * z, connection=connection)
    refused(bh.InvalidArgument, "NOT_HOLOMORPHIC", "holomorphic=True", at(jacobian, z))
    holomorphic = bh.jacobian(lambda z: z * z, holomorphic=True, connection=connection)
    refused(bh.InvalidArgument, "NOT_HOLOMORPHIC", "real", at(holomorphic, X))
    real = bh.jacobian(bh.real, holomorphic=True, connection=connection)
    refused(bh.InvalidArgument, "NOT_HOLOMORPHIC", "all results", at(real, z))
    refused(bh.InvalidArgument, "INVALID_VALUE", "mode", lambda: bh.jacobian(bowl, mode="backward"))


def test_one_within_another(connection: bh.Connection) -> None:
    inner = bh.grad(bowl, connection=connection)
    outer = bh.grad(lambda x: bh.sum(inner(x) ** 2), connection=connection)
    refused(bh.InvalidArgument, "NESTED_TRANSFORM", "bh.hvp", lambda: outer(X))
    through = bh.jacobian(inner, connection=connection)
    refused(bh.InvalidArgument, "NESTED_TRANSFORM", "bh.hessian", lambda: through(X))
    x = bh.Tape(connection).leaf(X)
    refused(bh.InvalidArgument, "NESTED_TRANSFORM", "tensor.numpy()", lambda: inner(x))
    kept = bh.grad(bh.jit(lambda x, y: bh.sum(x * y)), connection=connection)
    refused(bh.InvalidArgument, "NESTED_TRANSFORM", "jit|grad", lambda: kept(X, x))
    # On arrays it is a constant of the other one.
    fixed = bh.grad(lambda x: bh.sum(inner(X) * x), connection=connection)
    np.testing.assert_array_equal(fixed(X), inner(X))


def test_what_is_no_function_or_connection(connection: bh.Connection) -> None:
    takes: Any
    for takes in (bh.grad, bh.value_and_grad, bh.hessian, bh.jacobian, bh.jit, bh.vjp):
        refused(bh.InvalidArgument, "INVALID_VALUE", "no function", partial(takes, 3))
    refused(
        bh.InvalidArgument,
        "INVALID_VALUE",
        "connection=",
        lambda: bh.grad(bowl, connection="localhost:1")(X),  # type: ignore[arg-type]
    )
    refused(
        bh.InvalidArgument,
        "INVALID_VALUE",
        "a pair",
        lambda: bh.grad(bowl, has_aux=True, connection=connection)(X),
    )
    refused(
        bh.InvalidArgument,
        "INVALID_VALUE",
        "hold itself",
        lambda: bh.grad(bowl, connection=connection)(endless()),
    )


def endless() -> list[Any]:
    found: list[Any] = []
    found.append(found)
    return found


def test_an_error_of_the_function_itself_passes(connection: bh.Connection) -> None:
    def f(x: Any) -> Any:
        bh.sum(x * x)
        raise KeyError("mine")

    for of in (f, bh.jit(f)):
        with pytest.raises(KeyError, match="mine"):
            bh.grad(of, connection=connection)(X)


def test_an_error_of_an_op_is_raised_at_the_users_line(connection: bh.Connection) -> None:
    def f(x: Any) -> Any:
        return A @ x[:2]

    with pytest.raises(bh.InvalidArgument) as error:
        bh.jacobian(f, connection=connection)(X)
    lines = [each.lineno for each in error.traceback if str(each.path) == __file__]
    assert lines[-1] == f.__code__.co_firstlineno  # counted from 0

    def singular(x: Any) -> Any:
        return bh.sum(bh.linalg.inv(bh.diag(x * 0.0)))

    with pytest.raises(bh.LinearAlgebraError) as failed:
        bh.grad(singular, connection=connection)(X)
    line = singular.__code__.co_firstlineno + 1
    assert failed.value.details["source"] == f"{__file__}:{line}"


@both
async def test_the_client_of_each_kind_names_its_own_connections(client: Client) -> None:
    module, where = client.bh, client.connection
    wrong: Any = bh.connect("embedded") if module is not bh else bh.aio.connect("embedded")
    f = module.grad(bowl, connection=wrong)
    error = await client.error(bh.InvalidArgument, lambda: f(X))
    assert error.reason == "INVALID_VALUE"
    error = await client.error(
        bh.NonScalarLoss, lambda: module.grad(lambda x: x, connection=where)(X)
    )
    assert error.reason == "NON_SCALAR_LOSS"
