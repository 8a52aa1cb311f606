"""`grad` and the others: values and round trips, with one body for both clients and transports."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both
from tests.functional.functions import RNG, A, X, Y, bowl, differences, mlp, mlp_arguments

V, U = RNG.normal(size=3), RNG.normal(size=3)


@both
async def test_value_and_gradient_agree_with_differences(client: Client) -> None:
    f = client.bh.value_and_grad(bowl, connection=client.connection)
    value, gradient = await client.ask(f(X))
    assert client.trips() == 1
    assert float(value) == pytest.approx(float(bowl(X)), rel=1e-14)
    np.testing.assert_allclose(gradient, differences(bowl, X), rtol=1e-7)
    np.testing.assert_array_equal(
        await client.ask(client.bh.grad(bowl, connection=client.connection)(X)), gradient
    )
    assert client.trips() == 2


@both
async def test_each_call_is_one_trip_and_one_session_serves_all(client: Client) -> None:
    f = client.bh.grad(bowl, connection=client.connection)
    for i in range(5):
        found = await client.ask(f(X + i))
        np.testing.assert_allclose(found, differences(bowl, X + i), rtol=1e-5)
    assert dict(client.connection.calls) == {"Execute": 5}
    *_, session = await client.ask(client.connection.sessions())
    assert session.info.last_seq == 5
    assert session.info.nodes < 60  # what earlier calls made is gone


@both
async def test_hessian_hvp_and_their_symmetry(client: Client) -> None:
    bh, where = client.bh, client.connection
    H = await client.ask(bh.hessian(bowl, connection=where)(X))
    assert client.trips() == 1
    gradient = bh.grad(bowl, connection=where)
    steps = np.eye(3) * 1e-5
    expected = [
        (await client.ask(gradient(X + e)) - await client.ask(gradient(X - e))) / 2e-5
        for e in steps
    ]
    np.testing.assert_allclose(H, expected, rtol=1e-6)
    np.testing.assert_allclose(H, H.T, rtol=1e-12)
    before = client.trips()
    found = await client.ask(bh.hvp(bowl, (X,), (V,), connection=where))
    assert client.trips() == before + 1
    np.testing.assert_allclose(found.product[0], H @ V, rtol=1e-12)
    np.testing.assert_array_equal(found.gradient[0], await client.ask(gradient(X)))
    assert float(found.value) == pytest.approx(float(bowl(X)), rel=1e-14)


@both
async def test_all_that_a_newton_step_needs_in_one_trip(client: Client) -> None:
    bh, where = client.bh, client.connection
    value, gradient, H = await client.ask(bh.value_grad_and_hessian(bowl, connection=where)(X))
    assert client.trips() == 1
    (same, aux), again, _ = await client.ask(
        bh.value_grad_and_hessian(lambda x: (bowl(x), x), has_aux=True, connection=where)(X)
    )
    assert value == same
    np.testing.assert_array_equal(gradient, again)
    np.testing.assert_array_equal(aux, X)
    expected, by_x = await client.ask(bh.value_and_grad(bowl, connection=where)(X))
    assert value == expected
    np.testing.assert_array_equal(gradient, by_x)
    np.testing.assert_array_equal(H, await client.ask(bh.hessian(bowl, connection=where)(X)))
    value, gradient, H = await client.ask(
        bh.value_grad_and_hessian(bh.sum, connection=where)(np.zeros((0, 2)))
    )
    assert (float(value), gradient.shape, H.shape) == (0.0, (0, 2), (0, 2, 0, 2))


@both
async def test_directions_in_a_list_are_answered_in_one_trip(client: Client) -> None:
    bh, where = client.bh, client.connection
    found = await client.ask(bh.hvp(bowl, (X,), [(V,), (U,)], connection=where))
    assert client.trips() == 1
    H = await client.ask(bh.hessian(bowl, connection=where)(X))
    np.testing.assert_allclose([each[0] for each in found.product], [H @ V, H @ U], rtol=1e-12)
    value, tangents = await client.ask(
        bh.jvp(lambda x: np.sin(A @ x), (X,), [(V,), (U,)], connection=where)
    )
    np.testing.assert_allclose(value, np.sin(A @ X), rtol=1e-14)
    J = np.cos(A @ X)[:, None] * A
    np.testing.assert_allclose(tangents, [J @ V, J @ U], rtol=1e-12)


@both
async def test_jvp_and_vjp_are_adjoint(client: Client) -> None:
    bh, where = client.bh, client.connection

    def f(x: Any, s: Any) -> dict[str, Any]:
        return {"sin": np.sin(A @ x) * s, "sum": bh.sum(x) + s * s}

    primals, tangents = (X, 0.7), (V, -1.3)
    value, along = await client.ask(bh.jvp(f, primals, tangents, connection=where))
    again, pull = await client.ask(bh.vjp(f, *primals, connection=where))
    assert client.trips() == 2
    np.testing.assert_array_equal(value["sin"], again["sin"])
    assert value["sum"] == again["sum"] == pytest.approx(X.sum() + 0.49)
    ct = {"sum": 2.5, "sin": RNG.normal(size=4)}  # keys in another order
    first, second = await client.ask(pull(ct))
    assert client.trips() == 3
    left = ct["sin"] @ along["sin"] + ct["sum"] * along["sum"]
    assert left == pytest.approx(first @ V + second * -1.3, rel=1e-12)
    twice = await client.ask(pull.several([ct, {"sin": np.zeros(4), "sum": 1}]))
    assert client.trips() == 4
    np.testing.assert_array_equal(twice[0][0], first)
    np.testing.assert_array_equal(twice[1][0], np.ones(3))
    assert twice[1][1] == 1.4
    assert await client.ask(pull.several([])) == []


@both
async def test_a_gauss_newton_product(client: Client) -> None:
    bh, where = client.bh, client.connection

    def outputs(w: Any) -> tuple[Any, Any]:
        return np.sin(A @ w), bh.sum(w * w)

    def loss(out: Any) -> Any:
        return bh.sum(np.exp(out[0] - Y)) * out[1]

    found = await client.ask(
        bh.gauss_newton_product(outputs, loss, (X,), [(V,), (U,)], connection=where)
    )
    assert client.trips() == 1
    # J of the five outputs, and H of the loss by them.
    J = np.vstack([np.cos(A @ X)[:, None] * A, 2 * X])
    e, s = np.exp(np.sin(A @ X) - Y), X @ X
    H = np.block([[np.diag(e * s), e[:, None]], [e[None, :], np.zeros((1, 1))]])
    np.testing.assert_allclose(found.product[0][0], J.T @ (H @ (J @ V)), rtol=1e-11)
    np.testing.assert_allclose(found.product[1][0], J.T @ (H @ (J @ U)), rtol=1e-11)
    np.testing.assert_allclose(found.gradient[0], J.T @ np.append(e * s, e.sum()), rtol=1e-11)
    assert float(found.value) == pytest.approx(e.sum() * s)


@both
async def test_jacobians_by_both_modes(client: Client) -> None:
    bh, where = client.bh, client.connection

    def f(x: Any) -> Any:
        return np.sin(A @ x)

    expected = np.cos(A @ X)[:, None] * A
    for mode in ("forward", "reverse", "auto"):
        found = await client.ask(bh.jacobian(f, mode=mode, connection=where)(X))
        np.testing.assert_allclose(found, expected, rtol=1e-13)
    assert client.trips() == 3
    wide = await client.ask(bh.jacobian(bh.sum, connection=where)(np.ones((2, 2))))
    np.testing.assert_array_equal(wide, np.ones((2, 2)))


@both
async def test_parameters_in_containers(client: Client) -> None:
    bh, where = client.bh, client.connection
    params, x, y = mlp_arguments()
    value, found = await client.ask(bh.value_and_grad(mlp, connection=where)(params, x, y))
    assert client.trips() == 1

    def at(w: Any) -> Any:
        return np.mean((np.tanh(x @ w + params["first"]["b"]) @ params["last"][0] + 0.3 - y) ** 2)

    assert float(value) == pytest.approx(at(params["first"]["w"]), rel=1e-13)
    by_w = differences(at, params["first"]["w"]).reshape(2, 4)
    np.testing.assert_allclose(found["first"]["w"], by_w, rtol=1e-6)
    assert found["last"][0].shape == (4,)
    assert isinstance(found["last"], tuple)
    assert found["last"][1].shape == ()


@both
async def test_argnums(client: Client) -> None:
    bh, where = client.bh, client.connection

    def f(a: Any, b: Any, *, power: int = 2) -> Any:
        return bh.sum(a**power * b)

    a, b = np.array([1.0, 2.0]), np.array([3.0, 5.0])
    second = await client.ask(bh.grad(f, 1, connection=where)(a, b))
    np.testing.assert_array_equal(second, a**2)
    last = await client.ask(bh.grad(f, -1, connection=where)(a, b, power=3))
    np.testing.assert_array_equal(last, a**3)
    both_ = await client.ask(bh.grad(f, argnums=(1, 0), connection=where)(a, b))
    assert isinstance(both_, tuple)
    np.testing.assert_array_equal(both_[0], a**2)
    np.testing.assert_array_equal(both_[1], 2 * a * b)
    H = await client.ask(bh.hessian(f, (0, 1), connection=where)(a, b))
    np.testing.assert_array_equal(H[0][0], np.diag(2 * b))
    np.testing.assert_array_equal(H[0][1], np.diag(2 * a))
    np.testing.assert_array_equal(H[1][1], np.zeros((2, 2)))


@both
async def test_auxiliary_data_come_in_the_same_trip(client: Client) -> None:
    bh, where = client.bh, client.connection

    def f(x: Any) -> Any:
        y = np.sin(x)
        return bh.sum(y), {"y": y, "again": [y, y > 0], "note": "text", "none": None}

    gradient, aux = await client.ask(bh.grad(f, has_aux=True, connection=where)(X))
    (value, _), same = await client.ask(bh.value_and_grad(f, has_aux=True, connection=where)(X))
    assert client.trips() == 2
    np.testing.assert_allclose(gradient, np.cos(X))
    np.testing.assert_array_equal(gradient, same)
    np.testing.assert_allclose(aux["y"], np.sin(X))
    np.testing.assert_array_equal(aux["again"][0], aux["y"])
    assert aux["again"][0] is not aux["y"]
    np.testing.assert_array_equal(aux["again"][1], np.sin(X) > 0)
    assert (aux["note"], aux["none"]) == ("text", None)
    assert float(value) == pytest.approx(np.sin(X).sum())
    H, aux = await client.ask(bh.hessian(f, has_aux=True, connection=where)(X))
    np.testing.assert_allclose(H, np.diag(-np.sin(X)))
    np.testing.assert_allclose(aux["y"], np.sin(X))
    found, aux = await client.ask(bh.hvp(f, (X,), (V,), has_aux=True, connection=where))
    np.testing.assert_allclose(found.product[0], -np.sin(X) * V)
    J, aux = await client.ask(
        bh.jacobian(lambda x: (x * x, "kept"), has_aux=True, connection=where)(X)
    )
    np.testing.assert_array_equal(J, np.diag(2 * X))
    assert aux == "kept"
    value, tangent, aux = await client.ask(
        bh.jvp(lambda x: (x * x, x), (X,), (V,), has_aux=True, connection=where)
    )
    np.testing.assert_array_equal(tangent, 2 * X * V)
    np.testing.assert_array_equal(aux, X)
    value, pull, aux = await client.ask(
        bh.vjp(lambda x: (x * x, x), X, has_aux=True, connection=where)
    )
    np.testing.assert_array_equal(aux, X)
    np.testing.assert_array_equal((await client.ask(pull(V)))[0], 2 * X * V)
    assert client.trips() == 8
    found, aux = await client.ask(
        bh.gauss_newton_product(
            lambda x: (x * x, x), bh.sum, (X,), (V,), has_aux=True, connection=where
        )
    )
    np.testing.assert_array_equal(aux, X)
    np.testing.assert_array_equal(found.product[0], np.zeros(3))


@both
async def test_complex_arguments(client: Client) -> None:
    bh, where = client.bh, client.connection
    z = np.array([1.0 + 2.0j, -0.5j])

    def f(z: Any) -> Any:
        return bh.sum(bh.real(z * bh.conj(z)) ** 2)

    gradient = await client.ask(bh.grad(f, connection=where)(z))
    np.testing.assert_allclose(gradient, 4 * np.abs(z) ** 2 * z)  # dL/dRe + i dL/dIm
    v = np.array([0.3 - 1j, 2.0 + 0j])
    h = 1e-6
    ahead, behind = [await client.ask(bh.grad(f, connection=where)(z + s * v)) for s in (h, -h)]
    found = await client.ask(bh.hvp(f, (z,), (v,), connection=where))
    np.testing.assert_allclose(found.product[0], (ahead - behind) / (2 * h), rtol=1e-7)
    holomorphic = bh.jacobian(lambda z: z * z * 1j, holomorphic=True, connection=where)
    np.testing.assert_allclose(await client.ask(holomorphic(z)), np.diag(2j * z))
    forward = bh.jacobian(lambda z: z * z * 1j, holomorphic=True, mode="forward", connection=where)
    np.testing.assert_allclose(await client.ask(forward(z)), np.diag(2j * z))
    x = np.array([0.2, 0.7])
    for mode in ("forward", "reverse"):
        circle = bh.jacobian(lambda x: (np.exp(1j * x), x), mode=mode, connection=where)
        turned, same = await client.ask(circle(x))
        np.testing.assert_allclose(turned, np.diag(1j * np.exp(1j * x)), atol=1e-15)
        np.testing.assert_array_equal(same, np.eye(2))
        assert (turned.dtype, same.dtype) == (np.dtype(complex), np.dtype(float))


@both
async def test_single_precision_stays(client: Client) -> None:
    bh, where = client.bh, client.connection
    x = np.array([1.0, 2.0], "float32")
    value, gradient = await client.ask(
        bh.value_and_grad(lambda x: bh.sum(x * x * 2.0), connection=where)(x)
    )
    assert (value.dtype, gradient.dtype) == (np.dtype("float32"), np.dtype("float32"))
    both_ = bh.jvp(
        lambda x, y: (x * 2.0, y * 2.0),
        (x, np.array([0.1])),
        (x, np.array([0.3])),
        connection=where,
    )
    (a, b), (da, db) = await client.ask(both_)
    assert (a.dtype, b.dtype) == (np.dtype("float32"), np.dtype("float64"))
    np.testing.assert_array_equal(da, x * 2)
    np.testing.assert_array_equal(db, [0.6])


@both
async def test_the_caller_owns_what_it_gets_and_keeps_what_it_gave(client: Client) -> None:
    bh, where = client.bh, client.connection
    x = np.array([1.0, 2.0])
    f = bh.value_and_grad(lambda x: (bh.sum(x), x), has_aux=True, connection=where)
    (value, aux), gradient = await client.ask(f(x))
    for each in (value, aux, gradient):
        each[...] = 7.0
    np.testing.assert_array_equal(x, [1.0, 2.0])
    (value, aux), gradient = await client.ask(f(x))
    assert float(value) == 3.0
    np.testing.assert_array_equal(gradient, [1.0, 1.0])


@both
async def test_empty_arguments(client: Client) -> None:
    bh, where = client.bh, client.connection
    nothing = np.zeros((0, 2))
    gradient = await client.ask(bh.grad(bh.sum, connection=where)(nothing))
    assert gradient.shape == (0, 2)
    H = await client.ask(bh.hessian(bh.sum, connection=where)(nothing))
    assert H.shape == (0, 2, 0, 2)
    J = await client.ask(bh.jacobian(lambda x: x * 2.0, connection=where)(nothing))
    assert J.shape == (0, 2, 0, 2)
    some = {"x": np.ones(2), "none": np.zeros(0)}
    H = await client.ask(
        bh.hessian(lambda p: bh.sum(p["x"] ** 3) + bh.sum(p["none"]), connection=where)(some)
    )
    np.testing.assert_array_equal(H["x"]["x"], 6 * np.eye(2))
    assert H["x"]["none"].shape == (2, 0)
    assert H["none"]["x"].shape == (0, 2)
