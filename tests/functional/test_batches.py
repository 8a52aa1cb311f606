"""`batched`: many sets of arguments in one round trip."""

from __future__ import annotations

from collections import namedtuple
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both
from tests.functional.functions import RNG, A, bowl
from tests.functional.requests import watched

import backhaul as bh

WALKERS = RNG.normal(size=(5, 3))


@both
async def test_values_and_gradients_of_all_sets_in_one_trip(client: Client) -> None:
    module, where = client.bh, client.connection
    one = module.value_and_grad(bowl, connection=where)
    for f in (bowl, module.jit(bowl)):
        many = module.batched(module.value_and_grad(f, connection=where))
        before = client.trips()
        values, gradients = await client.ask(many(WALKERS))
        assert client.trips() == before + 1
        for i, x in enumerate(WALKERS):
            value, gradient = await client.ask(one(x))
            assert values[i] == value
            np.testing.assert_array_equal(gradients[i], gradient)
        before = client.trips()
        values = await client.ask(module.batched(f, connection=where)(WALKERS))
        assert client.trips() == before + 1
        np.testing.assert_allclose(values, [float(bowl(x)) for x in WALKERS], rtol=1e-13)


def test_a_jitted_function_is_called_once_for_all(connection: bh.Connection) -> None:
    f = bh.jit(bowl)
    many = bh.batched(bh.grad(f, connection=connection))
    many(WALKERS)
    many(WALKERS[:2])
    assert f.traces == 1


@pytest.mark.parametrize("jitted", [False, True])
def test_walkers_that_stay_make_no_other_block(
    connection: bh.Connection, monkeypatch: pytest.MonkeyPatch, jitted: bool
) -> None:
    requests = watched(connection, monkeypatch)
    data = np.random.default_rng(2).normal(size=(1000, 600))

    def logp(x: Any, data: Any) -> Any:
        return bh.sum(np.tanh(data @ x))

    many = bh.batched(bh.jit(logp) if jitted else logp, (0, None), connection=connection)
    rng = np.random.default_rng(1)
    walkers = rng.normal(size=(4, 600))  # more than is sent with each call anyway
    for i in range(6):
        values = many(walkers, data)
        np.testing.assert_allclose(values, np.tanh(data @ walkers.T).sum(0), rtol=1e-11)
        if i > 2:
            block = requests[-1].block
            assert block is not None
            assert block.block is None  # its hash alone
            assert sum(each.nbytes for each in requests[-1].tensors) == walkers.nbytes
        walkers = walkers + (rng.normal(size=4) > 0)[:, None] * 0.1


def test_axes_containers_and_arguments_by_name(connection: bh.Connection) -> None:
    Pair = namedtuple("Pair", "a b")

    def f(p: Any, shared: Any, scale: Any, *, shift: Any) -> Any:
        return bh.sum(p.a * shared) * scale + p.b * shift

    rng = np.random.default_rng(0)
    p = Pair(rng.normal(size=(2, 4)), rng.normal(size=4))  # sets on the last axis
    shared, scale, shift = rng.normal(size=2), rng.normal(size=4), rng.normal(size=4)
    many = bh.batched(bh.value_and_grad(f, (0, 1)), (-1, None, 0), connection=connection)
    values, (by_p, by_shared) = many(p, shared, scale, shift=shift)
    np.testing.assert_allclose(values, shared @ p.a * scale + p.b * shift)
    np.testing.assert_allclose(by_p.a, scale[:, None] * shared)
    np.testing.assert_allclose(by_p.b, shift)
    np.testing.assert_allclose(by_shared, (p.a * scale).T)


def test_values_in_containers_of_functions(connection: bh.Connection) -> None:
    def f(x: Any) -> dict[str, Any]:
        return {"sum": bh.sum(x), "sorted": bh.sort(x), "positive": x > 0, "one": 1.0}

    found = bh.batched(f, connection=connection)(WALKERS)
    np.testing.assert_allclose(found["sum"], WALKERS.sum(1))
    np.testing.assert_array_equal(found["sorted"], np.sort(WALKERS))
    np.testing.assert_array_equal(found["positive"], WALKERS > 0)
    np.testing.assert_array_equal(found["one"], np.ones(5))


def test_branches_are_those_of_each_set(connection: bh.Connection) -> None:
    def logp(x: Any) -> Any:
        return -bh.sum(x * x) if x[0] < 0 else bh.sum(x) * 0.0 - np.inf

    many = bh.batched(bh.value_and_grad(logp), connection=connection)
    values, gradients = many(np.array([[-1.0, 2.0], [1.0, 2.0]]))
    np.testing.assert_array_equal(values, [-5.0, -np.inf])
    np.testing.assert_array_equal(gradients, [[2.0, -4.0], [0.0, 0.0]])


def test_auxiliary_data_of_sets(connection: bh.Connection) -> None:
    f = bh.value_and_grad(lambda x: (bh.sum(x), A @ x), has_aux=True)
    (values, aux), gradients = bh.batched(f, connection=connection)(WALKERS)
    np.testing.assert_allclose(values, WALKERS.sum(1))
    np.testing.assert_allclose(aux, WALKERS @ A.T)
    np.testing.assert_array_equal(gradients, np.ones((5, 3)))


MATRICES = np.array([np.eye(2), np.zeros((2, 2)), 2 * np.eye(2)])


def inverse_sum(m: Any) -> Any:
    return bh.sum(bh.linalg.inv(m))


@both
async def test_a_set_that_fails_tells_which_it_is(client: Client) -> None:
    module, where = client.bh, client.connection
    for f in (module.grad(inverse_sum), inverse_sum):
        many = module.batched(f, connection=where)
        error = await client.error(bh.LinearAlgebraError, partial(many, MATRICES))
        assert error.details["set"] == "1"
        assert error.message.startswith("set 1: ")
        assert "source" in error.details


@both
async def test_the_others_of_a_set_that_fails(client: Client) -> None:
    module, where = client.bh, client.connection
    many = module.batched(
        module.value_and_grad(module.jit(inverse_sum)), on_error="nan", connection=where
    )
    values, gradients = await client.ask(many(MATRICES))
    assert client.trips() == 2
    np.testing.assert_array_equal(values, [2.0, np.nan, 1.0])
    ones = np.ones((2, 2))
    np.testing.assert_allclose(gradients, [-ones, np.nan * ones, -ones / 4])
    values = await client.ask(
        module.batched(inverse_sum, on_error="nan", connection=where)(MATRICES)
    )
    np.testing.assert_array_equal(values, [2.0, np.nan, 1.0])
    values, gradients = await client.ask(many(MATRICES[1:2]))
    np.testing.assert_array_equal(values, [np.nan])
    assert np.isnan(gradients).all()


def test_there_is_no_nan_among_integers(connection: bh.Connection) -> None:
    def signs(m: Any) -> Any:
        return bh.linalg.inv(m) > 0

    with pytest.raises(bh.LinearAlgebraError):
        bh.batched(signs, on_error="nan", connection=connection)(MATRICES)


def refused(reason: str, f: Any, *args: Any, match: str = "", **options: Any) -> None:
    with pytest.raises(bh.InvalidArgument, match=match) as error:
        bh.batched(f, **options)(*args)
    assert error.value.reason == reason


def test_what_is_refused(connection: bh.Connection) -> None:
    x = np.ones((2, 3))
    refused("INVALID_VALUE", bh.jacobian(bowl), x, match="jacobian")
    refused("INVALID_VALUE", bh.batched(bowl), x, match="batched")
    refused("INVALID_VALUE", 3, x, match="no function")
    refused("INVALID_VALUE", bowl, x, on_error="skip", match="on_error")
    refused("INVALID_VALUE", bowl, x, in_axes="0", match="in_axes")
    refused("INVALID_VALUE", bowl, x, in_axes=(0, 0), match="2 entries, and there are 1")
    refused("INVALID_VALUE", bowl, x, in_axes=None, match="how many sets")
    refused("INVALID_VALUE", bh.grad(bowl, has_aux=True), x, on_error="nan", match="auxiliary")
    refused("SHAPE_MISMATCH", bowl, x, in_axes=2, match=r"argument 0 has shape \(2, 3\)")
    refused("SHAPE_MISMATCH", bowl, 3.0, match="argument 0")
    refused("SHAPE_MISMATCH", bowl, np.ones((0, 3)), match="no sets")
    pair = {"a": np.ones(2), "b": np.ones(3)}
    refused("SHAPE_MISMATCH", bowl, pair, match=r"2 by argument 0\['a'\], 3 by argument 0\['b'\]")

    def uneven(x: Any) -> Any:
        return x[: int(x[0])]

    refused("SHAPE_MISMATCH", uneven, np.array([[1.0, 2.0], [2.0, 3.0]]), match="set 1")

    def otherwise(x: Any) -> Any:
        return (x, x) if x[0] > 1 else x

    refused("TREE_MISMATCH", otherwise, np.array([[1.0, 2.0], [2.0, 3.0]]), match="set 1")
