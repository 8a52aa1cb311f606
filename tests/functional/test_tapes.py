"""The tapes behind functions: used again, by one call at a time, and made anew when the server lost them."""

from __future__ import annotations

import gc
import threading
from typing import Any

import numpy as np
import pytest
from tests.aio.clients import Client, both
from tests.chaos.restarted import restarted
from tests.functional.functions import X, bowl

import backhaul as bh
import backhaul.aio
from backhaul.functional.tapes import IDLE_TAPES


def test_a_server_that_was_restarted_is_not_noticed() -> None:
    with restarted() as server, bh.connect(server.target, timeout=60) as connection:
        calls = []

        def f(x: Any) -> Any:
            calls.append(x)
            return bowl(x)

        g, kept = bh.grad(f, connection=connection), bh.grad(bh.jit(f), connection=connection)
        expected = g(X)
        np.testing.assert_array_equal(kept(X), expected)
        assert len(calls) == 2
        server.restart()
        np.testing.assert_array_equal(kept(X), expected)
        assert len(calls) == 2
        server.restart()
        np.testing.assert_array_equal(g(X), expected)
        assert len(calls) == 4  # called again, on a new tape
        server.restart()
        _, pull = bh.vjp(f, X, connection=connection)
        np.testing.assert_array_equal(pull(1.0)[0], expected)
        server.restart()
        with pytest.raises(bh.SessionLost):  # its tape held what was computed
            pull(1.0)
        del pull
        np.testing.assert_array_equal(g(X), expected)


def test_a_server_that_was_restarted_is_not_noticed_when_awaited() -> None:
    import asyncio

    async def main(server: Any) -> None:
        async with bh.aio.connect(server.target, timeout=60) as connection:
            g = bh.aio.grad(bowl, connection=connection)
            expected = await g(X)
            server.restart()
            np.testing.assert_array_equal(await g(X), expected)
            server.restart()
            _, pull = await bh.aio.vjp(bowl, X, connection=connection)
            np.testing.assert_array_equal((await pull(1.0))[0], expected)

    with restarted() as server:
        asyncio.run(main(server))


def test_calls_at_the_same_time_have_tapes_of_their_own(connection: bh.Connection) -> None:
    inside = threading.Barrier(3, timeout=60)
    found: dict[int, Any] = {}

    def f(x: Any, i: int) -> Any:
        y = x * float(i)
        if threading.current_thread() is not threading.main_thread():
            inside.wait()
        return bh.sum(y * y)

    g = bh.grad(f, connection=connection)

    def work(i: int) -> None:
        found[i] = g(X, i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(3)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    for i in range(3):
        np.testing.assert_allclose(found[i], 2 * i * i * X)
    assert len(connection.idle_tapes) >= 3
    before = connection.calls["Execute"]
    g(X, 1)
    assert connection.calls["Execute"] == before + 1


def test_a_function_may_call_another_one_on_arrays(connection: bh.Connection) -> None:
    inner = bh.value_and_grad(bowl, connection=connection)
    outer = bh.grad(lambda x: bh.sum(x) * inner(X)[0], connection=connection)
    np.testing.assert_allclose(outer(X), np.full(3, float(bowl(X))))


def test_few_tapes_are_kept() -> None:
    with bh.connect("embedded") as connection:
        pulls = [bh.vjp(bowl, X + i, connection=connection)[1] for i in range(IDLE_TAPES + 3)]
        expected = [bh.grad(bowl, connection=connection)(X + i) for i in range(len(pulls))]
        for pull, each in zip(pulls, expected, strict=True):
            np.testing.assert_array_equal(pull(1.0)[0], each)
        del pull, pulls
        gc.collect()
        assert len(connection.idle_tapes) == IDLE_TAPES


@both
async def test_a_pullback_holds_its_tape_until_it_is_dropped(client: Client) -> None:
    module, where = client.bh, client.connection
    _, pull = await client.ask(module.vjp(lambda x: x * x, X, connection=where))
    await client.ask(module.grad(bowl, connection=where)(X))
    np.testing.assert_array_equal((await client.ask(pull(X)))[0], 2 * X * X)
    assert len(where.idle_tapes) == 1
    del pull
    gc.collect()
    assert len(where.idle_tapes) == 2
    before = client.trips()
    await client.ask(module.grad(bowl, connection=where)(X))
    assert client.trips() == before + 1


@both
async def test_what_a_failed_call_recorded_is_not_sent_later(client: Client) -> None:
    module, where = client.bh, client.connection
    leaked = []

    def f(x: Any, fail: bool) -> Any:
        y = x * x * 3.0
        if fail:
            leaked.append(y)
            raise ValueError("rejected")
        return module.sum(y)

    g = module.grad(f, connection=where)
    await client.ask(g(X, False))
    with pytest.raises(ValueError, match="rejected"):
        await client.ask(g(X, True))
    np.testing.assert_allclose(await client.ask(g(X, False)), 6 * X)
    assert dict(where.calls) == {"Execute": 2}
    with pytest.raises(bh.MissingNode):
        await client.ask(leaked[0].numpy())
    np.testing.assert_allclose(await client.ask(g(X, False)), 6 * X)
    *_, session = await client.ask(where.sessions())
    assert session.info.nodes < 20


@both
async def test_a_call_is_freed_before_the_next_one_is_run(client: Client) -> None:
    module, where = client.bh, client.connection

    def f(x: Any) -> Any:
        y = x
        for _ in range(20):
            y = np.sin(y)
        return module.sum(y), y

    large = np.ones(10_000)
    takes: list[tuple[Any, tuple[Any, ...]]] = [
        (module.grad(f, has_aux=True, connection=where), (large,)),
        (module.grad(module.jit(f), has_aux=True, connection=where), (large,)),
        (module.batched(module.grad(f, has_aux=True), connection=where), (large[None],)),
        (module.batched(f, connection=where), (large[None],)),
        (lambda x: module.hvp(f, (x,), (x,), has_aux=True, connection=where), (large,)),
        (lambda x: module.jvp(f, (x,), (x,), connection=where), (large,)),
    ]
    for take, args in takes:
        for _ in range(3):
            await client.ask(take(*args))
            *_, session = await client.ask(where.sessions())  # a call, and the next one
            assert session.info.bytes < 2 * large.nbytes, take  # data are kept as a constant
    assert where.calls["Execute"] == 3 * len(takes)


def test_with_recovery_it_goes_on_as_well() -> None:
    with restarted() as server, bh.connect(server.target, timeout=60, recover=True) as connection:
        g = bh.grad(bh.jit(bowl), connection=connection)
        expected = g(X)
        g(X + 1)
        server.restart()
        np.testing.assert_array_equal(g(X), expected)
        _, pull = bh.vjp(bh.jit(bowl), X, connection=connection)
        server.restart()
        np.testing.assert_array_equal(pull(1.0)[0], expected)


def test_a_closed_connection_says_so() -> None:
    connection = bh.connect("embedded")
    g = bh.grad(bowl, connection=connection)
    g(X)
    connection.close()
    with pytest.raises(bh.BackhaulError) as error:
        g(X)
    assert error.value.reason == "CONNECTION_CLOSED"


def test_a_jitted_function_says_where_its_derivatives_are_computed() -> None:
    with bh.connect("embedded") as first, bh.connect("embedded") as second:
        f = bh.jit(bowl, connection=first)
        g = bh.grad(f)
        g(X)
        bh.hessian(f)(X)
        bh.hvp(f, (X,), (X,))
        bh.vjp(f, X)
        bh.batched(g)(X[None])
        bh.batched(f)(X[None])
        assert first.calls["Execute"] == 6
        bh.grad(f, connection=second)(X)
        bh.batched(g, connection=second)(X[None])
        assert (first.calls["Execute"], second.calls["Execute"]) == (6, 2)


def test_in_a_forked_process_it_is_an_error_and_no_hang(target: str) -> None:
    with bh.connect(target, timeout=60) as connection:
        g = bh.grad(bowl, connection=connection)
        expected = g(X)
        (tape,) = connection.idle_tapes
        tape._core._process += 1  # as it looks to a child
        tape._core.recorder.lock.acquire()  # and as another thread may have left it
        with pytest.raises(bh.Unavailable) as error:
            g(X)
        assert error.value.reason == "FORKED"
        tape._core.recorder.lock.release()
        np.testing.assert_array_equal(g(X), expected)


def test_the_default_connection_is_taken_where_none_is_named() -> None:
    np.testing.assert_array_equal(bh.grad(bh.sum)(X), np.ones(3))
    np.testing.assert_array_equal(bh.hvp(bowl, (X,), (X,)).gradient[0], bh.grad(bowl)(X))
