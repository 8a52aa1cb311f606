"""`jit`: programs that are recorded once, and when they are recorded again or not kept."""

from __future__ import annotations

import threading
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both
from tests.functional.functions import A, X, bowl, mlp, mlp_arguments
from tests.functional.requests import watched

import backhaul as bh
from backhaul.functional.kept_programs import MAX_PROGRAMS


@both
async def test_a_program_gives_what_the_function_gives(client: Client) -> None:
    module, where = client.bh, client.connection
    calls = []

    def counted(x: Any) -> Any:
        calls.append(x)
        return bowl(x)

    f = module.jit(counted, connection=where)
    plain, kept = (module.value_and_grad(each, connection=where) for each in (bowl, f))
    for i in range(4):
        expected, found = await client.ask(plain(X + i)), await client.ask(kept(X + i))
        assert found[0] == expected[0]
        np.testing.assert_array_equal(found[1], expected[1])
    assert (len(calls), f.traces, client.trips()) == (1, 1, 8)
    assert await client.ask(f(X)) == pytest.approx(float(bowl(X)))
    assert f.traces == 2  # for its value alone
    for _ in range(3):
        H = await client.ask(module.hessian(f, connection=where)(X))
        product = await client.ask(module.hvp(f, (X,), (X,), connection=where))
        np.testing.assert_allclose(product.product[0], H @ X, rtol=1e-12)
    assert f.traces == 4
    assert "jit" in repr(f)


def test_a_later_call_is_one_small_message(
    connection: bh.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = watched(connection, monkeypatch)
    params, x, y = mlp_arguments()
    wide = np.random.default_rng(0).normal(size=(5000, 2))
    many = np.random.default_rng(1).normal(size=5000)
    f = bh.value_and_grad(bh.jit(mlp), connection=connection)
    for _ in range(4):
        f(params, wide, many)
    first, last = requests[0], requests[-1]
    assert first.block is not None
    assert first.block.block is not None
    assert last.block is not None
    assert last.block.block is None  # its hash alone
    # The parameters; the data of the first call are there still.
    assert sum(each.nbytes for each in last.tensors) == (8 + 4 + 4 + 1) * 8
    f(params, x, y)
    f(params, x, y)  # small data are sent each time
    assert sum(each.nbytes for each in requests[-1].tensors) == (8 + 4 + 4 + 1 + 12 + 6) * 8


def test_without_jit_a_later_call_is_a_small_message_too(
    connection: bh.Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    requests = watched(connection, monkeypatch)
    f = bh.grad(bowl, connection=connection)
    for i in range(4):
        f(X + i)
    block = requests[-1].block
    assert block is not None
    assert block.block is None
    assert sum(each.nbytes for each in requests[-1].tensors) == X.nbytes


def test_equal_arrays_at_the_first_call_are_told_apart_later(connection: bh.Connection) -> None:
    pair = np.array([1.0, 2.0])
    three = np.array([1.0, 2.0])
    f = bh.jit(lambda x, a, b: bh.sum(x * a - b * three))
    g = bh.value_and_grad(f, connection=connection)
    assert float(g(pair, pair, pair)[0]) == 0.0
    value, gradient = g(pair, np.array([10.0, 20.0]), np.array([1.0, 1.0]))
    assert float(value) == 50.0 - 3.0
    np.testing.assert_array_equal(gradient, [10.0, 20.0])
    assert f.traces == 1


def test_when_it_is_recorded_again(connection: bh.Connection) -> None:
    def scaled(x: Any, factor: Any, kind: str = "sum", *, power: Any = 1) -> Any:
        y = x**power * factor
        return bh.sum(y) if kind == "sum" else bh.mean(y)

    f = bh.jit(scaled)
    g = bh.grad(f, connection=connection)
    x = np.array([1.0, 2.0])

    def traced(*args: Any, **kwargs: Any) -> tuple[int, list[float]]:
        before = f.traces
        found = np.ravel(g(*args, **kwargs)).tolist()
        np.testing.assert_allclose(
            found, np.ravel(bh.grad(scaled, connection=connection)(*args, **kwargs))
        )
        return f.traces - before, found

    assert traced(x, 2.0) == (1, [2.0, 2.0])
    assert traced(x + 1, 2.0) == (0, [2.0, 2.0])
    assert traced(x, 3.0) == (1, [3.0, 3.0])  # a number is part of the key
    assert traced(x, 3) == (1, [3.0, 3.0])  # and so is its type
    assert traced(x, np.float64(3.0))[0] == 1  # an array is not
    assert traced(x, np.float64(5.0)) == (0, [5.0, 5.0])
    assert traced(x, np.array(7.0)) == (0, [7.0, 7.0])
    assert traced(x, np.float32(5.0))[0] == 1  # another dtype
    assert traced(np.ones(3), 2.0)[0] == 1  # another shape
    assert traced(x, 2.0, "mean") == (1, [1.0, 1.0])
    assert traced(x, 2.0, kind="mean")[0] == 1
    assert traced(x, 2.0, power=2) == (1, [4.0, 8.0])
    assert traced(x, 2.0, power=2) == (0, [4.0, 8.0])
    assert traced(x, 2.0, power=np.array([2.0, 3.0])) == (1, [4.0, 24.0])
    assert traced(x, 0.0)[0] == 1
    assert traced(x, -0.0)[0] == 1  # not the same number
    assert traced(1.5, 2.0)[0] == 1
    assert traced(2.5, 2.0)[0] == 0  # what is differentiated is an array
    f.clear()
    assert traced(x, 2.0)[0] == 1


def test_branches_on_values_are_taken_anew_at_each_call(connection: bh.Connection) -> None:
    def f(x: Any) -> Any:
        return bh.sum(x * x) if x[0] > 0 else bh.sum(x)

    kept = bh.jit(f)
    g = bh.grad(kept, connection=connection)
    for sign in (1.0, -1.0, 1.0, -1.0):
        x = np.array([sign, 2.0])
        np.testing.assert_array_equal(g(x), 2 * x if sign > 0 else [1.0, 1.0])
    assert kept.traces == 4

    # Known values need no trip, and are looked at all the same.
    halved = bh.jit(lambda x: x * float(x))
    h = bh.grad(halved, connection=connection)
    assert [float(h(each)) for each in (2.0, 3.0, 4.0)] == [2.0, 3.0, 4.0]


def test_data_that_decide_a_branch(connection: bh.Connection) -> None:
    def f(x: Any, mask: Any) -> Any:
        return bh.sum(x[mask] ** 2) if mask.any() else bh.sum(x)

    kept = bh.jit(f)
    g = bh.grad(kept, connection=connection)
    x = np.arange(1.0, 4.0)
    trips = []
    for mask in ([True, False, True], [False, True, False], [False, False, False]):
        expected = 2 * x * mask if any(mask) else np.ones(3)
        before = connection.calls["Execute"]
        np.testing.assert_array_equal(g(x, np.array(mask)), expected)
        trips.append(connection.calls["Execute"] - before)
    assert trips[1:] == [1, 1]  # what looks at its data is given them as they are


def test_questions_inside_a_function_are_asked_anew(connection: bh.Connection) -> None:
    def f(x: Any) -> Any:
        step = x.tape.pullback(bh.sum(x * x))[x]
        return bh.sum(x * step)

    g = bh.grad(bh.jit(f), connection=connection)
    for x in (np.ones(2), np.full(2, 3.0)):
        np.testing.assert_array_equal(g(x), 2 * x)


def test_what_is_read_from_outside_is_a_constant_until_cleared(connection: bh.Connection) -> None:
    scale = [np.array([2.0, 2.0])]
    f = bh.jit(lambda x: bh.sum(x * scale[0]))
    g, plain = bh.grad(f, connection=connection), bh.grad(f.function, connection=connection)
    x = np.ones(2)
    assert g(x).tolist() == plain(x).tolist() == [2.0, 2.0]
    scale[0] = np.array([5.0, 5.0])
    assert plain(x).tolist() == [5.0, 5.0]
    assert g(x).tolist() == [2.0, 2.0]
    f.clear()
    assert g(x).tolist() == [5.0, 5.0]


def test_a_gauss_newton_program_needs_both_to_be_jitted(connection: bh.Connection) -> None:
    scale = [1.0]
    f, loss = bh.jit(lambda w: np.sin(A @ w)), bh.jit(lambda out: bh.sum(out**2) * scale[0])

    def product(of: Any) -> Any:
        found = bh.gauss_newton_product(f, of, (X,), (X,), connection=connection)
        return found.product[0]

    first = product(loss)
    np.testing.assert_array_equal(product(loss), first)
    assert f.traces == 1
    np.testing.assert_array_equal(product(loss.function), first)
    assert f.traces == 1  # it is called as it is, and nothing is kept of it
    scale[0] = 2.0
    np.testing.assert_array_equal(product(loss), first)
    np.testing.assert_array_equal(product(loss.function), 2 * first)
    loss.clear()
    np.testing.assert_array_equal(product(loss), 2 * first)


def test_auxiliary_data_of_a_program(connection: bh.Connection) -> None:
    table = np.arange(3.0)

    def f(x: Any) -> Any:
        return bh.sum(x), {"x": x, "table": table, "text": "same", "none": None}

    kept = bh.jit(f)
    g = bh.grad(kept, has_aux=True, connection=connection)
    for i in range(3):
        _, aux = g(X + i)
        np.testing.assert_array_equal(aux["x"], X + i)
        np.testing.assert_array_equal(aux["table"], table)
        if i:
            aux["table"][:] = 99.0  # the caller's own
    assert kept.traces == 1
    box = bh.jit(lambda x: (bh.sum(x), object()))
    g = bh.grad(box, has_aux=True, connection=connection)
    first, second = g(X)[1], g(X)[1]
    assert first is not second  # what may change is made anew
    assert box.traces == 2


def test_static_arguments(connection: bh.Connection) -> None:
    def f(x: Any, how: Any, names: Any = ()) -> Any:
        return how(x) * len(names) if names else how(x)

    kept = bh.jit(f, static_argnums=1, static_argnames="names")
    g = bh.grad(kept, connection=connection)
    np.testing.assert_array_equal(g(X, bh.sum), np.ones(3))
    np.testing.assert_allclose(g(X, bh.mean), np.ones(3) / 3)
    np.testing.assert_array_equal(g(X, bh.sum, names=("a", "b")), np.full(3, 2.0))
    np.testing.assert_array_equal(g(X, bh.sum, names=("a", "b")), np.full(3, 2.0))
    assert kept.traces == 3
    with pytest.raises(
        bh.InvalidArgument, match=r"argument 'names' is static.*list is not hashable"
    ):
        g(X, bh.sum, names=["a"])
    with pytest.raises(
        bh.InvalidArgument, match=r"a builtin_function_or_method|a function.*static_argnums"
    ):
        bh.grad(bh.jit(f), connection=connection)(X, bh.sum)
    with pytest.raises(bh.InvalidArgument, match="static_argnames"):
        bh.jit(f, static_argnames=[1])  # type: ignore[list-item]
    with pytest.raises(bh.InvalidArgument, match="static_argnums"):
        bh.jit(f, static_argnums="x")  # type: ignore[arg-type]
    with pytest.raises(bh.InvalidArgument, match="no function"):
        bh.jit(3)  # type: ignore[arg-type]


def test_a_jitted_function_inside_another_is_itself(connection: bh.Connection) -> None:
    inner = bh.jit(lambda x: np.sin(x))
    np.testing.assert_allclose(
        bh.grad(lambda x: bh.sum(inner(x)), connection=connection)(X), np.cos(X)
    )
    assert inner.traces == 0
    assert bh.jit(inner).function is inner.function


def test_a_jitted_method(connection: bh.Connection) -> None:
    class Model:
        scale = 2.0

        @partial(bh.jit, static_argnums=0, connection=connection)
        def loss(self, x: Any) -> Any:
            return bh.sum(x) * self.scale

    model = Model()
    assert float(model.loss(np.ones(2))) == 4.0
    np.testing.assert_array_equal(bh.grad(model.loss, connection=connection)(X), np.full(3, 2.0))
    whole = bh.grad(Model.loss, 1)
    np.testing.assert_array_equal(whole(model, X), np.full(3, 2.0))
    np.testing.assert_array_equal(whole(model, X), np.full(3, 2.0))
    assert Model.loss.traces == 2


def test_programs_used_last_are_kept(connection: bh.Connection) -> None:
    f = bh.jit(lambda x, n: bh.sum(x) * n)
    g = bh.grad(f, connection=connection)
    for n in range(1, MAX_PROGRAMS + 3):
        g(X, n)
    assert f.traces == MAX_PROGRAMS + 2
    g(X, MAX_PROGRAMS + 2)
    assert f.traces == MAX_PROGRAMS + 2
    g(X, 1)  # the oldest are forgotten
    assert f.traces == MAX_PROGRAMS + 3


def test_several_results_of_an_op_and_leaves_inside(connection: bh.Connection) -> None:
    noise = np.random.default_rng(5)

    def f(m: Any) -> Any:
        values, vectors = bh.linalg.eigh(m @ m.T)
        inside = m.tape.leaf(noise.normal(size=2))
        return bh.sum(np.log(values + 5.0)) + bh.sum(inside * 0.0) + bh.sum(vectors**2)

    m = np.random.default_rng(1).normal(size=(2, 2))
    kept = bh.jit(f)
    for i in range(3):
        expected = bh.grad(f, connection=connection)(m + i)
        np.testing.assert_allclose(
            bh.grad(kept, connection=connection)(m + i), expected, rtol=1e-12, atol=1e-14
        )
    assert kept.traces == 1


def test_a_failed_step_of_a_program_tells_the_users_line(connection: bh.Connection) -> None:
    def f(m: Any) -> Any:
        return bh.sum(bh.linalg.inv(m))  # this line

    line = f.__code__.co_firstlineno + 1
    g = bh.grad(bh.jit(f), connection=connection)
    g(np.eye(2))
    for _ in range(2):
        with pytest.raises(bh.LinearAlgebraError) as error:
            g(np.zeros((2, 2)))
        assert error.value.details["source"] == f"{__file__}:{line}"
        np.testing.assert_array_equal(g(np.eye(2)), -np.ones((2, 2)))


def test_threads_share_a_program(connection: bh.Connection) -> None:
    f = bh.jit(bowl)
    g = bh.grad(f, connection=connection)
    expected = [g(X + i) for i in range(8)]
    wrong: list[int] = []

    def work(i: int) -> None:
        for _ in range(20):
            if not np.array_equal(g(X + i), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(8)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    assert wrong == []
    assert f.traces == 1
