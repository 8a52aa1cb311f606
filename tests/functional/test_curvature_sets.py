"""`batched` of second derivatives: many sets in one round trip."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both
from tests.functional.functions import RNG, A, Y, bowl

import backhaul as bh

WALKERS = RNG.normal(size=(5, 3))
ALONG = RNG.normal(size=(5, 3))


@both
async def test_products_are_those_of_each_set_in_one_trip(client: Client) -> None:
    module, where = client.bh, client.connection
    for f in (bowl, module.jit(bowl)):
        many = module.batched(partial(module.hvp, f, connection=where))
        before = client.trips()
        found = await client.ask(many((WALKERS,), (ALONG,)))
        assert client.trips() == before + 1
        for i, (x, v) in enumerate(zip(WALKERS, ALONG, strict=True)):
            alone = await client.ask(module.hvp(bowl, (x,), (v,), connection=where))
            assert found.value[i] == alone.value
            np.testing.assert_array_equal(found.gradient[0][i], alone.gradient[0])
            np.testing.assert_array_equal(found.product[0][i], alone.product[0])


@both
async def test_gauss_newton_products_too(client: Client) -> None:
    module, where = client.bh, client.connection

    def out(w: Any) -> Any:
        return np.exp(A @ w * 0.3)

    def loss(o: Any) -> Any:
        return ((o - Y) ** 2).sum()

    many = module.batched(partial(module.gauss_newton_product, out, loss), connection=where)
    found = await client.ask(many((WALKERS,), (ALONG,)))
    for i, (w, v) in enumerate(zip(WALKERS, ALONG, strict=True)):
        jacobian = out(w)[:, None] * A * 0.3
        np.testing.assert_allclose(found.product[0][i], 2 * jacobian.T @ (jacobian @ v), rtol=1e-12)
        assert found.value[i] == pytest.approx(loss(out(w)))


@both
async def test_hessians_are_those_of_each_set_in_one_trip(client: Client) -> None:
    module, where = client.bh, client.connection

    def f(p: dict[str, Any], scale: Any) -> Any:
        return bowl(p["x"]) * scale + p["x"][0] * p["y"]

    p = {"x": WALKERS, "y": ALONG[:, 0]}
    hessian = module.hessian(f, connection=where)
    before = client.trips()
    found = await client.ask(module.batched(hessian, (0, None))(p, 2.0))
    assert client.trips() == before + 1
    whole = module.value_grad_and_hessian(f, connection=where)
    values, gradients, hessians = await client.ask(module.batched(whole, (0, None))(p, 2.0))
    for i in range(5):
        one = {key: each[i] for key, each in p.items()}
        value, gradient, alone = await client.ask(whole(one, 2.0))
        assert values[i] == value
        for a in ("x", "y"):
            np.testing.assert_array_equal(gradients[a][i], gradient[a])
            for b in ("x", "y"):
                np.testing.assert_array_equal(found[a][b][i], alone[a][b])
                np.testing.assert_array_equal(hessians[a][b][i], alone[a][b])


def test_several_directions_containers_and_auxiliary_data(connection: bh.Connection) -> None:
    def f(x: Any, shared: Any) -> Any:
        y = x * shared
        return bh.sum(y**3), {"y": y, "name": "cubes"}

    shared = np.array([1.0, 2.0, 3.0])
    along = [(ALONG, np.zeros(3)), (WALKERS, np.zeros(3))]
    many = bh.batched(partial(bh.hvp, f, has_aux=True), (0, 0), connection=connection)
    with pytest.raises(bh.InvalidArgument):  # `shared` has no sets, and its place says that it has
        many((WALKERS, shared), along)
    alike = [tuple(np.broadcast_to(v, (5, 3)) for v in each) for each in along]
    found, aux = many((WALKERS, np.broadcast_to(shared, (5, 3))), alike)
    second = 6 * WALKERS * shared**3
    assert len(found.product) == 2
    np.testing.assert_allclose(found.product[0][0], second * ALONG, rtol=1e-12)
    np.testing.assert_allclose(found.product[1][0], second * WALKERS, rtol=1e-12)
    np.testing.assert_array_equal(aux["y"], WALKERS * shared)


def test_a_set_that_fails_is_named_or_is_nan(connection: bh.Connection) -> None:
    def logdet(m: Any) -> Any:
        return bh.sum(bh.log(bh.diagonal(bh.linalg.cholesky(m))))

    sets = np.stack([np.eye(2), -np.eye(2), 4 * np.eye(2)])
    along = np.stack([np.eye(2)] * 3)
    curved = partial(bh.hvp, logdet)
    with pytest.raises(bh.LinearAlgebraError) as failed:
        bh.batched(curved, connection=connection)((sets,), (along,))
    assert failed.value.details["set"] == "1"
    found = bh.batched(curved, on_error="nan", connection=connection)((sets,), (along,))
    assert np.isnan(found.value[1])
    assert np.isnan(found.gradient[0][1]).all()
    assert np.isnan(found.product[0][1]).all()
    for i in (0, 2):
        alone = bh.hvp(logdet, (sets[i],), (along[i],), connection=connection)
        np.testing.assert_array_equal(found.product[0][i], alone.product[0])
    hessians = bh.batched(bh.hessian(logdet), on_error="nan", connection=connection)(sets)
    assert np.isnan(hessians[1]).all()
    np.testing.assert_array_equal(hessians[0], bh.hessian(logdet, connection=connection)(sets[0]))
    none = bh.batched(bh.hessian(logdet), on_error="nan", connection=connection)(sets[1:2])
    assert np.isnan(none).all()


def test_empty_arguments_and_complex_ones(connection: bh.Connection) -> None:
    many = bh.batched(bh.hessian(lambda x: bh.sum(x) + 1.0), connection=connection)
    assert many(np.zeros((4, 0))).shape == (4, 0, 0)
    with pytest.raises(bh.InvalidArgument) as refused:
        many(np.zeros((4, 2), complex))
    assert refused.value.reason in ("NOT_HOLOMORPHIC", "COMPLEX_LOSS")
    found = bh.batched(partial(bh.hvp, lambda z: bh.sum(bh.abs(z) ** 2)), connection=connection)(
        (WALKERS + 1j,), (1j * ALONG,)
    )
    np.testing.assert_allclose(found.product[0], 2j * ALONG)


def test_what_is_given_wrongly_is_told(connection: bh.Connection) -> None:
    curved = partial(bh.hvp, bowl, (WALKERS,))
    with pytest.raises(bh.InvalidArgument, match="functions alone"):
        bh.batched(curved)
    many = bh.batched(partial(bh.hvp, bowl), connection=connection)
    for wrong in ((WALKERS,), ((WALKERS,), (ALONG,), ALONG)):
        with pytest.raises(bh.InvalidArgument, match="primals and tangents"):
            many(*wrong)
    with pytest.raises(bh.TangentShapeMismatch):
        many((WALKERS,), (ALONG[:, :2],))
    with pytest.raises(bh.InvalidArgument, match="no form of"):
        bh.batched(bh.jacobian(bowl))
